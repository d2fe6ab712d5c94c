"""Whatever a tool does, its run goes on or ends properly, and the worker lives."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError

from core.chat import ToolMessage
from core.entries import Closed, ToolFinished
from core.runs import RunResult
from tests.processes import alive, written
from tests.running import FakeModel, Running, calls, says
from tests.waiting import wait_until
from workflows.agent import Agent

NEXT = ("echo", '{"text": "still here"}')


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where tools leave their traces; at the end, each may go."""
    yield tmp_path
    (tmp_path / "release").touch()


def at(name: str, folder: Path) -> tuple[str, str]:
    """A call of a tool that leaves traces."""
    return name, json.dumps({"folder": str(folder)})


def told(model: FakeModel) -> ToolMessage:
    """What the model reads of the first call."""
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message


async def cancelled(running: Running, handle: "WorkflowHandle[Agent, RunResult]") -> None:
    """Cancel a run, and check that it ended properly."""
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await running.result(handle)
    assert isinstance(failed.value.cause, CancelledError)
    manifest = await running.storage().manifest(handle.id, handle.result_run_id or "")
    entries = await running.storage().journal(handle.id).entries(manifest.head)
    finished, closed = entries[-2:]
    assert isinstance(closed, Closed)
    assert closed.outcome == "cancelled"
    assert isinstance(finished, ToolFinished)
    assert finished.failed


@pytest.mark.parametrize("name", ["sleeps_on", "swallows", "cannot_be_reached", "awaits_for_ever", "blocks_the_loop"])
async def test_a_cancel_arrives_whatever_the_tool_does(
    running: Running, model: FakeModel, folder: Path, name: str
) -> None:
    """The run ends with a closed journal, and the worker takes the next one."""
    model.replies = [calls(at(name, folder)), says("Never.")]
    handle = await running.start(tools=[name])
    await wait_until((folder / "started").exists, description="the tool has started")
    await cancelled(running, handle)
    if name == "awaits_for_ever":
        assert (folder / "cleaned").exists()
    model.replies = [calls(NEXT), says("Done.")]
    assert (await running.result(await running.start(tools=["echo"]))).outcome == "completed"


@pytest.mark.parametrize("name", ["grows_a_tree", "grows_a_tree_async"])
async def test_a_cancel_ends_all_processes_of_a_tool(
    running: Running, model: FakeModel, folder: Path, name: str
) -> None:
    """Those in the background, those that left the group and those that do not listen."""
    model.replies = [calls(at(name, folder)), says("Never.")]
    handle = await running.start(tools=[name])
    await wait_until(lambda: len(written(folder)) == 3, description="the tree has grown")
    assert len(alive(written(folder))) == 3
    await cancelled(running, handle)
    assert alive(written(folder)) == set()


async def test_a_tool_that_blocks_the_loop_is_told_so(running: Running, model: FakeModel, folder: Path) -> None:
    """The model reads a failed result that names the cure; a call beside it does well, and the loop serves the next."""
    both = calls(at("blocks_the_loop", folder), NEXT)
    model.replies = [both, calls(at("awaits_for_ever", folder)), says("Never.")]
    handle = await running.start(tools=["blocks_the_loop", "awaits_for_ever", "echo"])
    (folder / "started").unlink(missing_ok=True)
    await running.until(handle, lambda state: state.calls.get("awaits_for_ever") == 1, "the next call runs")
    await wait_until((folder / "started").exists, description="the loop serves it")
    blocked, beside = model.requests[1].messages[-2:]
    assert isinstance(blocked, ToolMessage)
    assert isinstance(beside, ToolMessage)
    assert blocked.failed
    assert "declare it with def" in blocked.text
    assert "still here" in beside.text
    await cancelled(running, handle)


@pytest.mark.parametrize(
    ("name", "failed", "shown"),
    [
        ("returns_a_closed_iterator", True, "closed file"),
        ("returns_a_used_up_iterator", False, "0 bytes"),
        ("raises_what_cannot_be_encoded", True, "RuntimeError: before ���␀ after"),
        ("raises_the_unspeakable", True, "its text can't be printed: ValueError"),
        ("exits_in_a_task", True, "SystemExit: 3"),
        ("runs_into_a_limit", True, "was ended by signal 25|File size limit exceeded|File too large"),
    ],
)
async def test_a_bad_tool_is_a_result_that_the_model_reads(
    running: Running, model: FakeModel, name: str, failed: bool, shown: str
) -> None:
    """Nothing that a tool does hangs the run, ends it, or is lost; the next call works."""
    model.replies = [calls((name, "{}")), calls(NEXT), says("I see.")]
    result = await running.result(await running.start(tools=[name, "echo"]))
    assert (result.outcome, result.calls["echo"]) == ("completed", 1)
    assert told(model).failed == failed
    assert any(part in told(model).text for part in shown.split("|"))


async def test_a_full_disk_is_a_failed_result_and_leaves_nothing(
    running: Running, model: FakeModel, folder: Path
) -> None:
    """The attempt's folder goes with the attempt."""
    model.replies = [calls(at("fills_the_disk", folder)), calls(NEXT), says("I see.")]
    result = await running.result(await running.start(tools=["fills_the_disk", "echo"]))
    assert result.outcome == "completed"
    assert "No space left on device" in told(model).text
    assert not Path((folder / "attempt").read_text()).exists()


async def test_a_tool_that_forks_leaves_no_second_worker(running: Running, model: FakeModel, folder: Path) -> None:
    """The copy ends where the tool does; only the worker itself reports."""
    model.replies = [calls(at("forks", folder)), says("Done.")]
    result = await running.result(await running.start(tools=["forks"]))
    assert (result.outcome, result.calls) == ("completed", {"forks": 1})
    child = int((folder / "child").read_text())
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) != 0


@pytest.mark.parametrize(
    ("arguments", "failed", "shown"),
    [
        (json.dumps({"text": "x" * 1_000_000}), False, "1.0 MB"),
        (json.dumps({"text": "a", "x" * 1_000_000: 1}), True, "unknown argument"),
        ('{"text": ' + "[" * 100_000, True, "nested too deeply"),
        ('{"text": ' + "[" * 3000, True, "nested too deeply"),
        ('{"text": ' + '{"a":' * 300 + "1" + "}" * 300 + "}", True, "can't be used"),
        ('{"text": NaN}', True, "NaN is no number in JSON"),
    ],
)
async def test_arguments_of_any_size_and_depth_run_or_are_told(
    running: Running, model: FakeModel, arguments: str, failed: bool, shown: str
) -> None:
    """They fit into every payload, and into the next prompt."""
    model.replies = [calls(("echo", arguments)), says("I see.")]
    result = await running.result(await running.start(tools=["echo"]))
    assert result.outcome == "completed"
    assert told(model).failed == failed
    assert shown in told(model).text
