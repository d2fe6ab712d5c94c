"""Acts as updates: checked before they are taken, answered at once, and counted across generations."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from core.agents import Limits
from core.approvals import Answer
from core.entries import Decided, Refused
from core.ports import BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, histories, says, worker_for

WAITS = "the call waits"
ECHO = ("echo", '{"text": "a"}')


async def update(handle: Any, name: str, act: object) -> Answer:
    """Send an update and return its answer."""
    answer: Answer = await handle.execute_update(name, act, result_type=Answer)
    return answer


async def refusal(handle: Any, name: str, act: object) -> str:
    """Send an update that must be refused, and return why it was."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await update(handle, name, act)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause.message


async def test_an_update_is_answered_with_what_came_of_it_and_the_new_version(
    running: Running, model: FakeModel
) -> None:
    """Whoever decided knows at once that it counts."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    state = await running.until(handle, lambda state: bool(state.pending), WAITS)
    answer = await update(handle, "approve", {"by": "ana", "expected_version": state.steps})
    assert answer.version == state.steps + 1
    assert isinstance(answer.entry, Decided)
    assert (answer.entry.call_id, answer.entry.approved, answer.entry.by) == ("t1c1", True, "ana")
    assert (await running.result(handle)).calls == {"echo": 1}


async def test_an_update_that_can_not_be_carried_out_leaves_no_trace_and_says_why(
    running: Running, model: FakeModel
) -> None:
    """Nothing hangs, whatever is sent; the run's history and journal do not grow by it."""
    model.replies = [calls(ECHO, ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    state = await running.until(handle, lambda state: len(state.pending) == 2, "both wait")
    events = len((await handle.fetch_history()).events)
    assert "several calls wait: name one" in await refusal(handle, "approve", {})
    assert "'t9c9' does not wait for approval; waiting: t1c1, t1c2" in await refusal(handle, "reject", {"id": "t9c9"})
    assert "the run is not paused" in await refusal(handle, "resume", {})
    assert "send approve or reject" in await refusal(handle, "settle", {"id": "t1c1", "settlement": "done"})
    stale = await refusal(handle, "approve", {"id": "t1c1", "expected_version": state.steps - 1})
    assert f"its state is of version {state.steps}, you saw {state.steps - 1}" in stale
    for garbage in ("approve please", [1, 2], b"\x00\xff", 7, "x" * 500_000):
        assert await refusal(handle, "approve", garbage)
    assert len((await handle.fetch_history()).events) == events
    await update(handle, "approve", {"id": "t1c1", "by": "ana"})
    assert ": already approved by ana at " in await refusal(handle, "reject", {"id": "t1c1"})
    await update(handle, "reject", {"id": "t1c2", "by": "ben", "reason": "once is enough"})
    result = await running.result(handle)
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    assert not any(isinstance(entry, Refused) for entry in entries)


async def test_of_fifty_who_approve_at_once_one_is_taken(running: Running, model: FakeModel) -> None:
    """All the others are told who was faster, or that the run has moved on."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: bool(state.pending), WAITS)
    asked = (update(handle, "approve", {"id": "t1c1", "by": f"approver {number}"}) for number in range(50))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    taken = [answer.entry for answer in answers if isinstance(answer, Answer)]
    assert len(taken) == 1
    assert all(isinstance(answer, Answer | WorkflowUpdateFailedError | RPCError) for answer in answers)
    result = await running.result(handle)
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    assert [entry for entry in entries if isinstance(entry, Decided)] == taken


@pytest.mark.timeout(300)
async def test_no_update_is_lost_or_applied_twice_across_20_generations(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """Each that was answered is in the journal once, each that was refused is not, while signals come in, too."""
    turns = 40
    note = calls(("note", f'{{"path": "{tmp_path}/notes", "text": "a"}}'))
    async with worker_for(client, tested, blobs, FakeModel([*([note] * turns), says("Done.")])) as running:
        handle = await running.start(
            tools=["note"], approval={"note": "ask"}, limits=Limits(turns=turns + 1), events_per_generation=50
        )
        answered: list[str] = []

        async def approve_for_ever(sender: str) -> None:
            number = 0
            while len(answered) < turns:
                number += 1
                act = {"by": f"{sender} {number}"}
                try:
                    answer = await update(handle, "approve", act)
                except (WorkflowUpdateFailedError, RPCError):
                    with suppress(RPCError):  # the run may have ended by the other's approval
                        await handle.signal("nobody-knows", act)
                    continue
                assert isinstance(answer.entry, Decided)
                answered.append(answer.entry.by)

        await asyncio.gather(approve_for_ever("ana"), approve_for_ever("ben"))
        result = await running.result(handle)
        assert len(await histories(handle)) >= 20
        assert result.head is not None
        entries = await running.storage().journal(result.scope).entries(result.head)
        decided = [entry.by for entry in entries if isinstance(entry, Decided)]
        assert Counter(decided) == Counter(answered)
        assert len(decided) == turns
        assert (tmp_path / "notes").read_text() == "a\n" * turns
