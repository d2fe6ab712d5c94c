"""Watching a run: one stream of events from now until it has ended, through whatever dies and comes back meanwhile.

It polls: the server says whether the run is open, a worker says how far it is. That costs a few milliseconds a second
and no slot that the run itself needs, and it survives restarts of both.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from core.errors import InputError
from core.frozen import Frozen
from core.pending import PendingCall
from core.view import Progress, StateView, new_lines
from infra.runs import Ending, NoWorker, Runs
from infra.temporal import ServerUnavailable

_NUMBERS = re.compile(r"\d+")
POLL = timedelta(milliseconds=500)
LONGEST_POLL = timedelta(seconds=5)


class Line(Frozen):
    """One thing that happened, in a line."""

    kind: Literal["line"] = "line"
    text: str


class Moved(Frozen):
    """The run is elsewhere now: phase, turn, running tools, usage."""

    kind: Literal["progress"] = "progress"
    progress: Progress


class Saying(Frozen):
    """The model writes: the end of its reply so far. A preview; what counts is the reply, which comes as a line."""

    kind: Literal["saying"] = "saying"
    text: str


class Asks(Frozen):
    """A call began to wait for a person."""

    kind: Literal["approval"] = "approval"
    run: str
    call: PendingCall


class Trouble(Frozen):
    """Something keeps the run from moving or from being seen; watching goes on."""

    kind: Literal["trouble"] = "trouble"
    why: str


class Recovered(Frozen):
    """The trouble is over."""

    kind: Literal["recovered"] = "recovered"


class Ended(Frozen):
    """The last event."""

    kind: Literal["ended"] = "ended"
    ending: Ending


Event = Line | Moved | Saying | Asks | Trouble | Recovered | Ended


@dataclass
class _Watch:
    """What was seen so far."""

    runs: Runs
    run: str
    state: StateView | None = None
    progress: Progress | None = None
    asked: set[tuple[str, str]] = field(default_factory=set)
    trouble: str = ""
    saying: str = ""

    async def look(self) -> list[Event]:
        """Look once and return what is new."""
        try:
            info = await self.runs.info(self.run)
            if info.status != "running":
                return await self._end()
            if info.trouble:
                return self._troubled(info.trouble)
            progress = await self.runs.progress(self.run)
            said = self._says(info.saying)
            if progress == self.progress:
                return [*self._recovered(), *said]
            state = await self.runs.state(self.run)
        except ServerUnavailable as error:
            return self._troubled(f"{error} Reconnecting.")
        except NoWorker as error:
            return self._troubled(str(error))
        self.progress = progress
        return [*self._recovered(), *self._seen(state), Moved(progress=progress), *said]

    async def _end(self) -> list[Event]:
        ending = await self.runs.ending(self.run)
        if ending is None:  # it was closed and started again between the two questions
            return []
        try:
            last = self._seen(await self.runs.state(self.run))
        except (NoWorker, InputError):
            last = []
        return [*self._recovered(), *last, Ended(ending=ending)]

    def _seen(self, state: StateView) -> list[Event]:
        lines = [Line(text=text) for text in new_lines(self.state, state)]
        asks = [Asks(run=self.run, call=call) for call in state.pending if (call.id, call.doubt) not in self.asked]
        self.state = state
        self.asked |= {(call.id, call.doubt) for call in state.pending}
        return [*lines, *asks]

    def _says(self, text: str) -> list[Event]:
        if text == self.saying:
            return []
        self.saying = text
        return [Saying(text=text)] if text else []

    def _troubled(self, why: str) -> list[Event]:
        if _NUMBERS.sub("", why) == _NUMBERS.sub("", self.trouble):  # the count of attempts is no news
            return []
        self.trouble = why
        return [Trouble(why=why)]

    def _recovered(self) -> list[Event]:
        if not self.trouble:
            return []
        self.trouble = ""
        return [Recovered()]


async def follow(runs: Runs, run: str) -> AsyncIterator[Event]:
    """Yield what happens to a run, first its newest lines; `Ended` is the last event.

    Survives restarts of worker and server; while there is trouble it looks less often, every 5 seconds at least.

    Raises:
        RunNotFound, InputError: there is no such run, or it can't be read.
    """
    watch = _Watch(runs, run)
    pause = POLL
    while True:
        for event in await watch.look():
            yield event
            if isinstance(event, Ended):
                return
        pause = min(pause * 2, LONGEST_POLL) if watch.trouble else POLL
        await asyncio.sleep(pause.total_seconds())
