"""Where tools run: nothing that one does may end or stop the worker, or reach another tool.

Sync tools run in threads, async ones on an event loop of their own, which all async tools share. A cancel is told to a
tool first (`context.cancelled`, or asyncio's own cancellation); a sync tool that does not listen gets an exception
raised in its thread; one that can't be reached at all, in a long call to C, is left behind, its result thrown away.
"""

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

from temporalio.exceptions import CancelledError

from activities.boundary import error_text

Result = TypeVar("Result")

POLITE_SECONDS = 1.0
"""How long a cancelled tool in a thread may take to end by itself; then an exception is raised in it."""
STOP_SECONDS = 2.0
"""How long it is waited for after that; then it is left behind."""


class ToolCrashed(Exception):
    """A tool raised what would end a process or a loop; it ends only the call."""


class Interrupted(BaseException):
    """Raised inside a tool that was cancelled and goes on; no `except Exception` takes it for an error."""


class Interruptible(Generic[Result]):
    """Work in a thread, into which an exception can be raised. What it raises is returned: nothing ends the thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread: int | None = None

    def __call__(self) -> Result | Exception:
        """Do the work, and return what it returned or raised."""
        try:
            with self._lock:
                self._thread = threading.get_ident()
            return contained(self._work)
        except Interrupted as error:
            return harmless(error)
        finally:
            self._leave()

    def interrupt(self) -> None:
        """Raise `Interrupted` in the work, if it still runs; it arrives with its next line of Python."""
        with self._lock:
            if self._thread is not None:
                raise_in(self._thread, Interrupted)

    def _leave(self) -> None:
        """See to it that no exception comes after the work: it would hit whoever has the thread next."""
        while True:
            try:
                with self._lock:
                    if self._thread is not None:
                        raise_in(self._thread, None)
                    self._thread = None
            except Interrupted:
                continue
            return


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
        if not keep_late or not waiting.done() or waiting.cancelled():
            raise
        finished = waiting.result()
        if isinstance(finished, Exception):
            raise
    if isinstance(finished, Exception):
        raise finished
    return finished


async def _ended(waiting: "asyncio.Future[Result | Exception]", interruptible: Interruptible[Result]) -> None:
    await asyncio.wait([waiting], timeout=POLITE_SECONDS)
    if not waiting.done():
        interruptible.interrupt()
        await asyncio.wait([waiting], timeout=STOP_SECONDS)


def raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Let an exception come up in a thread, or take back one that has not come up yet (None)."""
    what = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


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
        return ToolCrashed("the tool was interrupted: it went on after its cancel, or it blocked the event loop")
    return ToolCrashed(f"the tool raised {error_text(error)}")
