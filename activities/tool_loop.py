"""The event loop of async tools, in a thread of its own: one that blocks it stops no heartbeat and no other activity.

A loop that does not answer is blocked by the tool that runs on it at that moment: it is named in the log and
interrupted. If that does not help, new calls get a new loop, and those on the old one fail: nothing waits for ever.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from activities.containment import STOP_SECONDS, Interrupted, ToolCrashed, contained_async, raise_in

log = structlog.get_logger(__name__)

BLOCKED_SECONDS = 5.0
"""A loop that has not answered for so long is blocked."""
PINGS = 5
"""So often in this time it is asked."""


@dataclass
class _Loop:
    """A running loop: its thread, when it last answered, and what was done about its silence."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    answered: float = field(default_factory=time.monotonic)
    pinged: bool = False
    interrupted: bool = False
    culprit: str = ""

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="async-tools", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        except Interrupted:
            # It came up between two tools: this loop has ended, and `silence` says so for ever.
            log.warning("the loop of the async tools was interrupted; a new one takes over")

    def ping(self) -> None:
        """Ask for an answer, unless it is asked already."""
        if not self.pinged:
            self.pinged = True
            self.loop.call_soon_threadsafe(self._answer)

    def silence(self) -> float:
        """Return for how many seconds it owes an answer."""
        return time.monotonic() - self.answered if self.pinged else 0.0

    def _answer(self) -> None:
        self.answered = time.monotonic()
        self.pinged = self.interrupted = False


class ToolLoop:
    """Runs async tools. `blocked_seconds` is how long one may keep the loop from answering."""

    def __init__(self, blocked_seconds: float = BLOCKED_SECONDS) -> None:
        self._blocked_seconds = blocked_seconds
        self._current: _Loop | None = None

    async def run(self, work: Callable[[], Awaitable[object]], name: str, stopped: threading.Event) -> object:
        """Run work on the loop and return its result. On a cancel it is cancelled, waited for, and left behind.

        Raises:
            ToolCrashed: it, or another tool on the same loop, blocked the loop.
        """
        loop = self._living()
        future = asyncio.run_coroutine_threadsafe(_named(work, name), loop.loop)
        waiting = asyncio.wrap_future(future)
        try:
            while not waiting.done():
                loop.ping()
                await asyncio.wait([waiting], timeout=self._blocked_seconds / PINGS)
                if not waiting.done() and loop.silence() > self._blocked_seconds:
                    self._unblock(loop)
            return waiting.result()
        except asyncio.CancelledError:
            stopped.set()
            future.cancel()
            await asyncio.wait([waiting], timeout=STOP_SECONDS)
            raise
        finally:
            waiting.cancel()

    def _living(self) -> _Loop:
        current = self._current
        if current is None or not current.thread.is_alive() or current.silence() > self._blocked_seconds:
            current = self._current = _Loop()
        elif not current.pinged:
            current.answered = time.monotonic()
        return current

    def _unblock(self, loop: _Loop) -> None:
        """Interrupt the tool that keeps the loop; when that was done already and did not help, give the loop up."""
        if loop.interrupted and (not loop.thread.is_alive() or loop.silence() > self._blocked_seconds + STOP_SECONDS):
            if self._current is loop:
                self._current = None
            raise ToolCrashed(f"{loop.culprit} blocks the event loop of the async tools; declare it with def instead")
        if loop.interrupted:
            return
        loop.interrupted = True
        task = asyncio.current_task(loop.loop)
        loop.culprit = task.get_name() if task is not None else "an async tool"
        log.error("an async tool blocks the event loop; declare it with def, or await", tool=loop.culprit)
        if loop.thread.ident is not None:
            raise_in(loop.thread.ident, Interrupted)


async def _named(work: Callable[[], Awaitable[object]], name: str) -> object:
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
    return await contained_async(work())
