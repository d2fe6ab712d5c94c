"""Watching runs: every event once, through the loss of workers, until the end; and runs that do not move."""

import asyncio
import signal
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from core.chat import ChatReply
from infra.acts import make_act
from infra.decisions import ActRefused, decide, stop
from infra.reports import report_run
from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.watch import Asks, Ended, Event, Line, Moved, Recovered, Trouble, follow
from tests.running import FakeModel, calls, says, worker_for
from tests.starter.broken_agent import BrokenAgent
from tests.starter.commands import Starter
from tests.waiting import wait_until
from worker import build_worker

ONE_CALL = calls(("publish", '{"title": "One", "text": "t"}'))


def replies() -> list[ChatReply]:
    """A turn that asks a person, and the answer."""
    return [ONE_CALL, says("Done.")]


async def test_a_watcher_sees_what_waits_and_how_it_ends(
    client: Client, own: Settings, blobs: S3BlobStore, runs: Runs
) -> None:
    """Each line comes once, the waiting call with its exact arguments, and the result at the end."""
    seen: list[Event] = []
    async with worker_for(client, own, blobs, FakeModel(replies())) as running:
        handle = await running.start(tools=["publish"])
        async for event in follow(runs, handle.id):
            seen.append(event)
            if isinstance(event, Asks):
                assert event.call.arguments.text == '{"title": "One", "text": "t"}'
                await decide(runs, handle.id, "approve", make_act(by="Ann"))
    lines = [event.text.split(": ", 1)[1] for event in seen if isinstance(event, Line)]
    assert lines[0].endswith("calls publish")
    assert lines[1:] == [
        "publish waits for approval (t1c1)",
        "t1c1 approved by Ann",
        "publish done: published One: 1 characters",
        "Done.",
        "completed",
    ]
    assert any(isinstance(event, Moved) and event.progress.usage.input_tokens == 10 for event in seen)
    last = seen[-1]
    assert isinstance(last, Ended)
    assert last.ending.result is not None
    assert last.ending.result.text.text == "Done."


async def test_a_watcher_outlives_the_worker(client: Client, own: Settings, blobs: S3BlobStore, runs: Runs) -> None:
    """Without a worker it says so once and goes on; with the next one it says that all is well, and sees the end."""
    seen: list[Event] = []
    model = FakeModel(replies())

    async with worker_for(client, own, blobs, model) as running:
        handle = await running.start(tools=["publish"])
        await running.until(handle, lambda state: len(state.pending) == 1, "the call waits")
    watching = asyncio.create_task(_collect(runs, handle.id, seen))
    await wait_until(lambda: any(isinstance(event, Trouble) for event in seen), description="the watcher sees trouble")
    async with build_worker(client, running.settings, blobs, model):
        await wait_until(lambda: any(isinstance(event, Recovered) for event in seen), description="it recovers")
        await decide(runs, handle.id, "approve", make_act())
        await watching
    assert sum(isinstance(event, Trouble) for event in seen) == sum(isinstance(event, Recovered) for event in seen)
    assert isinstance(seen[-1], Ended)


async def _collect(runs: Runs, run: str, seen: list[Event]) -> None:
    async for event in follow(runs, run):
        seen.append(event)  # noqa: PERF401 - one by one: the test waits for each


async def test_a_run_with_a_bug_in_its_workflow_is_seen(client: Client, settings: Settings, runs: Runs) -> None:
    """Such a run does not move and does not fail; `state` and `watch` say why."""
    queue = f"broken-{uuid4().hex[:8]}"
    worker = Worker(client, task_queue=queue, workflows=[BrokenAgent], workflow_runner=UnsandboxedWorkflowRunner())
    async with worker:
        run = f"broken-{uuid4().hex[:8]}"
        await client.start_workflow("Agent", {}, id=run, task_queue=queue, execution_timeout=timedelta(minutes=10))

        async def trouble() -> str:
            return (await runs.info(run)).trouble

        said = await wait_until(trouble, description="the failed workflow task is seen")
        assert "the run does not move" in said
        assert "the tail is longer than the dog" in said
        first = await anext(follow(runs, run))
        assert isinstance(first, Trouble)
        assert "the tail is longer" in first.why
        report = await report_run(runs, run)
        assert (report.state, report.note) == (None, "")
        assert f"temporal workflow terminate --workflow-id {run}" in report.run.trouble
        with pytest.raises(ActRefused, match="nothing was sent: the run does not move"):
            await decide(runs, run, "approve", make_act())
        with pytest.raises(ActRefused, match="nothing was sent: the run does not move"):
            await stop(runs, run)
    await client.get_workflow_handle(run).terminate(reason="the test is over")
    ending = await runs.ending(run)
    assert ending is not None
    assert ending.said() == "terminated: the test is over"


async def test_the_command_writes_one_json_object_a_line(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter
) -> None:
    """Scripts read `watch --json` line by line; the last line has the result, and the exit code is that of the run."""
    async with worker_for(client, own, blobs, FakeModel([says("Done.")])) as running:
        handle = await running.start()
        watched = await starter("watch", handle.id, "--json")
        assert watched.code == 0
        assert watched.lines()[-1]["kind"] == "ended"
        assert watched.lines()[-1]["ending"]["result"]["text"]["text"] == "Done."
        plain = await starter("watch", handle.id)
        assert plain.out.endswith("Done.\n")
        assert "completed" in plain.err


async def test_a_failed_run_and_a_cancelled_one_have_their_exit_codes(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter
) -> None:
    """1 for a run that failed, with its reason; 5 for one that was cancelled."""
    async with worker_for(client, own, blobs, FakeModel(replies())) as running:
        failed = await running.start(tools=["publsh"])
        told = await starter("result", failed.id)
        assert told.code == 1
        assert "unknown tool 'publsh'" in told.err
        waits = await running.start(tools=["publish"])
        await running.until(waits, lambda state: len(state.pending) == 1, "the call waits")
        await waits.cancel()
        assert (await starter("result", waits.id, "--json")).code == 5


async def test_an_interrupt_leaves_the_run_alone_and_says_how_to_go_on(
    client: Client, own: Settings, blobs: S3BlobStore, runs: Runs, starter: Starter
) -> None:
    """Ctrl-C ends the watcher with 130; the run still waits for its person."""
    async with worker_for(client, own, blobs, FakeModel(replies())) as running:
        handle = await running.start(tools=["publish"])
        process = await starter.begin("watch", handle.id)
        assert process.stdout is not None
        await process.stdout.readuntil(b"waits for approval")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert process.returncode == 130
        assert f"the run goes on: python starter.py watch {handle.id}" in err.decode()
        assert (await runs.info(handle.id)).status == "running"
        await handle.cancel()
