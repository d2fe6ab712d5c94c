"""Requests for approval: who may decide, how many must, until when; never approved by waiting, and checked again."""

import hashlib
from datetime import timedelta

import pytest
from pydantic import ValidationError

from core.approvals import act_on
from core.asking import Asking, RuleVerdict
from core.content import Content
from core.entries import (
    ApprovalRequested,
    Decided,
    Entry,
    Expired,
    Paused,
    Refused,
    Reminded,
    Settled,
    ToolFinished,
    Unsettled,
)
from core.fold import apply
from core.open_calls import started
from core.requests import digest_of, wake_at
from core.runs import RunSpec
from core.state import RunState
from core.steps import Record, RunCalls, Step, Wait, next_step
from core.tools import ToolPolicy
from tests.entries import NOW, OPEN_STATE, artifact, call, finished, policy, reply, spec

HOUR = timedelta(hours=1)


def tool(**asking: object) -> ToolPolicy:
    """A tool that is asked for in this way."""
    asks = Asking.model_validate(asking)
    return policy("pay", "write").model_copy(update={"approval": asks.mode, "asking": asks, "definition_digest": "d"})


def run_of(known: ToolPolicy) -> RunSpec:
    """A run of ana's with this tool."""
    return spec(known).model_copy(update={"by": "ana"})


def proposed(rule: RuleVerdict | None = None) -> RunState:
    """A run whose model wants to pay."""
    return apply(OPEN_STATE, reply(1, call("t1c1", "pay", '{"amount": 5}').model_copy(update={"rule": rule})))


def asked(known: ToolPolicy) -> RunState:
    """The same run when the request is made."""
    step = next_step(run_of(known), proposed(), NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ApprovalRequested)
    return apply(proposed(), step.entry)


def decide(state: RunState, name: str, by: str = "", *, later: timedelta = timedelta(), **act: str) -> Decided | str:
    """A person's decision, or why it is refused."""
    fields = ", ".join(f'"{key}": "{value}"' for key, value in {"by": by, **act}.items())
    taken = act_on(state, "approve" if name == "approve" else "reject", f"{{{fields}}}".encode(), NOW + later)
    if isinstance(taken, Refused):
        return taken.why
    assert isinstance(taken, Decided)
    return taken


def taken(state: RunState, decision: Decided | str) -> RunState:
    """The state after a decision that was not refused."""
    assert isinstance(decision, Decided), decision
    return apply(state, decision)


def test_a_request_says_what_exactly_why_who_and_until_when() -> None:
    """All of it is fixed when it is made, and stands in the journal."""
    known = tool(reason="money leaves", risk="high", approvers=["ben", "eve"], needed=2, expires=HOUR, remind=HOUR / 4)
    request = asked(known).open_calls[0].request
    assert request is not None
    assert request.model_dump(include={"reason", "risk", "approvers", "needed", "expires_at", "remind_at"}) == {
        "reason": "money leaves",
        "risk": "high",
        "approvers": ("ben", "eve"),
        "needed": 2,
        "expires_at": NOW + HOUR,
        "remind_at": NOW + HOUR / 4,
    }
    text = '{"amount": 5}'
    stored = artifact(1).model_copy(update={"sha256": hashlib.sha256(text.encode()).hexdigest()})
    assert request.digest == digest_of(known, call("x", "pay", text))
    carried = call("x", "pay").model_copy(update={"arguments": Content(artifact=stored)})
    assert request.digest == digest_of(known, carried)
    assert request.digest != digest_of(known, call("x", "pay", '{"amount": 6}'))
    assert request.digest != digest_of(tool(needed=2), call("x", "pay", '{"amount": 5}'))


def test_a_quorum_needs_different_people_and_one_rejection_ends_it() -> None:
    """The same person twice is one; whoever gives no name can't be told from another."""
    known = tool(needed=2)
    state = asked(known)
    assert "say who you are" in str(decide(state, "approve"))
    state = taken(state, decide(state, "approve", "ben"))
    assert isinstance(next_step(run_of(known), state, NOW), Wait)
    assert "ben has approved t1c1 already; 2 different people are needed" in str(decide(state, "approve", "ben"))
    approved = taken(state, decide(state, "approve", "eve"))
    assert isinstance(next_step(run_of(known), approved, NOW), RunCalls)
    step = next_step(run_of(known), taken(state, decide(state, "reject", "eve", reason="too much")), NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ToolFinished)
    assert "rejected by eve: too much" in step.entry.content.shown()


def test_only_those_who_may_decide_do() -> None:
    """Others are told who may; who started the run can be excluded."""
    state = asked(tool(approvers=["ben", "ana"], exclude_requester=True))
    assert "zoe may not decide on t1c1; may: ben, ana" in str(decide(state, "approve", "zoe"))
    assert "who gives no name may not decide" in str(decide(state, "reject"))
    assert "ana may not decide on t1c1: who started the run is excluded" in str(decide(state, "approve", "ana"))
    assert isinstance(decide(state, "approve", "ben"), Decided)


def test_a_decision_on_something_else_is_refused() -> None:
    """Whoever names the digest of what they saw approves that and nothing else."""
    state = asked(tool())
    request = state.open_calls[0].request
    assert request is not None
    assert "is not what you saw (beef, now" in str(decide(state, "approve", digest="beef"))
    decision = decide(state, "approve", digest=request.digest[:12])
    assert isinstance(decision, Decided)
    assert decision.digest == request.digest


def test_at_its_deadline_a_request_is_rejected() -> None:
    """It is never approved by waiting, nor by who comes too late."""
    known = tool(expires=HOUR)
    state = asked(known)
    assert next_step(run_of(known), state, NOW) == Wait(until=NOW + HOUR)
    assert "its deadline was 2026-11-30 13:00:00 UTC" in str(decide(state, "approve", "ben", later=HOUR))
    entries, state, _ = passing(run_of(known), state, HOUR)
    assert [entry.kind for entry in entries] == ["expired", "tool_finished"]
    assert "nobody decided in time" in state.recent[-1]


def test_at_its_deadline_a_request_goes_to_other_people_once() -> None:
    """With as long again; then it is rejected."""
    known = tool(approvers=["ben"], expires=HOUR, at_deadline="escalate", escalate_to=["eve"])
    entries, state, step = passing(run_of(known), asked(known), HOUR)
    assert [entry.kind for entry in entries] == ["expired", "approval_requested"]
    assert step == Wait(until=NOW + 2 * HOUR)
    assert "ben may not decide on t1c1; may: eve" in str(decide(state, "approve", "ben", later=HOUR))
    assert isinstance(decide(state, "approve", "eve", later=HOUR), Decided)
    entries, _, _ = passing(run_of(known), state, 2 * HOUR)
    assert [entry.kind for entry in entries] == ["expired", "tool_finished"]


def test_a_request_that_waits_is_shown_again() -> None:
    """As often as the policy says."""
    known = tool(remind=HOUR)
    entries, state, step = passing(run_of(known), asked(known), HOUR)
    assert [type(entry) for entry in entries] == [Reminded]
    assert step == Wait(until=NOW + 2 * HOUR)
    assert wake_at(state) == NOW + 2 * HOUR


def test_allowed_for_the_run_it_is_not_asked_for_again() -> None:
    """This tool only, and not in a fork."""
    known = tool()
    state = asked(known)
    state = taken(state, decide(state, "approve", "ben", scope="run"))
    state = apply(state, finished("t1c1", tool="pay"))
    state = apply(state, reply(2, call("t2c1", "pay")))
    assert isinstance(next_step(run_of(known), state, NOW), RunCalls)


def test_a_quorum_allows_a_tool_for_the_run_only_when_all_of_it_say_so() -> None:
    """One person can't waive later quorums."""
    state = asked(tool(needed=2))
    state = taken(state, decide(state, "approve", "ben"))
    assert taken(state, decide(state, "approve", "eve", scope="run")).allowed == ()
    both = asked(tool(needed=2))
    both = taken(both, decide(both, "approve", "ben", scope="run"))
    assert taken(both, decide(both, "approve", "eve", scope="run")).allowed == ("pay",)


def test_who_approved_may_still_reject() -> None:
    """Whoever sees a mistake stops the call, as long as others have to approve it."""
    state = asked(tool(needed=2))
    state = taken(state, decide(state, "approve", "ben"))
    assert not taken(state, decide(state, "reject", "ben")).pending


def test_who_must_not_decide_must_give_a_name() -> None:
    """Without one nobody could be excluded; that holds for settling a doubtful call, too."""
    state = asked(tool(exclude_requester=True, approvers=["ana", "ben"]))
    assert "say who you are" in str(decide(asked(tool(exclude_requester=True)), "approve"))
    state = taken(state, decide(state, "approve", "ben"))
    doubt = Unsettled(at=NOW, turn=1, call_id="t1c1", tool="pay", why="lost", asks=True)
    state = apply(started(state, ["t1c1"]), doubt)
    refused = act_on(state, "settle", b'{"settlement": "run_again", "by": "zoe"}', NOW)
    assert isinstance(refused, Refused)
    assert "zoe may not decide" in refused.why
    assert isinstance(act_on(state, "settle", b'{"settlement": "run_again", "by": "ben"}', NOW), Settled)


def test_what_was_approved_in_time_is_asked_for_again_when_it_could_not_run_until_the_deadline() -> None:
    """A month in a pause makes another decision of it; deadlines do not wait for a pause."""
    known = tool(expires=HOUR)
    state = asked(known)
    state = taken(state, decide(state, "approve", "ben"))
    step = next_step(run_of(known), state, NOW + 30 * HOUR)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ApprovalRequested)
    paused = apply(asked(known), Paused(at=NOW, turn=1, cause="person", why="lunch"))
    assert next_step(run_of(known), paused, NOW) == Wait(until=NOW + HOUR)
    step = next_step(run_of(known), paused, NOW + HOUR)
    assert isinstance(step, Record)
    assert isinstance(step.entry, Expired)


@pytest.mark.parametrize(("rule", "asks"), [("holds", True), ("not", False), ("unknown", True), (None, True)])
def test_a_rule_that_can_not_be_told_asks(rule: RuleVerdict | None, asks: bool) -> None:
    """Only one that clearly does not hold lets the call run."""
    step = next_step(run_of(tool(when="amount > `100`")), proposed(rule), NOW)
    assert isinstance(step, Record if asks else RunCalls)


def test_taint_and_cost_ask_also_where_the_policy_is_auto() -> None:
    """What strangers wrote may have told the model what to do; a dear run is looked at."""
    tainted = proposed().model_copy(update={"tainted": True})
    assert isinstance(next_step(run_of(tool(mode="auto", when_tainted=True)), tainted, NOW), Record)
    assert isinstance(next_step(run_of(tool(mode="auto", when_tainted=True)), proposed(), NOW), RunCalls)
    assert isinstance(next_step(run_of(tool(mode="auto", above_usd=0.001)), proposed(), NOW), Record)
    assert isinstance(next_step(run_of(tool(mode="auto", above_usd=1)), proposed(), NOW), RunCalls)
    read = apply(OPEN_STATE, finished("t1c1").model_copy(update={"untrusted": True}))
    assert read.tainted


def test_what_is_denied_never_runs() -> None:
    """Nobody is asked."""
    step = next_step(run_of(tool(mode="deny")), proposed(), NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ToolFinished)
    assert "denied by this agent's policy" in step.entry.content.shown()


def test_what_no_longer_fits_is_asked_for_again() -> None:
    """At dispatch everything is checked once more: another policy or tool makes another request."""
    state = asked(tool())
    state = taken(state, decide(state, "approve", "ben"))
    changed = tool(reason="new rules")
    step = next_step(run_of(changed), state, NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, ApprovalRequested)
    assert step.entry.reason == "new rules"


@pytest.mark.parametrize(
    ("asking", "cure"),
    [
        ({"approvers": ["a"], "needed": 2}, "needs 2 approvals, and names only 1 approvers"),
        ({"at_deadline": "escalate", "expires": 60}, "belong together"),
        ({"escalate_to": ["a"], "expires": 60}, "belong together"),
        ({"at_deadline": "escalate", "escalate_to": ["a"]}, "say when it expires"),
        ({"mode": "auto", "when": "a > `1`"}, "nobody would be asked"),
        ({"needed": 0}, "greater than or equal to 1"),
        ({"mode": "maybe"}, "'auto', 'ask' or 'deny'"),
        ({"approver": ["a"]}, "Extra inputs"),
    ],
)
def test_a_policy_that_can_not_be_met_is_refused(asking: dict[str, object], cure: str) -> None:
    """When the agent's file is read, not when somebody waits."""
    with pytest.raises(ValidationError, match=cure):
        Asking.model_validate(asking)


def passing(run: RunSpec, state: RunState, later: timedelta) -> tuple[list[Entry], RunState, Step]:
    """What time alone brings: the entries until the next step that needs the outside, and that step."""
    entries: list[Entry] = []
    while isinstance(step := next_step(run, state, NOW + later), Record):
        entries.append(step.entry)
        state = apply(state, step.entry)
        if isinstance(step.entry, ToolFinished):
            break
    return entries, state, step


def test_an_expiry_is_an_entry_of_its_own() -> None:
    """The journal tells that nobody decided."""
    known = tool(expires=HOUR)
    step = next_step(run_of(known), asked(known), NOW + HOUR)
    assert isinstance(step, Record)
    assert isinstance(step.entry, Expired)
