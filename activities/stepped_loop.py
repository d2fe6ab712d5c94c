"""An event loop in a thread of its own, of which each step of each task can be interrupted, and none ends the loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import structlog

from activities.boundary import error_text
from activities.containment import STOP_SECONDS, Interrupted, Reach, ToolCrashed, harmless

log = structlog.get_logger(__name__)

owner: ContextVar[object] = ContextVar("owner", default=None)
"""Whose a task is; the tasks that it makes have the same one."""


class SteppedLoop:
    """Runs until it is told to stop; then its tasks are cancelled, and the loop is closed as soon as it can be."""

    def __init__(self) -> None:
        self.running: object = None
        """The owner of the task that has the thread, if one has."""
        self.steps = 0
        """How many steps were begun."""
        self._reach = Reach()
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(self._new_task)
        threading.Thread(target=self._run, name="async-tools", daemon=True).start()

    def call(self, act: Callable[[], object]) -> None:
        """Call something on the loop, soon; from any thread."""
        with contextlib.suppress(RuntimeError):  # it is closed: whoever waits looks whether it was given up
            self._loop.call_soon_threadsafe(act)

    def interrupt(self, step: int) -> bool:
        """Raise `Interrupted` in this step, if it still goes on; say whether that was done."""
        return self._reach.interrupt(lambda: self.steps == step)

    def stop(self) -> None:
        """End it, now or when what blocks it lets go."""
        self._stopping = True
        self.call(self._loop.stop)

    def step(self, advance: Callable[[], Any]) -> Any:
        """Let a task go on to the next place where it waits."""
        self.steps += 1
        self.running = owner.get()
        try:
            return self._reach.inside(advance)
        except Interrupted:
            raise ToolCrashed(
                "it kept the event loop of the async tools from all others, and was interrupted: declare it with def, "
                "so that it has a thread of its own, or await what takes long"
            ) from None
        except (SystemExit, KeyboardInterrupt) as error:
            raise harmless(error) from None
        finally:
            self.running = None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopping:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - a callback of a tool's raised what would end the loop
                log.warning("a callback of an async tool would have ended its loop", error=error_text(error))
        try:
            self._loop.run_until_complete(_end_all())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    def _new_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        return asyncio.Task(_Stepped(work, self), loop=loop, **options)


class _Stepped(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are taken by its loop."""

    def __init__(self, work: Coroutine[Any, Any, Any], loop: SteppedLoop) -> None:
        self._work = work
        self._loop = loop

    def __await__(self) -> Any:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def send(self, value: Any) -> Any:
        """Go on with a value."""
        return self._loop.step(lambda: self._work.send(value))

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        return self._loop.step(lambda: self._work.throw(*error))

    def close(self) -> None:
        """End it where it is."""
        self._work.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()
