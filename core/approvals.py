"""What people may do to a run, and how their acts are read: one pure function for every way in.

Acts come as raw JSON from the Temporal UI, its CLI or a script, so anything may stand in them. Nothing raises here:
what can't be carried out becomes a `Refused` entry with the reason, and changes nothing else.
"""

import json
from datetime import datetime

from pydantic import Field

from core.acts import EXAMPLES, Act, ActName, read_act
from core.below import forwarded
from core.content import Content, clean, fits_inline, inline, one_line
from core.entries import (
    Answered,
    Decided,
    Edited,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Resumed,
    Revoked,
    Settled,
    utc,
)
from core.frozen import Frozen
from core.patterns import unusable
from core.requests import is_revocable, is_stranger, may_not_decide
from core.signing import Signatures, unsigned
from core.state import TAIL_HARD_BYTES, CallStatus, OpenCall, RunState
from core.switching import resumed

MESSAGE_BYTES = 1024 * 1024
"""Longest message to an agent, and longest edited arguments, by way of the blob store."""


class Answer(Frozen):
    """What an update is answered with: what came of the act, and the version of the state after it."""

    version: int
    entry: Decided | Edited | Revoked | Forwarded | Answered | Settled | Messaged | Paused | Raised | Resumed = Field(
        discriminator="kind"
    )


Taken = Decided | Edited | Revoked | Forwarded | Answered | Settled | Messaged | Paused | Raised | Resumed | Refused
OnCall = Decided | Edited | Answered | Settled | Refused


def act_on(state: RunState, name: ActName, raw: bytes, now: datetime, signatures: Signatures | None = None) -> Taken:
    """Read a person's act and return what comes of it: the decision, or why it is refused.

    Without `signatures` nothing that must be signed counts.
    """
    act = read_act(raw, EXAMPLES[name])
    if isinstance(act, str):
        return _refused(state, name, act, now)
    if act.expected_version not in {None, state.steps}:
        why = f"the run has moved on: its state is of version {state.steps}, you saw {act.expected_version}; look again"
        return _refused(state, name, why, now)
    if "/" in act.id:
        return forwarded(state, name, act, raw, now)
    match name:
        case "message":
            return _messaged(state, act, now)
        case "pause":
            return _paused(state, act, now)
        case "raise_budget":
            return _raised(state, act, now)
        case "resume":
            return resumed(state, act, now)
        case "revoke":
            return _revoked(state, act, now, signatures)
        case "approve" | "reject" | "settle" | "answer":
            return _on_call(state, name, act, now, signatures)


def _messaged(state: RunState, act: Act, now: datetime) -> Messaged | Refused:
    """Take a message; one that comes when the agent has just answered lets it go on with it."""
    text = clean(act.text)
    if state.outcome is not None:
        return _refused(state, "message", f"the run has ended: it is {state.outcome}", now)
    if state.tail_bytes > TAIL_HARD_BYTES:
        return _refused(state, "message", "too much has come in that is not written yet; send it again later", now)
    if act.content is not None and not _is_artifact(act.content):
        return _refused(state, "message", f"its content is no artifact of at most {MESSAGE_BYTES} bytes", now)
    if act.content is None and not one_line(act.text):
        return _refused(state, "message", f"it is empty; send {EXAMPLES['message']}", now)
    if act.content is None and not fits_inline(text):
        return _refused(state, "message", "it is too long for a signal; starter.py message takes any length", now)
    return Messaged(at=now, turn=state.turn, by=act.by, text=act.content or Content(text=text))


def _is_artifact(content: Content) -> bool:
    return content.artifact is not None and content.artifact.size_bytes <= MESSAGE_BYTES


def _paused(state: RunState, act: Act, now: datetime) -> Paused | Refused:
    if state.outcome is not None:
        return _refused(state, "pause", f"the run has ended: it is {state.outcome}", now)
    if state.paused is not None:
        return _refused(state, "pause", f"the run is paused already: {state.paused.why}", now)
    why = f"by {act.by or 'somebody'}" + (f": {one_line(act.reason, 1000)}" if act.reason else "")
    return Paused(at=now, turn=state.turn, cause="person", why=why, by=act.by)


def _raised(state: RunState, act: Act, now: datetime) -> Raised | Refused:
    if state.outcome is not None:
        return _refused(state, "raise_budget", f"the run has ended: it is {state.outcome}", now)
    if not (act.turns or act.tokens or act.cost_usd):
        return _refused(state, "raise_budget", f"it does not say by how much; send {EXAMPLES['raise_budget']}", now)
    return Raised(at=now, turn=state.turn, by=act.by, turns=act.turns, tokens=act.tokens, cost_usd=act.cost_usd)


WAITS_FOR: dict[ActName, CallStatus] = {"settle": "awaiting_settlement", "answer": "awaiting_answer"}
"""What a call waits for that an act is about; approval, where nothing else is said."""

WAITS_AS: dict[CallStatus, tuple[str, str]] = {
    "awaiting_approval": ("for approval", "approve or reject"),
    "awaiting_answer": ("for an answer", "answer"),
    "awaiting_settlement": ("to be settled", "settle"),
}
"""How that is said, and which acts end it."""


def _on_call(state: RunState, name: ActName, act: Act, now: datetime, signatures: Signatures | None) -> OnCall:
    call_id = _which(state, act.id, WAITS_FOR.get(name, "awaiting_approval"))
    if isinstance(call_id, Refusal):
        return _refused(state, name, call_id.why, now)
    open_call = next(entry for entry in state.open_calls if entry.call.id == call_id)
    if name == "settle":
        why = is_stranger(open_call, act.by)
    else:
        why = may_not_decide(open_call, act.by, act.digest, now, approves=name == "approve")
    if why := why or unsigned(open_call, name, act, now, signatures):
        return _refused(state, name, why, now)
    if name == "settle":
        return _settled(state, act, call_id, now)
    if name == "answer":
        return _answered(state, act, open_call, now)
    if name == "approve" and (act.arguments is not None or act.content is not None):
        return _edited(state, act, open_call, now)
    return _decided(state, name, act, open_call, now)


def _decided(state: RunState, name: ActName, act: Act, open_call: OpenCall, now: datetime) -> Decided | Refused:
    if act.tool:
        return _refused(state, name, f"a call's tool can't be changed ({one_line(act.tool)}); leave tool out", now)
    if act.only and (name != "approve" or act.scope != "run"):
        return _refused(state, name, "a pattern (only) is for approving with scope run", now)
    if why := unusable(act.only):
        return _refused(state, name, why, now)
    return Decided(
        at=now,
        turn=state.turn,
        call_id=open_call.call.id,
        approved=name == "approve",
        by=act.by,
        reason=one_line(act.reason, 1000),
        scope=act.scope if name == "approve" else "once",
        only=act.only,
        digest=open_call.request.digest if open_call.request else "",
        signature=_counted(act, open_call),
    )


def _edited(state: RunState, act: Act, open_call: OpenCall, now: datetime) -> Edited | Refused:
    """Take other arguments for a call; whether its tool takes them is checked next, where the tool is known."""
    if act.tool:
        return _refused(state, "approve", f"a call's tool can't be changed ({one_line(act.tool)}); reject it", now)
    if act.scope == "run" or act.only:
        return _refused(state, "approve", "changed arguments are for one call; leave scope and only out", now)
    if act.arguments is not None and act.content is not None:
        return _refused(state, "approve", "it has both arguments and content; leave one out", now)
    if act.content is not None and not _is_artifact(act.content):
        return _refused(state, "approve", f"its content is no artifact of at most {MESSAGE_BYTES} bytes", now)
    try:
        text = clean(json.dumps(act.arguments, ensure_ascii=False))
    except RecursionError:
        return _refused(state, "approve", "its arguments are nested too deeply", now)
    if act.content is None and not fits_inline(text):
        return _refused(state, "approve", "its arguments are too long for a signal; starter.py takes any length", now)
    return Edited(
        at=now,
        turn=state.turn,
        call_id=open_call.call.id,
        arguments=act.content or Content(text=text),
        by=act.by,
        reason=one_line(act.reason, 1000),
        digest=open_call.request.digest if open_call.request else "",
        signature=_counted(act, open_call),
    )


def _counted(act: Act, open_call: OpenCall) -> str:
    """Return the signature that was checked; it counts once."""
    return act.signature if open_call.request and open_call.request.keys else ""


def _revoked(state: RunState, act: Act, now: datetime, signatures: Signatures | None) -> Revoked | Refused:
    """Take back what was approved and has not begun; that makes a run stricter, never laxer."""
    revoked = Revoked(at=now, turn=state.turn, by=act.by, reason=one_line(act.reason, 1000))
    if act.tool:
        if act.tool in state.allowed or any(act.tool == allowance.tool for allowance in state.allowances):
            return revoked.model_copy(update={"tool": act.tool})
        allowed = ", ".join({*state.allowed, *(allowance.tool for allowance in state.allowances)}) or "none"
        return _refused(state, "revoke", f"{one_line(act.tool)} is not allowed for the run; allowed: {allowed}", now)
    revocable = {each.call.id: each for each in state.open_calls if is_revocable(each)}
    call_id = act.id or (next(iter(revocable)) if len(revocable) == 1 else "")
    if call_id not in revocable:
        begun = next((each.status for each in state.open_calls if each.call.id == call_id), "")
        why = f"{one_line(call_id, 100)} is {begun or 'not there'}" if call_id else "name one, or a tool"
        listed = ", ".join(revocable) or "none"
        return _refused(state, "revoke", f"{why}; approved and not begun: {listed}", now)
    open_call = revocable[call_id]
    if why := is_stranger(open_call, act.by) or unsigned(open_call, "revoke", act, now, signatures):
        return _refused(state, "revoke", why, now)
    return revoked.model_copy(update={"call_id": call_id, "signature": _counted(act, open_call)})


def _answered(state: RunState, act: Act, open_call: OpenCall, now: datetime) -> Answered | Refused:
    text, options = clean(act.text).strip(), open_call.request.options if open_call.request else ()
    if not one_line(act.text) or not fits_inline(text):
        return _refused(state, "answer", f"it has no text, or too much; send {EXAMPLES['answer']}", now)
    if options and text not in options:
        return _refused(state, "answer", f"{one_line(text)!r} is none of the options: {', '.join(options)}", now)
    return Answered(at=now, turn=state.turn, call_id=open_call.call.id, text=Content(text=text), by=act.by)


def _settled(state: RunState, act: Act, call_id: str, now: datetime) -> Settled | Refused:
    if act.settlement is None:
        return _refused(state, "settle", f"it does not say what became of the call; send {EXAMPLES['settle']}", now)
    if act.result and act.settlement != "done":
        return _refused(state, "settle", f"a call that is {act.settlement} has no result; leave it out", now)
    return Settled(
        at=now,
        turn=state.turn,
        call_id=call_id,
        settlement=act.settlement,
        by=act.by,
        reason=one_line(act.reason, 1000),
        content=inline(clean(act.result)) if act.result else None,
    )


class Refusal(Frozen):
    """Why an act can't be carried out."""

    why: str


def _which(state: RunState, call_id: str, status: CallStatus) -> str | Refusal:
    """Return the id of the call that is meant: the named one, or the only one that waits for this."""
    waiting = [entry.call.id for entry in state.open_calls if entry.status == status]
    if call_id in waiting:
        return call_id
    if not call_id and len(waiting) == 1:
        return waiting[0]
    wanted, _ = WAITS_AS[status]
    others = {entry.call.id: entry.status for entry in state.pending if entry.status != status}
    if others and (call_id in others or not (call_id or waiting)):
        other = call_id or next(iter(others))
        return Refusal(why=f"{other} does not wait {wanted}; send {WAITS_AS[others[other]][1]}")
    if not waiting:
        what = f"{one_line(call_id, 100)} does not wait" if call_id else "nothing waits"
        return Refusal(why=f"{what} {wanted}{_before(state, call_id)}; the run is {state.phase}")
    which = (
        f"{one_line(call_id, 100)!r} does not wait {wanted}{_before(state, call_id)}"
        if call_id
        else "several calls wait: name one"
    )
    return Refusal(why=f"{which}; waiting: {', '.join(waiting)}")


def _before(state: RunState, call_id: str) -> str:
    """Say who decided a call before: of this turn each, of earlier ones as far back as the state knows."""
    of_turn = next((entry for entry in state.open_calls if entry.call.id == call_id), None)
    if of_turn is not None and of_turn.settled is None and of_turn.edit is None and of_turn.decisions:
        last = of_turn.decisions[-1]
        verdict = "approved" if last.approved else "rejected"
        return f": already {verdict} by {last.by or 'somebody'} at {utc(last.at)}"
    for taken in reversed(state.acts):
        match taken.entry:
            case Decided(call_id=decided, approved=approved, by=by, at=at) if decided == call_id:
                return f": already {'approved' if approved else 'rejected'} by {by or 'somebody'} at {utc(at)}"
            case Edited(call_id=edited, by=by, at=at) if edited == call_id:
                return f": approved with other arguments by {by or 'somebody'} at {utc(at)}, which are checked"
            case Settled(call_id=settled, settlement=settlement, by=by, at=at) if settled == call_id:
                return f": already settled ({settlement}) by {by or 'somebody'} at {utc(at)}"
            case _:
                continue
    return ""


def _refused(state: RunState, name: str, why: str, now: datetime) -> Refused:
    return Refused(at=now, turn=state.turn, act=one_line(name, 60), why=one_line(why, 500))
