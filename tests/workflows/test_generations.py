"""A run goes on in a new Temporal run before its history is full, and nothing of it is lost."""

import asyncio
import json
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from core.agents import Limits
from core.entries import Decided, Refused, ToolFinished
from core.errors import BlobCorrupt
from core.ports import BlobStore
from core.runs import Continued, RunResult
from core.state import RunState
from infra.settings import Settings
from tests.entries import spec
from tests.running import FakeModel, Running, calls, histories, says, worker_for
from workflows.dispatch import read_input

ECHO = calls(("echo", '{"text": "a"}'))


async def kinds(running: Running, result: RunResult) -> list[str]:
    """The kinds of a closed run's entries."""
    assert result.head is not None
    return [entry.kind for entry in await running.storage().journal(result.scope).entries(result.head)]


async def test_a_long_run_goes_on_in_new_temporal_runs(client: Client, tested: Settings, blobs: BlobStore) -> None:
    """Its callers see one run: one id, one result, one journal."""
    model = FakeModel([*([ECHO] * 40), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(tools=["echo"], events_per_generation=100)
        result = await running.result(handle)
        generations = await histories(handle)
        assert len(generations) >= 5
        assert max(len(history.events) for history in generations) < 140
        assert (result.outcome, result.turns, result.calls) == ("completed", 41, {"echo": 40})
        assert await kinds(running, result) == ["started", *(["replied", "tool_finished"] * 40), "replied", "closed"]


async def test_what_waits_for_a_person_is_carried_on(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """A pending call with long arguments survives generations of refused signals, and runs as it was asked."""
    text = "x" * 3000
    note = ("note", f'{{"path": "{tmp_path}/notes", "text": "{text}"}}')
    model = FakeModel([calls(note, note), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(tools=["note"], approval={"note": "ask"}, events_per_generation=50)
        await running.until(handle, lambda state: len(state.pending) == 2, "both wait")
        await handle.signal("reject", {"id": "t1c2", "by": "ana", "reason": "once"})
        for number in range(120):
            await handle.signal("approve", {"id": f"wrong-{number}"})
        await handle.signal("approve", {"id": "t1c1", "by": "ana"})
        result = await running.result(handle)
        assert len(await histories(handle)) >= 2
        assert (result.outcome, result.calls) == ("completed", {"note": 1})
        assert (tmp_path / "notes").read_text() == f"{text}\n"
        assert result.head is not None
        entries = await running.storage().journal(result.scope).entries(result.head)
        assert sum(isinstance(entry, Refused) for entry in entries) == 120
        assert [(entry.call_id, entry.approved) for entry in entries if isinstance(entry, Decided)] == [
            ("t1c2", False),
            ("t1c1", True),
        ]
        results = {entry.call_id: entry.failed for entry in entries if isinstance(entry, ToolFinished)}
        assert results == {"t1c1": False, "t1c2": True}


async def test_limits_and_usage_count_across_generations(client: Client, tested: Settings, blobs: BlobStore) -> None:
    """A new Temporal run is no new run: the turn limit is that of the whole."""
    model = FakeModel([*([ECHO] * 30), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(tools=["echo"], events_per_generation=100, limits=Limits(turns=20))
        state = await running.until(handle, lambda state: state.phase == "paused", "the limit is reached")
        assert state.turn == 20
        await handle.signal("resume")
        result = await running.result(handle)
        assert (result.turns, result.usage.input_tokens) == (31, 310)


async def test_a_decision_in_the_moment_of_the_change_is_not_lost(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """Signals under load, across generations: each is applied or refused, once."""
    turns = 8
    note = ("note", f'{{"path": "{tmp_path}/notes", "text": "a"}}')
    model = FakeModel([*([calls(note)] * turns), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(tools=["note"], approval={"note": "ask"}, events_per_generation=50)
        numbers, sent = count(), list[int]()

        async def send_for_ever() -> None:
            with suppress(RPCError):  # raised when the run has closed: it does, also under a load that never ends
                while True:
                    number = next(numbers)
                    await handle.signal("approve", {"by": f"sender {number}"})
                    sent.append(number)

        await asyncio.gather(*(send_for_ever() for _ in range(4)))
        result = await running.result(handle)
        assert len(await histories(handle)) >= 3
        assert result.head is not None
        entries = await running.storage().journal(result.scope).entries(result.head)
        decided = [entry.by for entry in entries if isinstance(entry, Decided)]
        refused = [entry for entry in entries if isinstance(entry, Refused)]
        assert len(decided) == len(set(decided)) == turns
        assert len(decided) + len(refused) + result.late_acts == len(sent)
        assert (tmp_path / "notes").read_text() == "a\n" * turns


def test_the_state_that_is_carried_is_json() -> None:
    """It goes through the same converter as everything else."""
    assert RunState.model_validate_json(RunState().model_dump_json()) == RunState()


def carried(**state: object) -> RawValue:
    """What a run hands on to its next Temporal run, in the form of some version."""
    value = {"kind": "continued", "spec": spec().model_dump(mode="json"), "state": state, "generation": 2}
    return RawValue(Payload(data=json.dumps(value).encode()))


def test_what_an_earlier_version_carried_on_is_read() -> None:
    """A run that was started before a change of the state goes on after it."""
    read = read_input(carried(**RunState(turn=7).model_dump(mode="json")))
    assert isinstance(read, Continued)
    assert (read.state.turn, read.generation) == (7, 2)


def test_what_a_newer_version_carried_on_waits_for_a_worker_that_can_read_it() -> None:
    """It is no wrong start: the run must not fail because an old worker met it first."""
    assert isinstance(read_input(carried(version=99)), BlobCorrupt)
    assert isinstance(read_input(carried(version="x")), ApplicationError)
    assert isinstance(read_input(carried(turn="x", version=1)), ApplicationError)


@pytest.mark.parametrize("sent", [{"kind": "continued"}, {"kind": "continued", "state": [1]}, {"kind": "other"}])
async def test_a_continued_input_that_cannot_be_read_fails_with_the_reason(
    client: Client, tested: Settings, blobs: BlobStore, sent: object
) -> None:
    """It does not hang."""
    async with worker_for(client, tested, blobs, FakeModel([])) as running:
        handle = await client.start_workflow(
            "Agent", sent, id=running.settings.task_queue, task_queue=running.settings.task_queue
        )
        with pytest.raises(Exception, match="Workflow execution failed"):
            await handle.result()
