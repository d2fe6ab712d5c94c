"""Runs below a run: their requests show above, are decided there, and carry the way that they came."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.client import WorkflowUpdateFailedError

from core.asking import Asking
from core.entries import ApprovalRequested, Decided, Entry, Forwarded, Paused, Refused
from core.runs import Above, RunResult
from infra.acts import make_act
from infra.signing_keys import Signer, SigningWish, load_signer, make_key, public_key
from tests.running import FakeModel, Running, calls, replay, says

ECHO = ("echo", '{"text": "a"}')


async def entries_of(running: Running, result: RunResult) -> list[Entry]:
    """A closed run's journal."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


async def under(running: Running, *above: str, approval: Asking | None = None, events: int = 4000) -> str:
    """Start a run that lies below the others, the root first, and wait until it waits itself."""
    run = f"test-{uuid4().hex[:12]}"
    handle = await running.start(
        tools=["echo"],
        approval={"echo": approval or "ask"},
        run_id=run,
        above=Above(workflow_id=above[-1], path=above) if above else None,
        events_per_generation=events,
    )
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    return run


async def test_what_waits_two_runs_below_is_shown_and_decided_at_the_root(running: Running, model: FakeModel) -> None:
    """The request says which way it came, each journal what was passed on, and that of the run itself who decided."""
    model.replies = [calls(ECHO), says("Done.")]
    root = await under(running)
    child = await under(running, root)
    grandchild = await under(running, root, child)
    handle = running.client.get_workflow_handle(root, result_type=RunResult)
    ids = {"t1c1", f"{child}/t1c1", f"{child}/{grandchild}/t1c1"}
    state = await running.until(handle, lambda state: {call.id for call in state.pending} == ids, "all three show")
    assert [call.of and call.of.workflow_id for call in state.pending] == [None, child, grandchild]
    details = (await handle.query("__temporal_workflow_metadata")).current_details
    assert f"python starter.py approve {root} {child}/{grandchild}/t1c1" in details
    answer = await handle.execute_update("approve", {"id": f"{child}/{grandchild}/t1c1", "by": "ana"})
    assert answer["entry"]["kind"] == "forwarded"
    below = running.client.get_workflow_handle(grandchild, result_type=RunResult)
    entries = await entries_of(running, await running.result(below))
    (asked,) = (entry for entry in entries if isinstance(entry, ApprovalRequested))
    assert asked.path == (root, child)
    assert [entry.by for entry in entries if isinstance(entry, Decided)] == ["ana"]
    await handle.signal("reject", {"id": f"{child}/t1c1", "by": "ben", "reason": "no"})
    result = await running.result(running.client.get_workflow_handle(child, result_type=RunResult))
    assert result.calls == {}
    state = await running.until(handle, lambda state: len(state.pending) == 1, "what is decided waits no more")
    await handle.signal("approve")
    entries = await entries_of(running, await running.result(handle))
    passed = [(entry.act, entry.to, entry.target, entry.by) for entry in entries if isinstance(entry, Forwarded)]
    assert passed == [("approve", child, f"{grandchild}/t1c1", "ana"), ("reject", child, "t1c1", "ben")]


async def test_a_run_below_is_paused_and_resumed_from_above(running: Running, model: FakeModel) -> None:
    """An id that ends with a / is that of the run itself."""
    model.replies = [calls(ECHO), says("Done.")]
    root = await under(running)
    child = await under(running, root)
    handle = running.client.get_workflow_handle(root, result_type=RunResult)
    await running.until(handle, lambda state: len(state.pending) == 2, "both show")
    await handle.signal("pause", {"id": f"{child}/", "by": "ana"})
    state = await running.until(handle, lambda state: any(run.paused for run in state.below), "its pause shows above")
    assert (state.paused, "ana" in state.below[0].paused) == ("", True)
    await handle.signal("resume", {"id": f"{child}/", "by": "ben"})
    await running.until(handle, lambda state: not any(run.paused for run in state.below), "it goes on")
    await handle.signal("approve", {"id": f"{child}/t1c1"})
    result = await running.result(running.client.get_workflow_handle(child, result_type=RunResult))
    assert [entry.by for entry in await entries_of(running, result) if isinstance(entry, Paused)] == ["ana"]
    await handle.cancel()


async def test_what_waits_nowhere_below_is_refused(running: Running, model: FakeModel) -> None:
    """Also what comes as if a run below had told it; and a run below that is gone."""
    model.replies = [calls(ECHO), says("Done.")]
    root = await under(running)
    child = await under(running, root)
    handle = running.client.get_workflow_handle(root, result_type=RunResult)
    await running.until(handle, lambda state: len(state.pending) == 2, "both show")
    for wrong, why in (
        ("elsewhere/t1c1", "no run below waits as"),
        (f"{child}/t9c9", "'t9c9' does not wait in"),
        (f"{child}/", "does not wait in"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("approve", {"id": wrong})
        assert why in str(refused.value.cause)
    await handle.signal("waits_below", {"run": "mine"})
    await handle.signal("waits_below")
    await running.client.get_workflow_handle(child).terminate()
    await handle.signal("approve", {"id": f"{child}/t1c1"})
    await handle.signal("approve", {"id": "t1c1"})
    result = await running.result(handle)
    told = [entry.why for entry in await entries_of(running, result) if isinstance(entry, Refused)]
    assert (await running.state(handle)).below == ()
    assert [sum(word in why for why in told) for word in ("not what a run below tells", "can not be reached")] == [2, 1]


async def test_a_signed_decision_is_passed_on_as_it_was_signed(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """It is over the request of the run below, wherever it is sent."""
    made = make_key(tmp_path / "ana.pem", "ana", None)
    signer: Signer = load_signer(SigningWish(file=made.file, lasts="10m"), None)
    assert isinstance(signer.key, Ed25519PrivateKey)
    model.replies = [calls(ECHO), says("Done.")]
    root = await under(running)
    child = await under(running, root, approval=Asking(keys={"ana": public_key(signer.key)}))
    handle = running.client.get_workflow_handle(root, result_type=RunResult)
    state = await running.until(handle, lambda state: len(state.pending) == 2, "both show")
    act = signer.sign(state, "approve", make_act(call=f"{child}/t1c1", by="ana"))
    await handle.signal("approve", act)
    result = await running.result(running.client.get_workflow_handle(child, result_type=RunResult))
    (decided,) = (entry for entry in await entries_of(running, result) if isinstance(entry, Decided))
    assert (decided.by, bool(decided.signature)) == ("ana", True)
    await handle.cancel()


async def test_what_waits_below_is_known_also_in_new_temporal_runs(running: Running, model: FakeModel) -> None:
    """Of both: each goes on in a new one many times while it waits."""
    model.replies = [calls(ECHO), says("Done.")]
    root = await under(running, events=50)
    child = await under(running, root, events=50)
    handle = running.client.get_workflow_handle(root, result_type=RunResult)
    await running.until(handle, lambda state: len(state.pending) == 2, "both show")
    for number in range(60):
        one = handle.signal("approve", {"id": f"wrong-{number}"})
        await asyncio.gather(
            one, running.client.get_workflow_handle(child).signal("approve", {"id": f"wrong-{number}"})
        )
    await handle.signal("approve", {"id": f"{child}/t1c1", "by": "ana"})
    result = await running.client.get_workflow_handle(child, result_type=RunResult).result()
    assert result.calls == {"echo": 1}
    await running.until(handle, lambda state: len(state.pending) == 1, "what is decided waits no more")
    await handle.signal("approve", {"id": "t1c1"})
    first = running.client.get_workflow_handle(root, result_type=RunResult)
    assert (await first.result()).calls == {"echo": 1}
    await replay(first)
