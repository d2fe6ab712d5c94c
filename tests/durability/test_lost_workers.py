"""Workers that die or are shut down while a tool runs: that is no fault of the tool's, and uses up none of its attempts."""

import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle

from core.entries import Settled, ToolFinished, Unsettled
from core.runs import RunResult
from infra.stack import LocalStack
from tests.durability.counter import Counter
from tests.durability.scripts import calling, script
from tests.durability.workers import worker_process
from tests.running import Running
from tests.waiting import wait_until
from workflows.agent import Agent

PATIENCE = timedelta(seconds=60)
HURRY = {"PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS": "0.2"}
Handle = WorkflowHandle[Agent, RunResult]


async def begun(running: Running, folder: Path, tool: str, **plan: object) -> tuple[Handle, str]:
    """Start a run with one call, and return it with the call's key."""
    model = script(folder, calling(tool, plan=plan), {"text": "${last}"})
    handle = await running.start(tools=[tool], model=model)
    return handle, f"{handle.first_execution_run_id}-t1c1"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_lost_worker_uses_up_no_attempt(
    stack: LocalStack, running: Running, counter: Counter, tmp_path: Path, how: signal.Signals
) -> None:
    """A tool with one attempt completes after two dead workers; one with two has both of them for its own errors."""
    queue, address = running.settings.task_queue, counter.address
    once, key = await begun(running, tmp_path / "1", "look_once", counter=address, hold="begin", times=2)
    twice, other = await begun(running, tmp_path / "2", "look_twice", counter=address, hold="begin", times=2, fails=3)
    for starts in (1, 2):
        async with worker_process(stack, queue, tmp_path, HURRY) as worker:
            for each in (key, other):
                await wait_until(
                    lambda each=each, starts=starts: counter.count(each, "begin") == starts, PATIENCE, "it runs"
                )
            worker.send_signal(how)
            assert await worker.wait() == (0 if how is signal.SIGTERM else -signal.SIGKILL)
    async with worker_process(stack, queue, tmp_path):
        for handle in (once, twice):
            (finished,) = [e for e in await entries(running, handle) if isinstance(e, ToolFinished)]
            assert (finished.content.text, finished.failed) == ("seen", False)
    assert (counter.count(key, "begin"), counter.count(other, "begin")) == (3, 4)


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


async def entries(running: Running, handle: Handle) -> Sequence[object]:
    """Wait for the run's end and read its journal from blob storage."""
    result = await running.result(handle)
    assert result.outcome == "completed"
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)
