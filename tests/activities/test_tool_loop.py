"""The loop of the async tools: one that blocks it is named and ended, and everything else goes on."""

import asyncio
import contextlib
import gc
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from activities.containment import Interrupted, ToolCrashed
from activities.tool_context import ToolContext
from activities.tool_loop import ToolLoop
from activities.toolbox import Toolbox, tool
from tests.activities.calling import Calling
from tests.activities.made import SHORT
from tests.waiting import wait_until

BLOCKED_SECONDS = 0.2


@pytest.fixture
def loop() -> ToolLoop:
    """A loop that is soon taken for blocked."""
    return ToolLoop(BLOCKED_SECONDS)


async def called(loop: ToolLoop, work: Callable[[], Awaitable[object]], name: str = "a_tool-t1c1") -> object:
    """Run work on the loop as a call does."""
    return await loop.run(work, name, threading.Event())


async def goes_on() -> None:
    """Never let go of the loop."""
    while True:
        pass


async def makes_a_task_that_goes_on() -> None:
    """Have another task keep the loop."""
    await asyncio.create_task(goes_on())


async def swallows_errors() -> None:
    """Never let go of the loop, whatever error comes."""
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


@pytest.mark.parametrize("blocks", [goes_on, makes_a_task_that_goes_on, swallows_errors])
async def test_a_tool_that_blocks_the_loop_is_interrupted_and_named(
    loop: ToolLoop, blocks: Callable[[], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    """Its call fails with the cure; another one on the same loop only had to wait."""
    other = asyncio.create_task(called(loop, lambda: asyncio.sleep(0.1, "well"), "other-t1c2"))
    with pytest.raises(ToolCrashed, match="declare it with def"):
        await called(loop, blocks, "hog-t1c1")
    assert await other == "well"
    assert await called(loop, lambda: asyncio.sleep(0, "next")) == "next"


async def test_the_log_names_the_tool_that_blocks(loop: ToolLoop, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever wrote it learns of it."""
    with pytest.raises(ToolCrashed):
        await called(loop, makes_a_task_that_goes_on, "hog-t1c1")
    assert "hog-t1c1" in capsys.readouterr().out


async def test_a_loop_that_cannot_be_freed_is_given_up(loop: ToolLoop) -> None:
    """A long call to C: all calls on this loop fail, the next one has a new loop, and nothing begins late."""
    release, begun, threads = threading.Event(), [], list[threading.Thread]()

    async def sleeps() -> None:
        threads.append(threading.current_thread())
        release.wait(60)

    async def begins() -> None:
        begun.append("begun")

    hog = asyncio.create_task(called(loop, sleeps, "hog-t1c1"))
    await asyncio.sleep(0)
    other = asyncio.create_task(called(loop, begins, "other-t1c2"))
    for call in (hog, other):
        with pytest.raises(ToolCrashed, match="hog-t1c1 blocks the event loop"):
            await call
    assert await called(loop, lambda: asyncio.sleep(0, "next")) == "next"
    release.set()
    await wait_until(lambda: not threads[0].is_alive(), description="the old loop has ended")
    assert begun == []


async def test_everything_else_goes_on_while_a_tool_blocks(loop: ToolLoop) -> None:
    """Heartbeats of other activities run on another loop."""
    hog = asyncio.create_task(called(loop, goes_on))
    beats = 0
    while not hog.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert isinstance(hog.exception(), ToolCrashed)
    assert beats >= 5


async def test_a_pause_of_the_whole_worker_blocks_nothing(loop: ToolLoop) -> None:
    """A laptop that slept, a process that was stopped: nobody is interrupted for that."""

    async def works() -> str:
        for _ in range(20):
            await asyncio.sleep(0.01)
        return "well"

    running = asyncio.create_task(called(loop, works))
    await asyncio.sleep(0.05)
    time.sleep(3 * BLOCKED_SECONDS)
    assert await running == "well"


async def test_a_cancel_waits_for_the_end_of_the_tool(loop: ToolLoop) -> None:
    """What it cleans up is done before the call is over."""
    started, ended = threading.Event(), threading.Event()

    async def cleans_up() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.3)
            ended.set()

    running = asyncio.create_task(called(loop, cleans_up))
    await wait_until(started.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


@pytest.mark.parametrize("keep_late", [True, False])
async def test_what_ended_while_it_was_cancelled_is_reported_as_done_where_that_matters(
    loop: ToolLoop, keep_late: bool
) -> None:
    """A write that took effect all the same."""
    started, stopped = threading.Event(), threading.Event()

    async def ends() -> str:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done"

    running = asyncio.create_task(loop.run(ends, "writes-t1c1", stopped, keep_late=keep_late))
    await wait_until(started.is_set)
    running.cancel()
    if keep_late:
        assert await running == "done"
    else:
        with pytest.raises(asyncio.CancelledError):
            await running
    assert stopped.is_set()


async def test_a_cancelled_tool_that_goes_on_is_left_behind(loop: ToolLoop) -> None:
    """The call is over; the loop serves others."""
    started, release = threading.Event(), threading.Event()

    async def goes_on_politely() -> None:
        started.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    running = asyncio.create_task(called(loop, goes_on_politely))
    await wait_until(started.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await called(loop, lambda: asyncio.sleep(0, "next")) == "next"
    release.set()


async def test_a_cancelled_tool_that_keeps_the_loop_is_interrupted() -> None:
    """It never hears of the cancel; also where a loop may be blocked for long."""
    loop, started, ended = ToolLoop(600), threading.Event(), threading.Event()

    async def hears_nothing() -> None:
        started.set()
        try:
            while True:
                pass
        except Interrupted:
            ended.set()
            raise

    running = asyncio.create_task(called(loop, hears_nothing))
    await wait_until(started.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert await called(loop, lambda: asyncio.sleep(0, "next")) == "next"


async def exits_in_a_task() -> object:
    """Exit where asyncio would end the loop."""
    return await asyncio.create_task(exits())


async def exits() -> None:
    """Exit."""
    sys.exit(3)


async def exits_in_a_callback() -> str:
    """Exit where no task is to blame."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.05)
    return "still here"


async def its_thread() -> threading.Thread:
    """Return the thread of the loop."""
    return threading.current_thread()


async def stops_the_loop() -> str:
    """Stop the loop of all."""
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)
    return "still here"


@pytest.mark.parametrize("work", [exits, exits_in_a_task, exits_in_a_callback, stops_the_loop])
async def test_nothing_that_a_tool_does_ends_the_loop(loop: ToolLoop, work: Callable[[], Awaitable[object]]) -> None:
    """Another call on it does not even notice."""
    other = asyncio.create_task(called(loop, lambda: asyncio.sleep(0.2, "well")))
    try:
        assert await called(loop, work) == "still here"
    except ToolCrashed as error:
        assert "SystemExit: 3" in str(error)  # noqa: PT017 - some end well, some with this
    assert await other == "well"


async def test_a_loop_ends_with_its_owner() -> None:
    """Its thread, its tasks and its sockets go."""
    loop = ToolLoop()
    thread = await called(loop, its_thread)
    assert isinstance(thread, threading.Thread)
    assert thread.is_alive()
    del loop
    gc.collect()
    await wait_until(lambda: not thread.is_alive(), description="the thread has ended")


async def test_an_async_tool_reaches_its_context_from_its_own_loop(calling: Calling) -> None:
    """Artifacts, workspace, progress: several calls at once, as a worker runs them."""
    beats: list[Any] = []
    calling.environment.on_heartbeat = lambda *details: beats.extend(details)
    await calling.attach("numbers.txt", "one\ntwo\n" * 200_000)

    @tool(effect="read", timeout=SHORT)
    async def reads(*, context: ToolContext) -> str:
        """Read."""
        context.heartbeat("on my way")
        paths = await asyncio.gather(*(context.workspace.local("numbers.txt") for _ in range(4)))
        folder = await context.workspace.folder()
        ref = await context.artifacts.store_bytes(b"three\n" * 1000, "more.txt")
        await context.artifacts.download(await context.artifacts.find(ref.handle), context.folder / "more.txt")
        sizes = [paths[0].stat().st_size, (folder / "numbers.txt").stat().st_size]
        return json.dumps([*sizes, (context.folder / "more.txt").stat().st_size, threading.current_thread().name])

    calling.toolbox = Toolbox([reads])
    found = await asyncio.gather(*(calling.text("reads") for _ in range(3)))
    assert [json.loads(one) for one in found] == [[1_600_000, 1_600_000, 6000, "async-tools"]] * 3
    await wait_until(lambda: beats.count("on my way") == 3, description="the progress of all three")
