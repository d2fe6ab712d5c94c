"""Acts of people: whatever is sent, it is carried out or refused with a reason."""

import pytest

from core.acts import ACT_BYTES, ActName
from core.approvals import act_on
from core.entries import ApprovalRequested, Decided, Paused, Refused, Resumed
from core.fold import apply
from core.state import RunState
from tests.entries import NOW, OPEN_STATE, call, reply


def waiting(*call_ids: str) -> RunState:
    """A run in which these calls wait for approval."""
    state = apply(OPEN_STATE, reply(1, *(call(call_id, "publish") for call_id in call_ids)))
    for call_id in call_ids:
        state = apply(state, ApprovalRequested(at=NOW, turn=1, call_id=call_id, tool="publish"))
    return state


@pytest.mark.parametrize("raw", [b"", b"null", b"{}", b'{"id": "t1c1"}', b'"t1c1"', b'{"by": "ana"}'])
def test_the_only_waiting_call_needs_no_id(raw: bytes) -> None:
    """Approving is one word when one thing waits."""
    assert act_on(waiting("t1c1"), "approve", raw, NOW).model_dump(include={"kind", "call_id"}) == {
        "kind": "decided",
        "call_id": "t1c1",
    }


def test_a_rejection_carries_who_and_why() -> None:
    """Both reach the journal and the model."""
    decided = act_on(waiting("t1c1", "t1c2"), "reject", b'{"id": "t1c2", "by": "ana", "reason": "too early"}', NOW)
    assert decided == Decided(at=NOW, turn=1, call_id="t1c2", approved=False, by="ana", reason="too early")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{}", "several calls wait: name one; waiting: t1c1, t1c2"),
        (b'{"id": "t9c9"}', "'t9c9' does not wait for approval; waiting: t1c1, t1c2"),
        (b'{"id": 3}', "id must be a text"),
        (b'{"ID": "t1c1"}', "ID is no field that there is"),
        (b"[1]", "it must be fields with values"),
        (b"approve please", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 10_000, "it is no JSON"),
        (b'"' + b"x" * ACT_BYTES + b'"', "are too long"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_the_reason(raw: bytes, why: str) -> None:
    """Nothing raises and nothing is guessed."""
    refused = act_on(waiting("t1c1", "t1c2"), "approve", raw, NOW)
    assert isinstance(refused, Refused)
    assert why in refused.why


@pytest.mark.parametrize(("name", "why"), [("approve", "nothing waits"), ("resume", "the run is not paused")])
def test_an_act_that_nothing_waits_for_is_refused(name: ActName, why: str) -> None:
    """The sender learns what the run is doing instead."""
    refused = act_on(OPEN_STATE, name, b"{}", NOW)
    assert isinstance(refused, Refused)
    assert why in refused.why
    assert "thinking" in refused.why


def test_a_second_decision_on_a_call_is_refused() -> None:
    """A call is decided once."""
    state = waiting("t1c1")
    decided = act_on(state, "approve", b"{}", NOW)
    again = act_on(apply(state, decided), "reject", b'{"id": "t1c1"}', NOW)
    assert isinstance(again, Refused)


def test_resume_lets_a_paused_run_go_on() -> None:
    """With the name of who did it."""
    paused = apply(OPEN_STATE, Paused(at=NOW, cause="failure", why="no key"))
    assert act_on(paused, "resume", b'{"by": "ana"}', NOW) == Resumed(at=NOW, by="ana")
