"""The event loop of async tools, in a thread of its own: one that blocks it stops no heartbeat and no other activity.

A loop that does not answer is blocked by the tool that runs on it at that moment: it is named in the log and
interrupted. If that does not help, new calls get a new loop, and those on the old one fail: nothing waits for ever.
"""

import asyncio
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import structlog

from activities.containment import LOOK_SECONDS, STOP_SECONDS, ToolCrashed, contained_async, harmless
from activities.stepped_loop import SteppedLoop, owner

log = structlog.get_logger(__name__)

BLOCKED_SECONDS = 5.0
"""A loop that has not answered for so long is blocked."""
LOOKS = 5
"""So often in this time it is looked at: a pause of the whole worker counts as one look, and blocks nothing."""


class _Call:
    """One call on the loop. `ended` says so only when nothing of it runs any more."""

    def __init__(self, work: Callable[[], Awaitable[object]], name: str) -> None:
        self.ended: Future[object] = Future()
        self.name = name
        self._work = work
        self._task: asyncio.Task[object] | None = None
        self._begun = False

    def start(self) -> None:
        """Start it; on its loop."""
        owner.set(self)
        self._task = asyncio.get_running_loop().create_task(self._do(), name=self.name)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel it; on its loop."""
        if self._task is not None:
            self._task.cancel()

    async def _do(self) -> object:
        self._begun = self.ended.set_running_or_notify_cancel()
        if not self._begun:
            raise asyncio.CancelledError  # nobody waits for it any more: its loop was blocked for long
        return await contained_async(self._work())

    def _end(self, task: "asyncio.Task[object]") -> None:
        if self.ended.cancelled() or not (self._begun or self.ended.set_running_or_notify_cancel()):
            return
        if task.cancelled():
            self.ended.set_exception(ToolCrashed("it was cancelled"))
        elif (error := task.exception()) is not None:
            self.ended.set_exception(harmless(error))
        else:
            self.ended.set_result(task.result())


@dataclass
class _Watched:
    """A loop, and how it answers."""

    loop: SteppedLoop = field(default_factory=SteppedLoop)
    silent_looks: int = 0
    """How many looks in a row found that it owes an answer."""
    given_up: bool = False
    culprit: str = ""
    _asked: bool = False
    _looked: float = 0.0
    _step: int = -1
    """The step that it was in at the last look."""
    _stuck: bool = False
    """Whether it was in the same one at the look before."""
    _interrupted: bool = False

    def look(self, every_seconds: float) -> None:
        """Ask for an answer, or note that it owes one; not more often than this."""
        now = time.monotonic()
        if now - self._looked < every_seconds:
            return
        self._looked = now
        self._stuck, self._step = self._step == self.loop.steps, self.loop.steps
        if self._asked:
            self.silent_looks += 1
        else:
            self._asked = True
            self.loop.call(self._answer)

    def unblock(self) -> None:
        """Interrupt what keeps it, once, and name it."""
        if not self.culprit:
            running = self.loop.running
            self.culprit = running.name if isinstance(running, _Call) else "an async tool"
            log.error("an async tool blocks the event loop; declare it with def, or await", tool=self.culprit)
        if self._stuck and not self._interrupted:
            self._interrupted = self.loop.interrupt(self._step)

    def give_up(self) -> None:
        """Let it go: it ends when it can."""
        if not self.given_up:
            log.error("the event loop of the async tools was given up; new calls get another one", tool=self.culprit)
            self.given_up = True
            self.loop.stop()

    def _answer(self) -> None:
        self.silent_looks, self.culprit = 0, ""
        self._asked = self._interrupted = False


class ToolLoop:
    """Runs async tools. `blocked_seconds` is how long one may keep the loop from answering."""

    def __init__(self, blocked_seconds: float = BLOCKED_SECONDS) -> None:
        self._every_seconds = blocked_seconds / LOOKS
        self._current: list[_Watched] = []
        """The loop that new calls get, once there is one."""
        weakref.finalize(self, _stop, self._current)

    async def run(
        self, work: Callable[[], Awaitable[object]], name: str, stopped: threading.Event, *, keep_late: bool = False
    ) -> object:
        """Run work on the loop and return its result. On a cancel it is cancelled, waited for, and left behind.

        With `keep_late`, work that came to its end in that moment is reported as done, because it is.

        Raises:
            ToolCrashed: it, or another tool on the same loop, blocked the loop.
        """
        watched, call = self._living(), _Call(work, name)
        watched.loop.call(call.start)
        waiting = asyncio.wrap_future(call.ended)
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=self._every_seconds)
                if not waiting.done():
                    self._look_after(watched)
        except asyncio.CancelledError:
            stopped.set()
            watched.loop.call(call.cancel)
            await _end(watched, call, waiting)
            ended_well = waiting.done() and waiting.exception() is None
            if not (keep_late and ended_well):
                raise
        finally:
            call.ended.cancel()  # if it has not begun yet, it never will
            waiting.cancel()
        return waiting.result()

    def _living(self) -> _Watched:
        if not self._current or self._current[0].given_up:
            self._current[:] = [_Watched()]
        return self._current[0]

    def _look_after(self, watched: _Watched) -> None:
        """Interrupt the tool that keeps the loop; when that does not help, give the loop up.

        Raises:
            ToolCrashed: it was given up: what runs on it is lost.
        """
        watched.look(self._every_seconds)
        if watched.silent_looks >= LOOKS:
            watched.unblock()
        if watched.silent_looks >= 2 * LOOKS:
            watched.give_up()
        if watched.given_up:
            raise ToolCrashed(
                f"{watched.culprit} blocks the event loop of the async tools, also this call's: declare it with def"
            )


async def _end(watched: _Watched, call: _Call, waiting: "asyncio.Future[object]") -> None:
    """Wait for the end of a cancelled call. One that does not hear of it, because it keeps the loop, is interrupted."""
    await asyncio.wait([waiting], timeout=STOP_SECONDS)
    for _ in range(4 * LOOKS):
        if waiting.done() or watched.loop.running is not call:
            return
        watched.look(LOOK_SECONDS)
        if watched.silent_looks >= LOOKS:
            watched.unblock()
        await asyncio.wait([waiting], timeout=LOOK_SECONDS)
    if not waiting.done() and watched.loop.running is call:
        watched.give_up()


def _stop(loops: list[_Watched]) -> None:
    for watched in loops:
        watched.loop.stop()
