"""Contact with Temporal: an attempt that gave no sign of life for too long has been given up, and must not go on.

A worker that is only frozen (stopped, swapped out, its machine suspended) wakes up and goes on where it was, while its
calls have long been taken for lost. So a tool that asks before its effect (`context.check()`) learns it there.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass
class Contact:
    """When an attempt gave its last sign of life. Once it was silent for as long as `timeout`, it is lost for good."""

    timeout: timedelta | None = None
    _heard: float = field(default_factory=time.monotonic)
    _lost: bool = False

    @property
    def lost(self) -> bool:
        """Whether Temporal has given the attempt up: what it does now may be done elsewhere, too."""
        if self.timeout is not None and time.monotonic() - self._heard > self.timeout.total_seconds():
            self._lost = True
        return self._lost

    def made(self) -> None:
        """Note a sign of life; it does not bring back what was lost."""
        if not self.lost:
            self._heard = time.monotonic()


CONTACT: ContextVar[Contact] = ContextVar("contact")
"""That of the activity that runs here."""
