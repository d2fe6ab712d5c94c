"""No process outlives the worker that started it, and no tool fills the worker's log."""

import signal
from datetime import timedelta
from pathlib import Path

import pytest

from infra.stack import LocalStack
from tests.durability.scripts import calling, script
from tests.durability.workers import HURRY, worker_process
from tests.processes import alive, written
from tests.running import Running
from tests.waiting import wait_until

PATIENCE = timedelta(seconds=90)


@pytest.mark.parametrize("name", ["grows_a_tree", "grows_a_tree_async"])
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
async def test_the_processes_of_a_tool_end_with_the_worker(
    stack: LocalStack, running: Running, tmp_path: Path, name: str, death: signal.Signals
) -> None:
    """Killed or told to end: nobody is left to run what another worker runs again."""
    model = script(tmp_path, calling(name, folder=str(tmp_path)), {"text": "Never."})
    handle = await running.start(tools=[name], model=model)
    async with worker_process(stack, running.settings.task_queue, tmp_path, HURRY) as worker:
        await wait_until(lambda: len(written(tmp_path)) == 3, PATIENCE, "the tree has grown")
        tree = written(tmp_path)
        assert alive(tree) == tree
        worker.send_signal(death)
        await worker.wait()
        await wait_until(lambda: not alive(tree), PATIENCE, "the tree is dead")
    await handle.terminate()


async def test_what_a_tool_prints_is_one_short_line_of_the_log(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """2 GB, and what is no UTF-8: the run goes on, the log stays small."""
    model = script(tmp_path, calling("prints_two_gigabytes", folder=str(tmp_path)), {"text": "It said ${last}."})
    handle = await running.start(tools=["prints_two_gigabytes"], model=model)
    async with worker_process(stack, running.settings.task_queue, tmp_path):
        result = await running.result(handle)
    assert (result.outcome, result.text.text) == ("completed", "It said printed.")
    log = (tmp_path / "worker.log").read_text()
    assert len(log) < 20_000
    (line,) = [line for line in log.splitlines() if "tool printed" in line]
    assert "first \\ufffd\\ufffd" in line or "first ��" in line
    assert "2097154" in line
