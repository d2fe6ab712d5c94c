"""A reply as it comes, for who watches: its end, in the heartbeats of its activity.

The price: nothing in the history. Only the newest heartbeat is kept, by the server, until the activity has ended; one
that ends because its worker died leaves it in that failure, a few hundred bytes.
"""

import time
from collections.abc import Callable

from activities.boundary import tell
from core.content import clean, one_line

SHOWN_CHARACTERS = 200
"""So much of the end is shown."""

EVERY_SECONDS = 0.5
"""Pieces come hundreds a second; so often they are told, and the SDK sends them about once a second."""


class StreamedText:
    """Takes the pieces of a reply. Cheap: it keeps its end, and now and then tells it."""

    def __init__(self, say: Callable[[str], None] = tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._end = ""
        self._said = ""
        self._said_at = float("-inf")

    def __call__(self, piece: str) -> None:
        """Take a piece; an empty one is only a sign of life."""
        self._end = (self._end + piece[-SHOWN_CHARACTERS:])[-SHOWN_CHARACTERS:]
        now = self._clock()
        if now - self._said_at < EVERY_SECONDS:
            return
        shown = one_line(clean(self._end), SHOWN_CHARACTERS)
        if shown != self._said:
            self._said, self._said_at = shown, now
            self._say(shown)
