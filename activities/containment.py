"""Where tools run: nothing that one does may end or stop the worker, or reach another tool.

Sync tools run in threads, async ones on an event loop of their own, which all async tools share. A cancel is told to a
tool first (`context.cancelled`, or asyncio's own cancellation); a sync tool that does not listen gets an exception
raised in its thread; one that can't be reached at all, in a long call to C, is left behind, its result thrown away.
"""

import asyncio
import contextvars
import ctypes
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

from temporalio.exceptions import CancelledError

from activities.boundary import error_text

Result = TypeVar("Result")

LEFT_BEHIND = "left behind"
"""How a cancel is marked that could not stop the work."""
POLITE_SECONDS = 1.5
"""How long a cancelled tool in a thread may take to end by itself (longer than a command of its may take); then an
exception is raised in it."""
STOP_SECONDS = 2.0
"""How long it is waited for after that; then it is left behind."""
LOOK_SECONDS = 0.05
LOCKING = frozenset({"logging", "concurrent.futures._base", "importlib._bootstrap"})
"""Modules where an exception from outside could leave a lock taken that the whole worker needs."""
FORKED = 70
"""Exit code of a forked worker that comes back from the tool that forked it."""


class ToolCrashed(Exception):
    """A tool raised what would end a process or a loop; it ends only the call."""


class Interrupted(BaseException):
    """Raised inside a tool that was cancelled and goes on; no `except Exception` takes it for an error."""


class Reach:
    """Work of a tool's in a thread, into which `Interrupted` can be raised: in this work, once, and nowhere else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def inside(self, work: Callable[[], Result]) -> Result:
        """Do the work; afterwards nothing comes any more that was meant for it.

        A process that the work forked, and in which it returns, too, ends here: it is a copy of the whole worker.
        """
        process = os.getpid()
        try:
            try:
                with self._lock:
                    self._thread = threading.get_ident()
                return work()
            finally:
                if os.getpid() != process:
                    os._exit(FORKED)
                self._leave()
        except Interrupted:
            self._leave()  # it may have come up on the way out, before all of that was done; there is no second one
            raise

    def interrupt(self, meant: Callable[[], bool] = lambda: True) -> bool:
        """Raise `Interrupted` in the work, where it runs Python next; say whether that was done: else ask again.

        Only when `meant` says that this work is still the one that is meant, and never in the middle of a log line and
        the like: a lock that the whole worker needs would stay taken.
        """
        with self._lock:
            thread = self._thread
            if thread is None or not meant() or _may_hold_a_lock(thread):
                return False
            self._thread = None
            raise_in(thread, Interrupted)
            return True

    def _leave(self) -> None:
        with self._lock:
            self._thread = None
            raise_in(threading.get_ident(), None)


class Interruptible(Generic[Result]):
    """Work in a thread that can be interrupted. What it raises is returned: nothing ends the thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._reach = Reach()

    def __call__(self) -> Result | Exception:
        """Do the work, and return what it returned or raised."""
        return contained(lambda: self._reach.inside(self._work))

    def interrupt(self) -> bool:
        """Raise `Interrupted` in the work, if it still runs; say whether that was done."""
        return self._reach.interrupt()


async def run_in_thread(
    threads: Executor, work: Callable[[], Result], stopped: threading.Event, *, keep_late: bool
) -> Result:
    """Run work in a thread; on a cancel, tell it to stop, interrupt it, and leave it behind in the end.

    With `keep_late`, work that came to its end in that moment is reported as done, because it is.
    """
    interruptible = Interruptible(work)
    running = threads.submit(contextvars.copy_context().run, interruptible)
    waiting = asyncio.wrap_future(running)
    try:
        finished = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        stopped.set()
        if not running.cancel():
            await _ended(waiting, interruptible)
        if not waiting.done():
            raise asyncio.CancelledError(LEFT_BEHIND) from None
        if not keep_late or waiting.cancelled():
            raise
        finished = waiting.result()
        if isinstance(finished, Exception):
            raise
    if isinstance(finished, Exception):
        raise finished
    return finished


async def _ended(waiting: "asyncio.Future[Result | Exception]", interruptible: Interruptible[Result]) -> None:
    """Wait for the end of work that was told to stop, and interrupt it when it does not listen."""
    await asyncio.wait([waiting], timeout=POLITE_SECONDS)
    interrupted = False
    for _ in range(int(STOP_SECONDS / LOOK_SECONDS)):
        if waiting.done():
            return
        interrupted = interrupted or interruptible.interrupt()
        await asyncio.wait([waiting], timeout=LOOK_SECONDS)


def raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Let an exception come up in a thread, or take back one that has not come up yet (None)."""
    what = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


def _may_hold_a_lock(thread: int) -> bool:
    """Look at what the tool in a thread is in the middle of."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to look at another thread
    while frame is not None and (module := frame.f_globals.get("__name__")) != __name__:
        if module in LOCKING:
            return True
        frame = frame.f_back
    return False


def contained(work: Callable[[], Result]) -> Result | Exception:
    """Return what the work returned or raised: nothing a tool raises may end the thread, the loop or the worker."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - the border to code that is not ours
        return harmless(error)


async def contained_async(work: Awaitable[object]) -> object:
    """Await work of a tool's; a cancel passes, and whatever else would end a loop becomes an error of the call."""
    try:
        return await work
    except (asyncio.CancelledError, CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ToolCrashed("the tool raised CancelledError without being cancelled") from None
    except Interrupted:
        raise  # its loop knows why
    except BaseException as error:
        safe = harmless(error)
        if safe is error:
            raise
        raise safe from None


def harmless(error: BaseException) -> Exception:
    """Return an error that ends only the call: futures, loops and Temporal treat some others in their own ways.

    Temporal's CancelledError of a tool that nobody cancelled would end the whole run as cancelled.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration | CancelledError):
        return error
    if isinstance(error, Interrupted):
        return ToolCrashed("the tool was interrupted: it went on after its cancel")
    return ToolCrashed(f"the tool raised {error_text(error)}")
