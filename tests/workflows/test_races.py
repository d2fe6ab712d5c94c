"""Acts that come at once, too late, or by the thousand: each counts once or is refused with the reason."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from core.agents import Limits
from core.approvals import Answer
from core.details import DETAILS_BYTES
from core.entries import Decided, Entry, Messaged, Refused
from core.ports import BlobStore
from core.runs import RunResult
from infra.payloads import data_converter
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, histories, says, worker_for
from worker import build_worker

ECHO = ("echo", '{"text": "a"}')
FLOOD = 2500
TASK_FAILED = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED


async def entries_of(running: Running, result: RunResult) -> list[Entry]:
    """A closed run's journal."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


async def at_most(count: int, work: Sequence[Awaitable[object]]) -> list[object]:
    """Do all of it, so many at a time."""
    room = asyncio.Semaphore(count)

    async def one(each: Awaitable[object]) -> object:
        async with room:
            return await each

    return await asyncio.gather(*(one(each) for each in work), return_exceptions=True)


async def test_approved_and_rejected_at_once_one_counts_and_the_other_is_told(
    running: Running, model: FakeModel
) -> None:
    """From two terminals, for twenty calls: who was faster, and when."""
    model.replies = [calls(*([ECHO] * 21)), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: len(state.pending) == 21, "all wait")
    other = await Client.connect(running.client.service_client.config.target_host, data_converter=data_converter)
    elsewhere = other.get_workflow_handle(handle.id)

    async def decide(terminal: Any, name: str, call_id: str, by: str) -> Answer:
        answer: Answer = await terminal.execute_update(name, {"id": call_id, "by": by}, result_type=Answer)
        return answer

    ids = [f"t1c{number}" for number in range(1, 21)]
    ana = (decide(handle, "approve", call_id, "ana") for call_id in ids)
    ben = (decide(elsewhere, "reject", call_id, "ben") for call_id in ids)
    answers = await asyncio.gather(
        *(each for pair in zip(ana, ben, strict=True) for each in pair), return_exceptions=True
    )
    for call_id, pair in zip(ids, zip(answers[::2], answers[1::2], strict=True), strict=True):
        taken = [answer for answer in pair if isinstance(answer, Answer)]
        (late,) = (answer for answer in pair if not isinstance(answer, Answer))
        assert isinstance(late, WorkflowUpdateFailedError)
        assert isinstance(late.cause, ApplicationError)
        assert len(taken) == 1
        decided = taken[0].entry
        assert isinstance(decided, Decided)
        verdict = "approved" if decided.approved else "rejected"
        assert f"{call_id} does not wait for approval: already {verdict} by {decided.by} at" in _unquoted(late.cause)
    await handle.signal("approve")
    result = await running.result(handle)
    decisions = Counter(entry.call_id for entry in await entries_of(running, result) if isinstance(entry, Decided))
    assert decisions == dict.fromkeys([*ids, "t1c21"], 1)


def _unquoted(error: ApplicationError) -> str:
    return error.message.replace("'", "")


async def test_two_hundred_requests_in_one_run(running: Running, model: FakeModel) -> None:
    """They are carried on while they wait, what people read of them is bounded, and each is decided on its own."""
    model.replies = [calls(*([("echo", json.dumps({"text": "x" * 2000}))] * 200)), says("Done.")]
    limits = Limits(calls_per_turn=200, parallel_calls=50)
    handle = await running.start(tools=["echo"], approval={"echo": "ask"}, limits=limits, events_per_generation=100)
    state = await running.until(handle, lambda state: len(state.pending) == 200, "all wait")
    await at_most(50, [handle.signal("approve", {"id": f"t9c{number}"}) for number in range(100)])
    details = (await handle.query("__temporal_workflow_metadata")).current_details
    assert "### 195 more wait" in details
    assert len(details.encode()) <= DETAILS_BYTES
    acts = [
        handle.execute_update(
            "approve" if number % 2 else "reject", {"id": call.id, "digest": call.digest, "by": "ana"}
        )
        for number, call in enumerate(state.pending)
    ]
    refused = [answer for answer in await at_most(20, acts) if isinstance(answer, Exception)]
    for again in range(20):  # in the moment of a change an update is to be sent again
        waiting = (await running.state(handle)).pending
        if not refused or not waiting:
            break
        retried = [handle.execute_update("reject", {"id": call.id, "by": f"ana {again}"}) for call in waiting]
        refused = [answer for answer in await at_most(20, retried) if isinstance(answer, Exception)]
    result = await running.result(handle)
    assert (result.outcome, len(await histories(handle)) >= 2) == ("completed", True)
    decisions = Counter(entry.call_id for entry in await entries_of(running, result) if isinstance(entry, Decided))
    assert decisions == {f"t1c{number}": 1 for number in range(1, 201)}


@pytest.mark.timeout(300)
async def test_thousands_of_signals_wait_for_a_worker(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """After an outage all of them come at once: each is taken, in its order, and no workflow task takes too long."""
    model = FakeModel([calls(("note", json.dumps({"path": str(tmp_path / "a"), "text": "hello"}))), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(tools=["note"], approval={"note": "ask"})
        await running.until(handle, lambda state: bool(state.pending), "it waits")
    await at_most(50, [handle.signal("approve", {"id": f"wrong-{number}"}) for number in range(FLOOD)])
    await handle.signal("approve", {"id": "t1c1", "by": "ana"})
    async with build_worker(client, running.settings, blobs, model):
        result = await running.result(handle)
    entries = await entries_of(running, result)
    refused = [entry.why for entry in entries if isinstance(entry, Refused)]
    assert len(refused) == FLOOD
    assert len({why.split("'")[1] for why in refused}) == FLOOD
    assert isinstance(entries[max(n for n, entry in enumerate(entries) if isinstance(entry, Refused)) + 1], Decided)
    failed = [
        event for history in await histories(handle) for event in history.events if event.event_type == TASK_FAILED
    ]
    assert failed == []


async def test_a_message_in_the_moment_of_the_end_is_read_or_refused(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """Never lost: the agent reads it, the journal says why not, or its sender is told that the run has ended."""
    heard: list[str] = []

    class Listening(FakeModel):
        async def reply(self, request: Any, on_text: Any = None) -> Any:  # noqa: ARG002 - it says it at once
            heard.append("\n".join(message.text for message in request.messages))
            return says("Done.")

    async def race(running: Running, number: int) -> str:
        handle = await running.start()
        for _ in range(number):
            await asyncio.sleep(0)
            await handle.query("progress")
        try:
            await handle.signal("message", {"text": f"Wait {number}."})
        except RPCError as error:
            assert "already completed" in error.message  # noqa: PT017 - one of three good ends
            await running.result(handle)
            return "told"
        result = await running.result(handle)
        entries = await entries_of(running, result)
        if any(isinstance(entry, Messaged) for entry in entries):
            assert any(f"Wait {number}." in text for text in heard)
            return "read"
        refused = [entry.why for entry in entries if isinstance(entry, Refused)]
        assert result.late_acts == 1 or refused == ["the run has ended: it is completed"]
        return "refused"

    async with worker_for(client, tested, blobs, Listening([])) as running:
        ends = await asyncio.gather(*(race(running, number) for number in range(12)))
    assert "read" in ends


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
async def test_after_the_end_nothing_can_be_decided(running: Running, model: FakeModel, ends: str) -> None:
    """And whoever tries is told at once; the closed journal stays as it is."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"}, run_id=f"test-{uuid4().hex[:12]}")
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    if ends == "completed":
        await handle.signal("approve", {"by": "ana"})
        await running.result(handle)
    else:
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await running.result(handle)
    with pytest.raises(RPCError, match="already completed"):
        await handle.signal("approve", {"id": "t1c1"})
    with pytest.raises(RPCError, match="already completed"):
        await handle.execute_update("reject", {"id": "t1c1"}, rpc_timeout=timedelta(seconds=5))
