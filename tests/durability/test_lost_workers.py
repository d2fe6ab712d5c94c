"""Workers that die or are shut down while a tool runs: no fault of the tool's, and none of its attempts."""

import signal
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle

from core.entries import Settled, ToolFinished, Unsettled
from core.runs import RunResult
from infra.stack import LocalStack
from tests.durability.chaos import CHAOS, report
from tests.durability.counter import Counter
from tests.durability.scripts import calling, script
from tests.durability.workers import HURRY, worker_process
from tests.running import Running
from tests.waiting import wait_until
from workflows.agent import Agent

PATIENCE = timedelta(seconds=60)
Handle = WorkflowHandle[Agent, RunResult]


async def begun(running: Running, folder: Path, tool: str, **plan: object) -> tuple[Handle, str]:
    """Start a run with one call, and return it with the call's key."""
    model = script(folder, calling(tool, plan=plan), {"text": "${last}"})
    handle = await running.start(tools=[tool], model=model)
    return handle, f"{handle.first_execution_run_id}-t1c1"


async def test_lost_workers_use_up_no_attempt(
    stack: LocalStack, running: Running, counter: Counter, tmp_path: Path
) -> None:
    """A tool with one attempt outlives four workers; one with two has both of them for errors of its own."""
    queue, ways = running.settings.task_queue, (signal.SIGKILL, signal.SIGTERM) * 2
    once, key = await begun(running, tmp_path / "1", "look_once", counter=counter.address, hold="look", times=4)
    twice, other = await begun(running, tmp_path / "2", "look_twice", counter=counter.address, hold="look", fails=2)
    for starts, way in enumerate(ways, start=1):
        async with worker_process(stack, queue, tmp_path, HURRY) as worker:
            await wait_until(partial(have_begun, counter, [key], starts), PATIENCE, "it runs")
            await wait_until(partial(have_begun, counter, [other], min(starts, 2)), PATIENCE, "the other one does")
            worker.send_signal(way)
            assert await worker.wait() == (0 if way is signal.SIGTERM else -signal.SIGKILL)
    async with worker_process(stack, queue, tmp_path):
        for handle in (once, twice):
            (finished,) = [e for e in await entries(running, handle) if isinstance(e, ToolFinished)]
            assert (finished.content.text, finished.failed) == ("seen", False)
    assert (counter.count(key, "begin"), counter.count(other, "begin")) == (5, 3)


async def test_a_write_that_cannot_end_before_its_worker_is_looked_up(
    stack: LocalStack, running: Running, counter: Counter, tmp_path: Path
) -> None:
    """It is in doubt, not failed and not started again: its `verify` finds that it has taken effect."""
    handle, key = await begun(running, tmp_path / "1", "count_verified", counter=counter.address, hold="effect")
    async with worker_process(stack, running.settings.task_queue, tmp_path, HURRY) as worker:
        await wait_until(lambda: counter.count(key, "effect") == 1, PATIENCE, "it has taken effect")
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
    async with worker_process(stack, running.settings.task_queue, tmp_path):
        found = await entries(running, handle)
    doubt = next(entry for entry in found if isinstance(entry, Unsettled))
    settled = next(entry for entry in found if isinstance(entry, Settled))
    assert "its worker was shut down" in doubt.why
    assert (settled.settlement, settled.by) == ("done", "verify of count_verified")
    assert [one.step for one in counter.steps(key)] == ["begin", "effect"]


@pytest.mark.skipif(not CHAOS, reason="measures, and claims nothing: make chaos")
async def test_how_soon_a_dead_worker_is_noticed_and_a_cancel_arrives(
    stack: LocalStack, running: Running, counter: Counter, tmp_path: Path
) -> None:
    """With the heartbeat of the local stack, and another worker that is there already."""
    measured = [await how_soon(stack, running, counter, tmp_path / f"{number}") for number in range(5)]
    retries, ends = zip(*measured, strict=True)
    heartbeat = running.settings.heartbeat_timeout.total_seconds()
    report("seconds", {"heartbeat timeout": heartbeat, "kill -9 to the retry": retries, "cancel to the end": ends})


async def how_soon(stack: LocalStack, running: Running, counter: Counter, folder: Path) -> tuple[float, float]:
    """Return the seconds from the kill of its worker to a tool's start on another one, and from a cancel to its end."""
    queue = f"{running.settings.task_queue}-{folder.name}"
    own = Running(running.client, running.settings.model_copy(update={"task_queue": queue}), running.blobs)
    handle, key = await begun(own, folder, "look_once", counter=counter.address, hold="look", times=2)
    log = folder / "worker.log"
    async with worker_process(stack, queue, folder) as first:
        await wait_until(partial(have_begun, counter, [key], 1), PATIENCE, "it runs")
        async with worker_process(stack, queue, folder):
            await wait_until(lambda: log.read_text().count("worker ready") == 2, PATIENCE, "the other one is ready")
            killed = time.time()
            first.kill()
            await wait_until(partial(have_begun, counter, [key], 2), PATIENCE, "it runs again")
            cancelled = time.time()
            await handle.cancel()
            await wait_until(lambda: counter.count(key, "end") == 1, PATIENCE, "it has ended")
    _, again, end = counter.steps(key)
    return round(again.at - killed, 3), round(end.at - cancelled, 3)


def have_begun(counter: Counter, keys: Sequence[str], times: int) -> bool:
    """Whether each was started so often, or more."""
    return all(counter.count(key, "begin") >= times for key in keys)


async def entries(running: Running, handle: Handle) -> Sequence[object]:
    """Wait for the run's end and read its journal from blob storage."""
    result = await running.result(handle)
    assert result.outcome == "completed"
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)
