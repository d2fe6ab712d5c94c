"""Whatever dies, the run picks up where it was, and repeats nothing that must not be repeated."""

import asyncio
import signal
from datetime import timedelta
from pathlib import Path

from temporalio.client import WorkflowHandle

from core.agents import Limits
from core.runs import RunResult
from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.stack import LocalStack
from infra.temporal import connect
from tests.durability.scripts import calling, script
from tests.durability.workers import HURRY, worker_process
from tests.running import Running
from tests.waiting import wait_until
from workflows.agent import Agent

PATIENCE = timedelta(seconds=90)
Handle = WorkflowHandle[Agent, RunResult]


def lines(path: Path) -> int:
    """How many lines a file has; none when it is not there."""
    return path.read_text().count("\n") if path.exists() else 0


async def test_a_read_goes_on_after_kill_9_of_its_worker(stack: LocalStack, running: Running, tmp_path: Path) -> None:
    """Another worker runs the tool again, and the steps before are not repeated."""
    starts, there, notes = tmp_path / "starts", tmp_path / "there", tmp_path / "notes"
    model = script(
        tmp_path,
        calling("note", path=str(notes), text="before"),
        calling("wait_for_file", path=str(there), starts=str(starts)),
        {"text": "Done."},
    )
    queue = running.settings.task_queue
    handle = await running.start(tools=["note", "wait_for_file"], model=model)
    async with worker_process(stack, queue, tmp_path) as first:
        await wait_until(lambda: lines(starts) == 1, PATIENCE, "the tool has started")
        first.send_signal(signal.SIGKILL)
        await first.wait()
    async with worker_process(stack, queue, tmp_path):
        await wait_until(lambda: lines(starts) == 2, PATIENCE, "the tool has started again")
        there.touch()
        result = await running.result(handle)
    assert (result.outcome, result.turns, lines(notes)) == ("completed", 3, 1)


async def test_a_reply_that_streams_when_its_worker_is_killed_enters_the_journal_once(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """Another worker asks again: half a reply is nowhere, and no try of the provider's is used up."""
    story = "Once upon a time\n" * 40
    model = script(tmp_path, {"text": story, "delay_seconds": 60})
    queue, runs = running.settings.task_queue, Runs(running.client)
    handle = await running.start(model=model)

    async def writes() -> bool:
        return "Once upon a time" in (await runs.info(handle.id)).saying

    async with worker_process(stack, queue, tmp_path) as first:
        await wait_until(writes, PATIENCE, "the model writes")
        first.send_signal(signal.SIGKILL)
        await first.wait()
    script(tmp_path, {"text": story})
    async with worker_process(stack, queue, tmp_path):
        result = await running.result(handle)
    assert (result.outcome, result.text.text) == ("completed", story)
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    assert [entry.kind for entry in entries] == ["started", "replied", "closed"]


async def test_a_write_that_was_killed_is_not_started_again(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """Nobody knows what became of it, so a person is asked; only that lets it run again."""
    starts, never = tmp_path / "starts", tmp_path / "never"
    model = script(
        tmp_path, calling("write_and_wait", path=str(never), starts=str(starts)), {"text": "I heard: ${last}"}
    )
    queue = running.settings.task_queue
    handle = await running.start(tools=["write_and_wait"], model=model)
    async with worker_process(stack, queue, tmp_path) as first:
        await wait_until(lambda: lines(starts) == 1, PATIENCE, "the tool has started")
        first.send_signal(signal.SIGKILL)
        await first.wait()
    async with worker_process(stack, queue, tmp_path):
        state = await running.until(handle, lambda state: bool(state.pending), "a person is asked")
        assert state.pending[0].doubt == "it was started and did not report its end (its worker died)"
        assert lines(starts) == 1
        never.touch()
        await handle.signal("settle", {"settlement": "run_again", "by": "ana"})
        result = await running.result(handle)
    assert (result.outcome, lines(starts)) == ("completed", 2)


async def test_who_watches_while_a_worker_dies_does_no_harm(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """Queries that wait for the next worker are told what no task has taken in; no history is spoilt by that."""
    starts, never = tmp_path / "starts", tmp_path / "never"
    model = script(tmp_path, calling("write_and_wait", path=str(never), starts=str(starts)), {"text": "Done."})
    queue = running.settings.task_queue
    handles = [await running.start(tools=["write_and_wait"], model=model) for _ in range(4)]
    async with worker_process(stack, queue, tmp_path) as first:
        await wait_until(lambda: lines(starts) == 4, PATIENCE, "the tools have started")
        first.kill()
        await first.wait()
    async with worker_process(stack, queue, tmp_path):
        await asyncio.gather(*(_settled(running, handle) for handle in handles))
        results = [await running.result(handle) for handle in handles]  # which replays them
    assert [result.outcome for result in results] == ["completed"] * 4


async def _settled(running: Running, handle: Handle) -> None:
    """Watch a run all the time, and settle its call as soon as it says that it waits for that, until it has heard."""

    async def has_ended() -> bool:
        if (await running.state(handle)).pending:
            await handle.signal("settle", {"settlement": "done", "by": "ana"})
        return (await handle.describe()).close_time is not None

    await wait_until(has_ended, PATIENCE, "it has ended")


async def test_a_run_that_waits_for_a_person_survives_kill_9_and_takes_the_decision_meanwhile(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """A signal that is sent while no worker lives is applied when one is back."""
    notes = tmp_path / "notes"
    model = script(tmp_path, calling("note", path=str(notes), text="a"), {"text": "Done."})
    queue = running.settings.task_queue
    handle = await running.start(tools=["note"], approval={"note": "ask"}, model=model)
    async with worker_process(stack, queue, tmp_path) as first:
        await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
        first.send_signal(signal.SIGKILL)
        await first.wait()
    await handle.signal("approve", {"by": "ana"})
    async with worker_process(stack, queue, tmp_path):
        result = await running.result(handle)
    assert (result.outcome, lines(notes)) == ("completed", 1)


async def test_sigterm_drains_and_another_worker_goes_on(stack: LocalStack, running: Running, tmp_path: Path) -> None:
    """The worker ends with exit code 0; what it could not end is run by the next one."""
    starts, there = tmp_path / "starts", tmp_path / "there"
    model = script(tmp_path, calling("wait_for_file", path=str(there), starts=str(starts)), {"text": "Done."})
    queue = running.settings.task_queue
    handle = await running.start(tools=["wait_for_file"], model=model)
    async with worker_process(stack, queue, tmp_path, HURRY) as first:
        await wait_until(lambda: lines(starts) == 1, PATIENCE, "the tool has started")
        first.send_signal(signal.SIGTERM)
        assert await first.wait() == 0
    there.touch()
    async with worker_process(stack, queue, tmp_path):
        result = await running.result(handle)
    assert result.outcome == "completed"


async def test_kill_9_of_both_servers_loses_no_step(tmp_path: Path) -> None:
    """Temporal and S3 die in mid-run and come back; every call ran once."""
    notes = tmp_path / "notes"
    replies = [calling("order", path=str(notes), what=str(number)) for number in range(24)]
    big = calling("letters", count=200_000)
    model = script(
        tmp_path, *(reply for pair in zip(replies, [big] * 24, strict=True) for reply in pair), {"text": "Done."}
    )
    async with LocalStack(tmp_path / "stack", flush_interval=None) as own:
        client = await connect(own.settings())
        blobs = S3BlobStore.from_settings(own.settings())
        running = Running(client, own.settings(), blobs)
        async with worker_process(own, own.settings().task_queue, tmp_path):
            handle = await running.start(tools=["order", "letters"], model=model, limits=Limits(turns=100))
            await wait_until(lambda: lines(notes) >= 5, PATIENCE, "the run is on its way")
            await own.kill("temporal")
            await own.kill("s3")
            await own.ready()
            await wait_until(lambda: lines(notes) >= 12, PATIENCE, "the run goes on")
            await own.kill("s3")
            await own.ready()
            await wait_until(lambda: lines(notes) >= 24, PATIENCE, "the run goes on once more")
            result = await _result(handle.id, own.settings())
        await blobs.close()
    assert result["outcome"] == "completed"
    assert result["turns"] == 49
    # A write that was running when Temporal died was looked up afterwards: none is missing, and none ran twice.
    assert [int(line.split()[1]) for line in notes.read_text().splitlines()] == list(range(24))


async def test_a_second_start_on_the_same_data_goes_on_with_the_runs(tmp_path: Path) -> None:
    """Everything stops in the middle, and the next start finishes the run."""
    starts, there = tmp_path / "starts", tmp_path / "there"
    model = script(tmp_path, calling("wait_for_file", path=str(there), starts=str(starts)), {"text": "Done."})
    async with LocalStack(tmp_path / "stack", flush_interval=None) as own:
        running = Running(await connect(own.settings()), own.settings(), S3BlobStore.from_settings(own.settings()))
        handle = await running.start(tools=["wait_for_file"], model=model, run_id="survivor")
        async with worker_process(own, own.settings().task_queue, tmp_path):
            await wait_until(lambda: lines(starts) == 1, PATIENCE, "the tool has started")
    there.touch()
    async with (
        LocalStack(tmp_path / "stack", flush_interval=None) as again,
        worker_process(again, again.settings().task_queue, tmp_path),
    ):
        result = await _result(handle.id, again.settings())
    assert (result["outcome"], lines(starts)) == ("completed", 2)


async def _result(run_id: str, settings: Settings) -> dict[str, object]:
    """Wait for a run's result over outages: a client of its own, as often as it takes."""

    async def ask() -> dict[str, object] | None:
        try:
            client = await connect(settings)
            handle = client.get_workflow_handle(run_id)
            async with asyncio.timeout(30):
                found: dict[str, object] = await handle.result()
                return found
        except (Exception, TimeoutError):  # noqa: BLE001 - an outage, of whatever kind: ask again
            return None

    result: dict[str, object] | None = await wait_until(ask, PATIENCE, f"{run_id} ends")
    assert result is not None
    return result
