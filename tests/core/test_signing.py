"""Signed decisions: only what the named person signed counts, for this request of this run, in time, and once."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.acts import Act, ActName
from core.approvals import act_on
from core.asking import Asking
from core.details import details
from core.entries import Answered, Decided, Refused, Settled, Unsettled
from core.fold import apply
from core.open_calls import change, started
from core.pending import PendingCall
from core.public_keys import write_key
from core.requests import still_holds
from core.signing import Subject, signed_bytes
from core.state import RunState
from core.steps import Record, RunCalls, next_step
from core.tools import ToolPolicy
from core.view import state_view
from tests.core.signers import MINUTES, SIGNATURES, keys, signed
from tests.entries import NOW, OPEN_STATE, RUN, call, policy, reply, spec

HOUR = timedelta(hours=1)


def tool(name: str = "pay", **asking: Any) -> ToolPolicy:
    """A tool that ben and eve decide on, by signatures."""
    asks = Asking.model_validate({"keys": keys("ben", "eve"), **asking})
    known = policy(name, "write").model_copy(update={"approval": asks.mode, "asking": asks})
    return known.model_copy(update={"served_by": "workflow"}) if name == "ask_human" else known


def asked(known: ToolPolicy, state: RunState | None = None) -> RunState:
    """A run that waits for people, by the rules."""
    state = state or apply(OPEN_STATE, reply(1, call("t1c1", known.name, '{"amount": 5}')))
    step = next_step(spec(known), state, NOW)
    assert isinstance(step, Record), step
    return apply(state, step.entry)


def waiting(state: RunState) -> PendingCall:
    """What waits, as the approver's client reads it."""
    view = state_view(spec(), state)
    assert view.run == RUN
    return view.pending[0]


def sent(state: RunState, act: Act, name: ActName = "approve", *, later: timedelta = timedelta()) -> Any:
    """What comes of an act that is sent as a signal; the reason when it is refused."""
    taken = act_on(state, name, act.model_dump_json().encode(), NOW + later, SIGNATURES)
    return taken.why if isinstance(taken, Refused) else taken


def test_what_was_signed_by_who_may_decide_counts() -> None:
    """The journal has the signature; the call runs."""
    known = tool()
    state = asked(known)
    act = signed(Act(id="t1c1", by="ben", reason="as agreed"), waiting(state))
    decided = sent(state, act)
    assert isinstance(decided, Decided)
    assert (decided.by, decided.approved, decided.signature) == ("ben", True, act.signature)
    assert isinstance(next_step(spec(known), apply(state, decided), NOW), RunCalls)


@pytest.mark.parametrize("name", ["approve", "reject"])
def test_unsigned_decisions_are_refused(name: ActName) -> None:
    """Whoever they say they are; and nothing at all counts where signatures can't be checked."""
    state = asked(tool())
    assert "only signed decisions on t1c1 count" in sent(state, Act(by="ben"), name)
    assert "zoe may not decide on t1c1; may: ben, eve" in sent(state, Act(by="zoe"), name)
    good = signed(Act(by="ben"), waiting(state), name)
    taken = act_on(state, name, good.model_dump_json().encode(), NOW)
    assert isinstance(taken, Refused)


def test_another_key_does_not_count() -> None:
    """Neither a stranger's, nor that of somebody else who may decide."""
    state = asked(tool())
    for other in ("zoe", "eve"):
        assert "its signature is not ben's" in sent(state, signed(Act(by="ben"), waiting(state), key=other))


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "t1c1"},
        {"by": "eve"},
        {"reason": "whatever"},
        {"scope": "run"},
        {"digest": "ab"},
        {"settlement": "done"},
        {"result": "paid"},
        {"text": "yes"},
        {"turns": 1},
        {"tokens": 1},
        {"cost_usd": 0.5},
        {"signed_until": NOW + HOUR},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_nothing_of_a_signed_act_can_be_changed(changed: dict[str, Any]) -> None:
    """Each field is part of what is signed, whether the act uses it or not."""
    state = asked(tool())
    act = signed(Act(by="ben"), waiting(state))
    if "digest" in changed:
        changed = {"digest": waiting(state).digest[:12]}
    assert "its signature is not" in sent(state, act.model_copy(update=changed))


def test_every_field_of_an_act_is_signed() -> None:
    """Those that come with later versions, too: two that stand outside are named here."""
    subject = Subject(workflow_id="w", run_id="r", call_id="t1c1", asked_at=NOW, digest="d")

    class Later(Act):
        more: str = ""

    assert signed_bytes(subject, "approve", Later()) == signed_bytes(subject, "approve", Act())
    assert signed_bytes(subject, "approve", Later(more="x")) != signed_bytes(subject, "approve", Act())
    outside = Act(signature="x", expected_version=5)
    assert signed_bytes(subject, "approve", outside) == signed_bytes(subject, "approve", Act())


def test_what_is_signed_has_one_form() -> None:
    """Which others can write as well: this text is a promise."""
    subject = Subject(workflow_id="w", run_id="r", call_id="t1c1", asked_at=NOW, digest="d")
    act = Act(by="zoë", signed_until=NOW.astimezone(tz=None) + timedelta(seconds=1.5))
    assert signed_bytes(subject, "approve", act) == (
        b"perdure decision v1\n"
        b'{"act":"approve","said":{"by":"zo\\u00eb","signed_until":"2026-11-30T12:00:01.500000Z"},'
        b'"subject":{"asked_at":"2026-11-30T12:00:00Z","call_id":"t1c1","digest":"d","run_id":"r","workflow_id":"w"}}'
    )


def test_an_approval_is_no_rejection() -> None:
    """Nor the other way round."""
    state = asked(tool())
    assert "its signature is not" in sent(state, signed(Act(by="ben"), waiting(state), "reject"), "approve")
    assert "its signature is not" in sent(state, signed(Act(by="ben"), waiting(state), "approve"), "reject")


def test_a_signature_does_not_fit_another_request() -> None:
    """Of the same tool with the same arguments, in the same turn."""
    known = tool()
    both = (call("t1c1", "pay", '{"amount": 5}'), call("t1c2", "pay", '{"amount": 5}'))
    state = asked(known, asked(known, apply(OPEN_STATE, reply(1, *both))))
    act = signed(Act(by="ben"), waiting(state))
    assert isinstance(sent(state, act.model_copy(update={"id": "t1c1"})), str)
    named = signed(Act(id="t1c1", by="ben"), waiting(state))
    assert isinstance(sent(state, named), Decided)
    assert "its signature is not" in sent(state, named.model_copy(update={"id": "t1c2"}))


@pytest.mark.parametrize("changed", [{"workflow_id": "run-2"}, {"run_id": "0198"}], ids=["workflow", "run"])
def test_a_signature_does_not_fit_another_run(changed: dict[str, str]) -> None:
    """One of the same agent with the same task: a new one under the same id, or a fork that asks the same."""
    state = asked(tool())
    act = signed(Act(by="ben"), waiting(state), run=RUN.model_copy(update=changed))
    assert "its signature is not" in sent(state, act)


def test_a_signature_does_not_fit_a_request_that_is_made_anew() -> None:
    """What ben approved too early for its deadline, ben must look at again."""
    known = tool(expires=HOUR)
    state = asked(known)
    old = signed(Act(by="ben"), waiting(state), lasts=3 * HOUR)
    approved = apply(state, sent(state, old))
    step = next_step(spec(known), approved, NOW + 2 * HOUR)
    assert isinstance(step, Record)
    renewed = apply(approved, step.entry)
    assert waiting(renewed).digest == waiting(state).digest
    assert isinstance(sent(renewed, old, later=2 * HOUR), str)
    unused = signed(Act(by="eve"), waiting(state), lasts=3 * HOUR)
    assert "its signature is not" in sent(renewed, unused, later=2 * HOUR)
    new = signed(Act(by="ben"), waiting(renewed), lasts=3 * HOUR)
    assert isinstance(sent(renewed, new, later=2 * HOUR), Decided)


def test_a_signature_counts_once() -> None:
    """Also when the decision has been taken back meanwhile: who read it in the history can't send it again."""
    state = asked(tool(needed=2))
    act = signed(Act(by="ben"), waiting(state))
    approved = apply(state, sent(state, act))
    taken_back = change(approved, "t1c1", decisions=())
    assert "used already" in sent(taken_back, act)
    again = signed(Act(by="ben"), waiting(state), lasts=MINUTES + timedelta(seconds=1))
    assert isinstance(sent(taken_back, again), Decided)


def test_a_signature_ends() -> None:
    """By the run's clock: the second that it names is too late."""
    state = asked(tool())
    act = signed(Act(by="ben"), waiting(state))
    assert isinstance(sent(state, act, later=MINUTES - timedelta(seconds=1)), Decided)
    late = sent(state, act, later=MINUTES)
    assert "its signature ended at 2026-11-30 12:10:00 UTC, and by the run's clock it is 2026-11-30 12:10:00" in late


@pytest.mark.parametrize(
    ("skew", "counts"), [(-HOUR, False), (-MINUTES / 2, True), (MINUTES / 2, True), (HOUR, True)], ids=str
)
def test_a_clock_that_is_wrong_does_no_harm(skew: timedelta, counts: bool) -> None:
    """One that is slow by more than the signature lasts makes signatures that have ended; that is said."""
    state = asked(tool())
    taken = sent(state, signed(Act(by="ben"), waiting(state), now=NOW + skew))
    assert isinstance(taken, Decided) if counts else "by the run's clock it is" in taken


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"signature": "no base64!"}, "not 64 bytes in Base64"),
        ({"signature": base64.b64encode(b"x" * 63).decode()}, "not 64 bytes in Base64"),
        ({"signature": base64.b64encode(b"x" * 64).decode()}, "its signature is not ben's"),
        ({"signature": "é" * 88}, "not 64 bytes in Base64"),
        ({"signature": "A" * 101}, "signature is too long"),
        ({"signed_until": None}, "its signature has no end"),
        ({"signed_until": "9999-12-31T23:59:59-12:00"}, "its signature is not ben's"),
        ({"signed_until": "0001-01-01T00:00:00+12:00"}, "its signature ended at"),
        ({"signed_until": "2027-01-01T00:00:00"}, "signed_until"),
        ({"signed_until": {}}, "signed_until"),
        ({"by": ["ben"]}, "by must be a text"),
    ],
)
def test_odd_signatures_are_refused_with_the_reason(changed: dict[str, Any], why: str) -> None:
    """Whatever stands there."""
    state = asked(tool())
    act = signed(Act(by="ben"), waiting(state)).model_dump(mode="json") | changed
    taken = act_on(state, "approve", _json(act), NOW, SIGNATURES)
    assert isinstance(taken, Refused)
    assert why in taken.why


def test_a_signature_has_one_way_to_be_written() -> None:
    """So that one that was used can't come back in other letters."""
    state = asked(tool())
    act = signed(Act(by="ben"), waiting(state))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = act.signature[85]
    other = act.signature[:85] + letters[letters.index(last) + 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(act.signature)
    assert "not 64 bytes in Base64" in sent(state, act.model_copy(update={"signature": other}))


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = st.sampled_from([*Act.model_fields])


@given(st.dictionaries(_FIELDS, _JSON, max_size=5))
def test_no_garbage_counts_and_none_raises(garbage: dict[str, Any]) -> None:
    """Around a name that may decide, with a signature that is one for something else."""
    state = GARBAGE_STATE
    act = signed(Act(by="ben"), waiting(state), "message").model_dump(mode="json", exclude_defaults=True)
    for name in ("approve", "reject", "settle", "answer"):
        taken = act_on(state, name, _json(act | garbage), NOW, SIGNATURES)
        assert isinstance(taken, Refused)


@given(st.binary(min_size=1, max_size=64), st.integers(min_value=0, max_value=63))
def test_a_signature_with_any_bytes_changed_does_not_count(noise: bytes, at: int) -> None:
    """By a bit or by all."""
    state = GARBAGE_STATE
    act = signed(Act(by="ben"), waiting(state))
    raw = base64.b64decode(act.signature)
    wrong = (raw[:at] + noise + raw[at + len(noise) :])[:64]
    taken = sent(state, act.model_copy(update={"signature": base64.b64encode(wrong).decode()}))
    assert isinstance(taken, Decided) == (wrong == raw)


def test_a_quorum_is_of_signatures() -> None:
    """Each by its own key; one person can't sign for two."""
    known = tool(keys=keys("ben", "eve", "kim"), needed=2)
    state = asked(known)
    state = apply(state, sent(state, signed(Act(by="ben"), waiting(state))))
    assert "ben has approved t1c1 already" in sent(state, signed(Act(by="ben"), waiting(state), lasts=HOUR))
    assert "its signature is not kim's" in sent(state, signed(Act(by="kim"), waiting(state), key="ben"))
    assert "only signed decisions" in sent(state, Act(by="kim"))
    state = apply(state, sent(state, signed(Act(by="kim"), waiting(state))))
    assert isinstance(next_step(spec(known), state, NOW), RunCalls)


def test_at_dispatch_a_decision_without_signature_does_not_hold() -> None:
    """By whatever way it came into the state: the call does not run, it is asked for again."""
    known = tool()
    state = asked(known)
    state = apply(state, Decided(at=NOW, turn=1, call_id="t1c1", approved=True, by="ben"))
    assert not still_holds(known, state.open_calls[0], NOW)
    step = next_step(spec(known), state, NOW)
    assert isinstance(step, Record)
    assert step.entry.kind == "approval_requested"


def test_after_the_deadline_the_keys_of_the_others_count() -> None:
    """Who is asked then has a key of their own, and those before can't decide any more."""
    known = tool(keys=keys("ben", "boss"), expires=HOUR, at_deadline="escalate", escalate_to=["boss"])
    state = asked(known)
    assert waiting(state).keys == keys("ben")
    for _ in range(2):
        step = next_step(spec(known), state, NOW + HOUR)
        assert isinstance(step, Record)
        state = apply(state, step.entry)
    assert waiting(state).keys == keys("boss")
    assert "ben may not decide" in sent(state, signed(Act(by="ben"), waiting(state), lasts=2 * HOUR), later=HOUR)
    assert isinstance(sent(state, signed(Act(by="boss"), waiting(state), lasts=2 * HOUR), later=HOUR), Decided)


def test_an_answer_is_signed_too() -> None:
    """With its text."""
    state = asked(tool("ask_human"))
    assert "only signed decisions" in sent(state, Act(by="ben", text="yes"), "answer")
    act = signed(Act(by="ben", text="yes"), waiting(state), "answer")
    assert "its signature is not" in sent(state, act.model_copy(update={"text": "no"}), "answer")
    assert isinstance(sent(state, act, "answer"), Answered)


def test_settling_is_signed_too_and_anew_for_each_doubt() -> None:
    """What ben said of the first run of a call says nothing of its second."""
    state = asked(tool())
    state = apply(state, sent(state, signed(Act(by="ben"), waiting(state))))

    def doubtful(state: RunState, after: timedelta) -> RunState:
        doubt = Unsettled(at=NOW + after, turn=1, call_id="t1c1", tool="pay", why="lost", asks=True)
        return apply(started(state, ["t1c1"]), doubt)

    state = doubtful(state, MINUTES / 10)
    assert "only signed decisions" in sent(state, Act(by="ben", settlement="run_again"), "settle")
    act = signed(Act(by="ben", settlement="run_again"), waiting(state), "settle")
    assert "its signature is not" in sent(state, act.model_copy(update={"settlement": "give_up"}), "settle")
    settled = sent(state, act, "settle")
    assert isinstance(settled, Settled)
    again = doubtful(apply(state, settled), MINUTES / 5)
    assert "its signature is not" in sent(again, act, "settle")


def test_people_are_told_to_sign() -> None:
    """In the Temporal UI as in a terminal; no signal is offered that would be refused."""
    shown = details(spec(), asked(tool()), "run-1")
    assert "only signed decisions count (--sign-with FILE)" in shown
    assert "starter.py approve run-1 t1c1 --by NAME --sign-with FILE" in shown
    assert "send signal" not in shown


def test_who_may_decide_is_who_has_a_key() -> None:
    """Where the file names nobody; who is asked later is not asked first. Policies without keys stay as they were."""
    assert Asking(keys=keys("ben", "eve")).approvers == ("ben", "eve")
    assert Asking(keys=keys("ben", "eve"), approvers=("ben", "eve")) == Asking(keys=keys("ben", "eve"))
    later = Asking(keys=keys("ben", "eve"), expires=HOUR, at_deadline="escalate", escalate_to=("eve",))
    assert later.approvers == ("ben",)
    assert Asking(keys=keys("ben", "eve"), needed=2).model_dump()["keys"] == keys("ben", "eve")
    assert "keys" not in Asking(approvers=("ben",)).model_dump_json()
    assert Asking.model_validate_json(later.model_dump_json()) == later


@pytest.mark.parametrize(
    ("asking", "cure"),
    [
        ({"keys": {"ben": "ssh-ed25519 AAAA"}}, "the key of ben must be ed25519: and 32 bytes in Base64"),
        ({"keys": {"ben": "ed25519:" + "A" * 40}}, "the key of ben must be ed25519: and 32 bytes in Base64"),
        ({"keys": {"ben": write_key(bytes(32))}}, "no key that anybody could have made"),
        ({"keys": {"ben": write_key(b"\x01" + bytes(31))}}, "no key that anybody could have made"),
        ({"keys": {"ben": write_key(b"\x02" + bytes(31))}}, "no key that anybody could have made"),
        ({"keys": {"ben": write_key(b"\xff" * 32)}}, "no key that anybody could have made"),
        ({"keys": keys("ben"), "approvers": ["ben", "eve"]}, "there is no key of eve"),
        ({"keys": keys("ben", "eve"), "approvers": ["ben"]}, "there are keys of eve, who may not decide"),
        ({"keys": {"ben": keys("ben")["ben"], "eve": keys("ben")["ben"]}}, "ben and eve have the same key"),
        ({"keys": keys("ben"), "needed": 2}, "needs 2 approvals, and names only 1"),
        ({"keys": {"": keys("ben")["ben"]}}, "a name has 1 to 200 characters"),
        ({"keys": ["ben"]}, "dictionary"),
        ({"keys": {"ben": 5}}, "string"),
        ({"keys": keys("ben"), "escalate_to": 5}, "tuple"),
    ],
)
def test_keys_that_could_not_work_are_refused_when_the_file_is_read(asking: dict[str, Any], cure: str) -> None:
    """One that is none, one that anybody could sign for, one that two share, one that is missing or has no use."""
    with pytest.raises(ValidationError, match=cure):
        Asking.model_validate(asking)


def test_each_of_the_eight_keys_for_which_anybody_can_sign_is_refused() -> None:
    """Zeros, as somebody writes who will fill the key in later, are one of them: y is 0, 1, -1 or of order eight."""
    prime = 2**255 - 19
    eighth = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
    for y in (0, 1, prime - 1, eighth, prime - eighth):
        for sign in (0, 1 << 255):
            with pytest.raises(ValidationError, match="no key that anybody could have made"):
                Asking(keys={"ben": write_key((y | sign).to_bytes(32, "little"))})


@given(st.binary(min_size=32, max_size=32))
def test_every_real_key_is_taken(seed: bytes) -> None:
    """Whatever it was made of."""
    key = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert Asking(keys={"ben": write_key(key)}).approvers == ("ben",)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


GARBAGE_STATE = asked(tool())
