"""Calls whose end was not seen: nothing is guessed, and each way out of the doubt."""

import pytest

from core.approvals import act_on
from core.content import inline
from core.entries import ApprovalRequested, Decided, Refused, Settled, ToolFinished, Unsettled
from core.failures import NOT_DONE, SHUT_DOWN, TIMED_OUT, WORKER_LOST, Failure, in_doubt
from core.fold import apply, interrupted
from core.open_calls import started, unverified, verifying
from core.settlement import RUNS, unsettled, verified
from core.state import RunState
from core.steps import Record, RunCalls, Verify, Wait, next_step
from core.tools import Effect, Verdict, Verified
from tests.entries import NOW, OPEN_STATE, call, policy, reply, spec

PAY = policy("pay", "write")
CHECKED = PAY.model_copy(update={"verifies": True})
LOST = Failure(kind=WORKER_LOST, text="its worker died")


def running(runs: int = 1) -> RunState:
    """A run whose call of `pay` was dispatched so often."""
    state = apply(OPEN_STATE, reply(1, call("t1c1", "pay")))
    for _ in range(runs):
        state = started(state, ["t1c1"])
    return state


def doubtful(*, verifies: bool, runs: int = 1) -> RunState:
    """The same run when nobody saw the call's end."""
    tool = CHECKED if verifies else PAY
    return apply(running(runs), unsettled(call("t1c1", "pay"), tool, LOST, NOW, 1))


def test_a_person_is_asked_when_the_tool_cannot_find_out() -> None:
    """The call waits, visible as any that waits for a person; nothing else happens."""
    state = doubtful(verifies=False)
    assert [entry.call.id for entry in state.pending] == ["t1c1"]
    assert state.phase == "awaiting_approval"
    assert next_step(spec(PAY), state, NOW) == Wait()


def test_the_tool_finds_out_first_when_it_can() -> None:
    """A person is asked only when that does not help."""
    state = doubtful(verifies=True)
    assert next_step(spec(CHECKED), state, NOW) == Verify(call=call("t1c1", "pay"))
    assert next_step(spec(CHECKED), verifying(state, "t1c1"), NOW) == Wait()
    back = unverified(verifying(state, "t1c1"), "t1c1")
    assert next_step(spec(CHECKED), back, NOW) == Verify(call=call("t1c1", "pay"))


@pytest.mark.parametrize(
    ("verdict", "runs", "settlement"),
    [("done", 1, "done"), ("not_done", 1, "run_again"), ("not_done", RUNS, "give_up"), ("unclear", 1, None)],
)
def test_what_verify_finds_settles_the_call_or_a_person_does(
    verdict: Verdict, runs: int, settlement: str | None
) -> None:
    """What did not take effect runs again, a few times; what is unclear waits for a person."""
    state = verifying(doubtful(verifies=True, runs=runs), "t1c1")
    found = Verified(verdict=verdict, content=inline("paid 3") if verdict == "done" else None, why="looked")
    entry = verified(state.open_calls[0], found, NOW, 1)
    state = apply(state, entry)
    if settlement is None:
        assert isinstance(entry, Unsettled)
        assert state.pending
        return
    assert isinstance(entry, Settled)
    assert entry.settlement == settlement
    step = next_step(spec(CHECKED), state, NOW)
    if settlement == "run_again":
        assert step == RunCalls(calls=(call("t1c1", "pay"),))
    else:
        assert isinstance(step, Record)
        assert isinstance(step.entry, ToolFinished)
        assert step.entry.failed == (settlement == "give_up")


@pytest.mark.parametrize(
    ("sent", "shown", "failed"),
    [
        (b'{"settlement": "done", "by": "ana", "result": "receipt 7"}', "receipt 7", False),
        (b'{"settlement": "done", "by": "ana"}', "Done: pay took effect, says ana.", False),
        (b'{"settlement": "give_up", "by": "ana", "reason": "no money"}', "Not done: pay did not take effect", True),
    ],
)
def test_a_person_settles_it_and_the_model_reads_that(sent: bytes, shown: str, failed: bool) -> None:
    """With the result that the person tells, or with what the person says became of it."""
    state = doubtful(verifies=False)
    state = apply(state, act_on(state, "settle", sent, NOW))
    step = next_step(spec(PAY), state, NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ToolFinished)
    assert step.entry.content.shown().startswith(shown)
    assert step.entry.failed == failed
    assert apply(state, step.entry).open_calls == ()


def test_a_person_lets_it_run_again_without_being_asked_for_approval_again() -> None:
    """Whoever says `run_again` has decided."""
    asks = policy("pay", "write", "ask")
    state = doubtful(verifies=False)
    state = apply(state, act_on(state, "settle", b'{"settlement": "run_again"}', NOW))
    assert next_step(spec(asks), state, NOW) == RunCalls(calls=(call("t1c1", "pay"),))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"{}", "does not say what became of the call"),
        (b'{"settlement": "perhaps"}', "settlement"),
        (b'{"settlement": "give_up", "result": "x"}', "has no result"),
        (b'{"id": "t9c9", "settlement": "done"}', "'t9c9' does not wait to be settled; waiting: t1c1"),
        (b'{"settlement": "done", "result": "' + b"x" * 5000 + b'"}', "result"),
    ],
)
def test_a_settlement_that_says_nothing_of_use_is_refused(sent: bytes, why: str) -> None:
    """With the reason, and the call goes on waiting."""
    refused = act_on(doubtful(verifies=False), "settle", sent, NOW)
    assert isinstance(refused, Refused)
    assert why in refused.why


def test_approving_does_not_settle_and_settling_does_not_approve() -> None:
    """They answer different questions; the refusal names the right act."""
    doubt = act_on(doubtful(verifies=False), "approve", b'{"id": "t1c1"}', NOW)
    assert isinstance(doubt, Refused)
    assert doubt.why.endswith("does not wait for approval; send settle")
    state = apply(OPEN_STATE, reply(1, call("t1c1", "publish")))
    state = apply(state, ApprovalRequested(at=NOW, turn=1, call_id="t1c1", tool="publish"))
    asked = act_on(state, "settle", b'{"settlement": "done"}', NOW)
    assert isinstance(asked, Refused)
    assert asked.why.endswith("does not wait to be settled; send approve or reject")
    assert isinstance(act_on(state, "approve", b"{}", NOW), Decided)


@pytest.mark.parametrize(
    ("effect", "kind", "doubt"),
    [
        ("write", WORKER_LOST, True),
        ("write", SHUT_DOWN, True),
        ("write", TIMED_OUT, True),
        ("write", "ConnectionError", True),
        ("write", NOT_DONE, False),
        ("write", "StoreUnavailable", False),
        ("write", "NotFoundError", False),
        ("idempotent_write", WORKER_LOST, False),
        ("read", "ConnectionError", False),
    ],
)
def test_only_a_write_whose_end_was_not_seen_is_in_doubt(effect: Effect, kind: str, doubt: bool) -> None:
    """What says that nothing happened, what could not begin, and what may be repeated is not."""
    assert in_doubt(policy("pay", effect), Failure(kind=kind, text="x")) == doubt


def test_a_cancelled_run_says_of_a_doubtful_call_that_it_may_have_taken_effect() -> None:
    """Of one that was never started it says that it was not run."""
    for state in (running(), doubtful(verifies=True), verifying(doubtful(verifies=True), "t1c1")):
        result = interrupted(state, NOW).tail[-1]
        assert isinstance(result, ToolFinished)
        assert "may or may not have taken effect" in result.content.shown()
    proposed = interrupted(apply(OPEN_STATE, reply(1, call("t1c1", "pay"))), NOW).tail[-1]
    assert isinstance(proposed, ToolFinished)
    assert proposed.content.shown() == "Not run: the run was cancelled."
