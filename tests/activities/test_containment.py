"""What a tool in a thread does ends, at most, the call: it can be interrupted, and nobody else is."""

import asyncio
import contextvars
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from temporalio.exceptions import CancelledError

from activities.containment import Interrupted, Interruptible, Reach, ToolCrashed, run_in_thread
from tests.waiting import wait_until


def goes_on(started: threading.Event) -> None:
    """Run for ever."""
    started.set()
    while True:
        pass


def swallows_errors(started: threading.Event) -> None:
    """Run for ever, whatever error comes."""
    started.set()
    while True:
        try:
            time.sleep(0.001)
            raise CancelledError("as context.check does")
        except Exception:  # noqa: BLE001 - what bad tools do
            continue


@pytest.mark.parametrize("work", [goes_on, swallows_errors])
async def test_work_that_ignores_a_cancel_is_interrupted(
    threads: ThreadPoolExecutor, work: Callable[[threading.Event], None]
) -> None:
    """Its thread is free again: it is not left behind."""
    started, ended = threading.Event(), threading.Event()

    def ignores() -> None:
        try:
            work(started)
        finally:
            ended.set()

    running = asyncio.create_task(run_in_thread(threads, ignores, threading.Event(), keep_late=False))
    await wait_until(started.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_work_that_cannot_be_interrupted_is_left_behind(threads: ThreadPoolExecutor) -> None:
    """A long call to C: the call is over all the same, and the exception comes up as soon as it returns."""
    started, release, after = threading.Event(), threading.Event(), []

    def waits() -> None:
        started.set()
        try:
            release.wait(60)
        except Interrupted:
            after.append("interrupted")
            raise

    running = asyncio.create_task(run_in_thread(threads, waits, threading.Event(), keep_late=True))
    await wait_until(started.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert after == []
    release.set()
    await wait_until(lambda: after, description="the exception has come up")


async def test_work_that_has_not_begun_never_begins(threads: ThreadPoolExecutor) -> None:
    """All threads are taken when the cancel comes."""
    release, begun = threading.Event(), []
    taken = [threads.submit(release.wait, 60) for _ in range(4)]
    running = asyncio.create_task(
        run_in_thread(threads, lambda: begun.append("begun"), threading.Event(), keep_late=True)
    )
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    release.set()
    assert all(one.result() for one in taken)
    assert begun == []


async def test_an_interruption_never_reaches_whoever_has_the_thread_next() -> None:
    """However late it comes: many short works in one thread, all interrupted at a moment of chance."""
    hit: list[str] = []

    def victim() -> None:
        try:
            for _ in range(200):
                pass
        except Interrupted:
            hit.append("the next one")

    with ThreadPoolExecutor(1) as one_thread:
        for number in range(3000):
            work = Interruptible(lambda: sum(range(number % 400)))  # noqa: B023 - used up in this turn
            running, after = one_thread.submit(work), one_thread.submit(victim)
            if number % 2:
                running.result()
            work.interrupt()
            finished = running.result()
            assert isinstance(finished, int | ToolCrashed)
            after.result()
    assert hit == []


async def test_nobody_is_interrupted_in_the_middle_of_a_log_line(threads: ThreadPoolExecutor) -> None:
    """The lock of the logs would stay taken, and the whole worker would wait for it."""
    writing, release = threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            del record
            writing.set()
            while not release.is_set():
                time.sleep(0.001)

    lines = logging.Logger("of the test")  # noqa: LOG001 - it is nobody else's
    lines.addHandler(Slow())

    def logs() -> None:
        lines.warning("slowly")
        while True:
            pass

    work = Interruptible(logs)
    running = threads.submit(work)
    await wait_until(writing.is_set)
    assert not work.interrupt()
    release.set()
    await wait_until(work.interrupt, description="it is interrupted after the line")
    assert isinstance(running.result(), ToolCrashed)
    lines.warning("the lock is free")


async def test_work_is_interrupted_once(threads: ThreadPoolExecutor) -> None:
    """What it cleans up after that is not disturbed."""
    started, release = threading.Event(), threading.Event()

    def cleans_up() -> str:
        try:
            goes_on(started)
        except Interrupted:
            while not release.is_set():
                time.sleep(0.001)
        return "clean"

    work = Interruptible(cleans_up)
    running = threads.submit(work)
    await wait_until(started.is_set)
    assert work.interrupt()
    assert not work.interrupt()
    release.set()
    assert running.result() == "clean"


async def test_nothing_is_interrupted_that_is_not_meant(threads: ThreadPoolExecutor) -> None:
    """The one who asks looks once more in the last moment."""
    started, release, reach = threading.Event(), threading.Event(), Reach()

    def works() -> str:
        started.set()
        while not release.is_set():
            time.sleep(0.001)
        return "whole"

    running = threads.submit(reach.inside, works)
    await wait_until(started.is_set)
    assert not reach.interrupt(lambda: False)
    release.set()
    assert running.result() == "whole"
    assert not reach.interrupt()


async def test_a_fork_of_the_worker_that_returns_from_its_tool_ends(threads: ThreadPoolExecutor) -> None:
    """It is a copy of the whole worker, and would go on as one."""

    def forks() -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks where there are threads
            return os.fork()

    child = await run_in_thread(threads, forks, threading.Event(), keep_late=False)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 70


async def test_context_variables_reach_the_thread(threads: ThreadPoolExecutor) -> None:
    """Log lines of a tool belong to its run."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("of the call")
    assert await run_in_thread(threads, variable.get, threading.Event(), keep_late=False) == "of the call"
