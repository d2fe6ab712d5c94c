"""Signed decisions in real runs: what is forged is refused and recorded, what was signed counts, and replays."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from core.acts import Act
from core.asking import Asking
from core.entries import Decided, Refused, RunRef
from core.runs import RunResult
from core.view import StateView
from tests.core.signers import keys, signed
from tests.running import FakeModel, Running, calls, says
from tests.waiting import wait_until


def run_of(state: StateView) -> RunRef:
    """Which run it is, as its state says."""
    assert state.run is not None
    return state.run


async def taken_in(running: Running, result: RunResult) -> tuple[list[str], list[Decided]]:
    """Why acts were refused, and the decisions, as the journal has them."""
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    refused = [entry.why for entry in entries if isinstance(entry, Refused)]
    return refused, [entry for entry in entries if isinstance(entry, Decided)]


async def test_a_forged_decision_is_refused_and_recorded_and_the_true_ones_count(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """By signal and by update; also one that was signed for another run, which asks the very same."""
    note = calls(("note", json.dumps({"path": str(tmp_path / "a"), "text": "paid"})))
    model.replies = [note, says("Done.")]
    policy = {"note": Asking(keys=keys("ben", "eve"), needed=2)}
    handle = await running.start(tools=["note"], approval=policy)
    other = await running.start(tools=["note"], approval=policy)
    state = await running.until(handle, lambda state: bool(state.pending), "it waits")
    elsewhere = await running.until(other, lambda state: bool(state.pending), "the other waits")
    (call,), now = state.pending, datetime.now(UTC)
    assert call.keys == keys("ben", "eve")
    assert call.digest == elsewhere.pending[0].digest

    true = signed(Act(by="ben"), call, run=run_of(state), now=now)
    replayed = signed(Act(by="ben"), elsewhere.pending[0], run=run_of(elsewhere), now=now)
    for act in (Act(by="ben"), signed(Act(by="ben"), call, run=run_of(state), now=now, key="zoe"), replayed):
        await handle.signal("approve", act)
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await handle.execute_update("approve", replayed)
    assert isinstance(failed.value.cause, ApplicationError)
    assert "its signature is not ben's, or not of this act" in failed.value.cause.message
    await handle.signal("approve", true)
    await handle.signal("approve", true)
    answer = await handle.execute_update("approve", signed(Act(by="eve"), call, run=run_of(state), now=now))
    assert answer["entry"]["by"] == "eve"

    result = await running.result(handle)
    assert (result.calls, (tmp_path / "a").read_text()) == ({"note": 1}, "paid\n")
    refused, decided = await taken_in(running, result)
    assert ["only signed" in why for why in refused] == [True, False, False, False]
    assert ["its signature is not ben's" in why for why in refused] == [False, True, True, False]
    assert "ben has approved t1c1 already" in refused[3]
    assert [(entry.by, bool(entry.signature)) for entry in decided] == [("ben", True), ("eve", True)]
    await other.cancel()


async def test_a_signature_counts_after_the_run_went_on_in_another_temporal_run(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """It names the first one, as the state does: who signed before that has nothing to sign again."""
    note = calls(("note", json.dumps({"path": str(tmp_path / "a"), "text": "paid"})))
    model.replies = [note, says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": Asking(keys=keys("ben"))}, events_per_generation=50)
    state = await running.until(handle, lambda state: bool(state.pending), "it waits")
    act = signed(Act(by="ben"), state.pending[0], run=run_of(state), now=datetime.now(UTC))
    for _ in range(40):
        await handle.signal("approve", Act(by="ben"))

    async def went_on() -> bool:
        return (await handle.describe()).run_id != run_of(state).run_id

    await wait_until(went_on, description="the run goes on in another Temporal run")
    await handle.signal("approve", act)
    assert (await running.result(handle)).calls == {"note": 1}
