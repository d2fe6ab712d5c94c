"""Approving with other arguments, taking approvals back, and allowing a tool for some arguments only."""

import json

import pytest

from core.acts import ActName
from core.agents import Context
from core.approvals import MESSAGE_BYTES, Taken, act_on
from core.asking import Asking
from core.chat import ToolMessage
from core.content import Content, inline
from core.entries import Decided, Edited, Paused, Refused, Revoked, ToolFinished
from core.fold import apply
from core.open_calls import checking, started
from core.patterns import fits, unusable
from core.prompt import prompt
from core.requests import checked, digest_of
from core.runs import RunSpec
from core.state import OpenCall, RunState
from core.steps import AskModel, Check, Record, RunCalls, Step, Wait, next_step
from core.tools import ToolPolicy
from core.view import allowed_tools
from tests.entries import NOW, OPEN_STATE, artifact, call, finished, policy, reply, spec
from tests.entries import started as begun

ARGUMENTS = {"to": "ben", "amount": 50}


def tool(**asking: object) -> ToolPolicy:
    """A tool that is asked for in this way."""
    asks = Asking.model_validate(asking)
    return policy("pay", "write").model_copy(update={"approval": asks.mode, "asking": asks, "definition_digest": "d"})


def run_of(known: ToolPolicy) -> RunSpec:
    """A run with this tool."""
    return spec(known, policy("look"))


def asked(known: ToolPolicy, turn: int = 1, arguments: str = '{"to": "ana", "amount": 500}') -> RunState:
    """A run that waits for approval to pay."""
    state = apply(OPEN_STATE, reply(turn, call(f"t{turn}c1", "pay", arguments)))
    return settled(known, state)


def settled(known: ToolPolicy, state: RunState) -> RunState:
    """Take in what the rules record by themselves, until something else is to be done."""
    while isinstance(step := next_step(run_of(known), state, NOW), Record):
        state = apply(state, step.entry)
    return state


def act(state: RunState, name: ActName, **said: object) -> Taken:
    """Do something."""
    return act_on(state, name, json.dumps(said).encode(), NOW)


def taken(state: RunState, name: ActName, **said: object) -> RunState:
    """Do something that is not refused."""
    entry = act(state, name, **said)
    assert not isinstance(entry, Refused), entry.why
    return apply(state, entry)


def why_not(state: RunState, name: ActName, **said: object) -> str:
    """Do something that is refused, and return why."""
    entry = act(state, name, **said)
    assert isinstance(entry, Refused)
    return entry.why


def only(state: RunState) -> OpenCall:
    """The one call."""
    (open_call,) = state.open_calls
    return open_call


def step_of(known: ToolPolicy, state: RunState) -> Step:
    """What is done next."""
    return next_step(run_of(known), state, NOW)


def check(known: ToolPolicy, state: RunState, problem: str | None = None) -> RunState:
    """Check an edit, as the workflow does: it is begun, and what comes back is taken in."""
    step = step_of(known, state)
    assert isinstance(step, Check)
    state = checking(state, step.call.id)
    assert isinstance(step_of(known, state), Wait), "it is checked once"
    edited = step.call.model_copy(update={"arguments": step.arguments, "problem": problem})
    return apply(state, checked(only(state), edited, known, NOW, state.turn))


def test_a_call_runs_with_the_arguments_that_a_person_gave_it() -> None:
    """And not with those that the model proposed; its request is then for what runs."""
    known = tool()
    state = taken(asked(known), "approve", by="eve", arguments=ARGUMENTS, reason="too much")
    assert (only(state).status, state.phase) == ("edited", "acting")
    state = check(known, state)
    step = step_of(known, state)
    assert isinstance(step, RunCalls)
    assert json.loads(step.calls[0].arguments.text or "") == ARGUMENTS
    request = only(state).request
    assert request is not None
    assert request.digest == digest_of(known, step.calls[0])


def test_arguments_that_the_tool_does_not_take_leave_the_call_waiting() -> None:
    """As it was proposed, and the refusal says who and why."""
    known = tool()
    before = asked(known)
    state = check(known, taken(before, "approve", by="eve", arguments={"amount": "much"}), "amount must be a number")
    assert only(state).model_copy(update={"edit": None}) == only(before)
    (refused,) = (each.entry for each in state.acts if isinstance(each.entry, Refused))
    assert refused.why == "the other arguments for t1c1 by eve: amount must be a number"
    assert isinstance(step_of(known, taken(state, "approve")), RunCalls)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"arguments": ARGUMENTS, "tool": "rob"}, "a call's tool can't be changed (rob)"),
        ({"tool": "rob"}, "a call's tool can't be changed (rob)"),
        ({"arguments": ARGUMENTS, "scope": "run"}, "changed arguments are for one call"),
        ({"arguments": ARGUMENTS, "content": {"text": "{}"}}, "both arguments and content"),
        ({"content": {"text": "{}"}}, "no artifact of at most"),
        ({"arguments": {"text": "x" * 5000}}, "too long for a signal; starter.py takes any length"),
        ({"arguments": [1]}, "arguments must be"),
        ({"arguments": "{}"}, "arguments must be"),
        ({"only": {"to": "ben"}}, "a pattern (only) is for approving with scope run"),
        ({"only": {"to": ["ben"]}, "scope": "run"}, "only.to"),
        ({"only": {f"a{n}": n for n in range(11)}, "scope": "run"}, "at most 10 arguments"),
        ({"arguments": ARGUMENTS, "digest": "0" * 64}, "is not what you saw"),
    ],
)
def test_what_can_not_be_carried_out_is_refused(said: dict[str, object], why: str) -> None:
    """With the reason, and nothing changes."""
    assert why in why_not(asked(tool()), "approve", **said)


def test_an_artifact_of_arguments_has_a_bound() -> None:
    """What is longer than an activity reads is refused before it is fetched."""
    long = Content(artifact=artifact(1, MESSAGE_BYTES + 1)).model_dump(mode="json")
    fitting = Content(artifact=artifact(1, MESSAGE_BYTES)).model_dump(mode="json")
    assert "no artifact of at most" in why_not(asked(tool()), "approve", content=long)
    assert isinstance(act(asked(tool()), "approve", content=fitting), Edited)


def test_an_edit_voids_what_others_approved() -> None:
    """They said yes to something else: the quorum begins anew, with who edited."""
    known = tool(needed=2, approvers=["ben", "eve", "zoe"])
    state = taken(asked(known), "approve", by="ben")
    state = check(known, taken(state, "approve", by="eve", arguments=ARGUMENTS))
    assert [decision.by for decision in only(state).decisions] == ["eve"]
    assert isinstance(step_of(known, state), Wait)
    assert "eve has approved t1c1 already" in why_not(state, "approve", by="eve")
    assert isinstance(step_of(known, taken(state, "approve", by="ben")), RunCalls)


def test_an_old_digest_does_not_fit_an_edited_call() -> None:
    """Who still looks at what the model proposed does not approve what another made of it."""
    known = tool(needed=2, approvers=["ben", "eve"])
    state = asked(known)
    request = only(state).request
    assert request is not None
    state = check(known, taken(state, "approve", by="eve", arguments=ARGUMENTS))
    assert "is not what you saw" in why_not(state, "approve", by="ben", digest=request.digest)


def test_while_an_edit_is_checked_nothing_else_is_decided() -> None:
    """The second one is told of the first."""
    known = tool()
    state = taken(asked(known), "approve", by="eve", arguments=ARGUMENTS)
    assert "approved with other arguments by eve" in why_not(state, "reject", id="t1c1", by="ben")
    state = checking(state, "t1c1")
    assert "approved with other arguments by eve" in why_not(state, "approve", id="t1c1", by="ben")


def test_a_revoked_edit_decides_nothing() -> None:
    """Its check comes back too late, and is only recorded."""
    known = tool()
    state = checking(taken(asked(known), "approve", by="eve", arguments=ARGUMENTS), "t1c1")
    state = taken(state, "revoke", by="ben", reason="wait")
    late = checked(only(state), call("t1c1", "pay", json.dumps(ARGUMENTS)), known, NOW, 1)
    assert isinstance(late, Refused)
    state = apply(state, late)
    assert (only(state).status, only(state).decisions) == ("awaiting_approval", ())
    assert only(state).call.arguments == inline('{"to": "ana", "amount": 500}')


def test_an_edit_is_checked_while_the_run_is_paused_by_a_person() -> None:
    """It starts nothing; the call itself waits for the run to go on."""
    known = tool()
    state = taken(asked(known), "approve", arguments=ARGUMENTS)
    state = apply(state, Paused(at=NOW, cause="person", why="lunch"))
    state = check(known, state)
    assert (only(state).status, isinstance(step_of(known, state), Wait)) == ("approved", True)


def test_the_model_is_told_what_was_changed_and_by_whom() -> None:
    """With the result, so that it does not take it for that of its own call."""
    known = tool()
    state = check(known, taken(asked(known), "approve", by="eve", arguments=ARGUMENTS, reason="too much"))
    result = ToolFinished(at=NOW, turn=1, call_id="t1c1", tool="pay", content=inline("paid 50"), attempts=1)
    entries = [begun(), *state.tail, result]
    told = prompt(entries, {}, "script:test.yaml", Context())[-1]
    assert isinstance(told, ToolMessage)
    assert ("eve" in told.text, '"amount": 50' in told.text, "too much" in told.text) == (True, True, True)
    assert told.text.endswith("paid 50")


def test_an_approval_can_be_taken_back_until_the_call_begins() -> None:
    """Then it waits again; once it has begun, it is too late."""
    known = tool()
    approved = taken(asked(known), "approve", by="eve")
    assert isinstance(step_of(known, approved), RunCalls)
    revoked = taken(approved, "revoke", by="ben", reason="look again")
    assert isinstance(step_of(known, revoked), Wait)
    assert isinstance(step_of(known, taken(revoked, "approve", by="eve")), RunCalls)
    begun_call = started(approved, ["t1c1"])
    assert "t1c1 is running; approved and not begun: none" in why_not(begun_call, "revoke", id="t1c1")


def test_who_takes_back_their_own_leaves_those_of_others() -> None:
    """Anybody else who may decide takes all back."""
    known = tool(needed=2, approvers=["ben", "eve", "zoe"])
    state = taken(taken(asked(known), "approve", by="ben"), "approve", by="eve")
    own = taken(state, "revoke", by="eve")
    assert [decision.by for decision in only(own).decisions] == ["ben"]
    assert only(taken(state, "revoke", by="zoe")).decisions == ()
    assert "may not decide" in why_not(state, "revoke", by="mallory")
    assert isinstance(step_of(known, own), Wait)


def test_a_tool_that_was_allowed_for_the_run_is_asked_for_again() -> None:
    """Once somebody has taken that back."""
    known = tool()
    state = taken(asked(known), "approve", scope="run")
    state = settled(known, apply(started(state, ["t1c1"]), finished("t1c1", tool="pay")))
    assert isinstance(step_of(known, state), AskModel)
    again = apply(state, reply(2, call("t2c1", "pay")))
    assert isinstance(step_of(known, again), RunCalls)
    revoked = settled(known, taken(again, "revoke", tool="pay", by="ben"))
    assert only(revoked).status == "awaiting_approval"
    assert "pay is not allowed for the run; allowed: none" in why_not(revoked, "revoke", tool="pay")


def test_taking_back_one_approval_for_the_run_takes_back_both() -> None:
    """The call's and that of the tool, which were one word."""
    known = tool()
    state = taken(asked(known), "approve", scope="run")
    assert state.allowed == ("pay",)
    assert taken(state, "revoke", id="t1c1").allowed == ()


def test_only_calls_that_fit_need_nobody_for_the_rest_of_the_run() -> None:
    """All others are asked for."""
    known = tool()
    state = taken(asked(known), "approve", scope="run", only={"to": "a*"})
    state = settled(known, apply(started(state, ["t1c1"]), finished("t1c1", tool="pay")))
    fitting = apply(state, reply(2, call("t2c1", "pay", '{"to": "adam"}')))
    assert isinstance(step_of(known, fitting), RunCalls)
    other = settled(known, apply(state, reply(2, call("t2c1", "pay", '{"to": "ben"}'))))
    assert only(other).status == "awaiting_approval"
    assert allowed_tools(other) == ("pay with to=a*",)
    assert allowed_tools(taken(other, "revoke", tool="pay")) == ()


@pytest.mark.parametrize(
    ("pattern", "arguments", "fitting"),
    [
        ({"path": "reports/*"}, '{"path": "reports/a.md"}', True),
        ({"path": "reports/*"}, '{"path": "reports/../etc/passwd"}', False),
        ({"path": "reports/*"}, '{"path": "reports\\\\..\\\\x"}', False),
        ({"path": "reports/*"}, '{"path": "other/a.md"}', False),
        ({"path": "reports/*"}, '{"path": ["reports/a"]}', False),
        ({"path": "reports/*"}, "{}", False),
        ({"path": "a"}, '{"path": "A"}', False),
        ({"limit": 10}, '{"limit": 10}', True),
        ({"limit": 10}, '{"limit": "10"}', False),
        ({"limit": 1}, '{"limit": true}', False),
        ({"limit": True}, '{"limit": 1}', False),
        ({"at": None}, '{"at": null}', True),
        ({"at": None}, "{}", False),
        ({"path": "*"}, '{"path": "' + "x" * 2001 + '"}', False),
        ({"path": "*"}, "[]", False),
        ({"path": "*"}, "{", False),
        ({"path": "*"}, "[" * 100_000, False),
        ({"path": "*"}, None, False),
    ],
)
def test_what_fits_a_pattern(
    pattern: dict[str, str | int | bool | None], arguments: str | None, *, fitting: bool
) -> None:
    """What can't be told does not fit; a number is no text, and a folder is not left."""
    assert fits(pattern, arguments) is fitting


def test_a_pattern_that_is_too_long_can_not_be_used() -> None:
    """It is looked at for every call."""
    assert unusable({"a": "x" * 201}) == "a pattern's texts have at most 200 characters"


def test_taking_back_is_one_of_the_things_that_are_told() -> None:
    """An entry says who and what."""
    state = taken(asked(tool()), "approve", by="eve")
    revoked = act(state, "revoke", by="ben", reason="wait")
    assert revoked == Revoked(at=NOW, turn=1, call_id="t1c1", by="ben", reason="wait")
    assert isinstance(act(state, "approve", id="t1c1"), Refused)
    assert isinstance(act(asked(tool()), "approve"), Decided)
