"""Requests for approval: when one is made, what decisions, deadlines and reminders make of it. Pure rules.

A request is for one call, exactly: tool, arguments, the tool's definition and the policy make its digest. It ends when
enough different people approved it, when one rejected it, or at its deadline: nothing is ever approved by waiting.
"""

import hashlib
import json
from datetime import datetime

from core.asking import Asking, request_digest
from core.content import inline
from core.entries import Answered, ApprovalRequested, Decided, Entry, Expired, Reminded, ToolFinished, utc
from core.open_calls import change
from core.runs import RunSpec
from core.state import CallStatus, OpenCall, RunState
from core.tools import Call, ToolPolicy

OfRequest = ApprovalRequested | Answered | Reminded | Expired | Decided
OPTIONS = 20
OPTION_CHARACTERS = 100
"""More and longer options of a question are not kept: then any answer is taken."""
SPENT_KEPT = 50
"""So many used signatures of one call are known: each was made by somebody who may decide."""
WAITS: frozenset[CallStatus] = frozenset({"awaiting_approval", "awaiting_answer"})


def is_asked(policy: ToolPolicy, state: RunState, call: Call) -> bool:
    """Say whether a person must approve a call; what can't be told is asked."""
    asking = policy.asking
    if asking.when_tainted and state.tainted:
        return True
    if asking.above_usd is not None and (state.usage.cost_usd is None or state.usage.cost_usd > asking.above_usd):
        return True
    return policy.approval == "ask" and call.rule != "not" and call.name not in state.allowed


def request(spec: RunSpec, policy: ToolPolicy, call: Call, now: datetime, turn: int) -> ApprovalRequested:
    """Return the request for a call."""
    asking = policy.asking
    return ApprovalRequested(
        at=now,
        turn=turn,
        call_id=call.id,
        tool=call.name,
        digest=digest_of(policy, call),
        reason=asking.reason,
        risk=asking.risk,
        approvers=asking.approvers,
        excluded=(spec.by,) if asking.exclude_requester and spec.by else (),
        keys=_keys(asking, asking.approvers),
        needed=asking.needed,
        question=policy.served_by == "workflow",
        options=_options(call) if policy.served_by == "workflow" else (),
        expires_at=now + asking.expires if asking.expires else None,
        remind_at=now + asking.remind if asking.remind else None,
    )


def due(policy: ToolPolicy, open_call: OpenCall, now: datetime, turn: int) -> Entry | None:
    """Return what time alone makes of a request: its end, its way to other people, or that it is shown again."""
    asked, call = open_call.request, open_call.call
    if asked is None or open_call.status not in {*WAITS, "expired"}:
        return None
    if open_call.status == "expired":
        return _after_deadline(policy, open_call, now, turn)
    if asked.expires_at is not None and now >= asked.expires_at:
        others = () if asked.escalated else policy.asking.escalate_to
        return Expired(at=now, turn=turn, call_id=call.id, tool=call.name, escalate_to=others)
    if asked.remind_at is not None and policy.asking.remind is not None and now >= asked.remind_at:
        again = now + policy.asking.remind
        return Reminded(at=now, turn=turn, call_id=call.id, tool=call.name, remind_at=again)
    return None


def is_stranger(open_call: OpenCall, by: str) -> str:
    """Say why somebody is not among those who may decide on a call; empty when they are."""
    asked = open_call.request
    if asked is None:
        return ""
    if asked.approvers and by not in asked.approvers:
        return f"{by or 'who gives no name'} may not decide on {asked.call_id}; may: {', '.join(asked.approvers)}"
    if asked.excluded and not by:
        return f"not everybody may decide on {asked.call_id}: say who you are"
    if by in asked.excluded:
        return f"{by} may not decide on {asked.call_id}: who started the run is excluded"
    return ""


def may_not_decide(open_call: OpenCall, by: str, digest: str, now: datetime, *, approves: bool) -> str:
    """Say why somebody may not decide on a call that waits now; empty when they may."""
    asked = open_call.request
    if asked is None:
        return ""
    if asked.expires_at is not None and now >= asked.expires_at:
        return f"{asked.call_id} can't be decided any more: its deadline was {utc(asked.expires_at)}"
    if stranger := is_stranger(open_call, by):
        return stranger
    if asked.needed > 1 and not by:
        return f"{asked.call_id} needs {asked.needed} different people: say who you are"
    if approves and asked.needed > 1 and any(decision.by == by for decision in open_call.decisions):
        return f"{by} has approved {asked.call_id} already; {asked.needed} different people are needed"
    if digest and not asked.digest.startswith(digest):
        return f"what waits as {asked.call_id} is not what you saw ({digest[:12]}, now {asked.digest[:12]}); look again"
    return ""


def _keys(asking: Asking, names: tuple[str, ...]) -> dict[str, str]:
    """Return the keys of those who may decide."""
    return {name: key for name, key in asking.keys.items() if name in names}


def _options(call: Call) -> tuple[str, ...]:
    """Return the answers that a question allows; empty: any."""
    try:
        options = json.loads(call.arguments.text or "{}").get("options") or ()
        return tuple(str(option)[:OPTION_CHARACTERS] for option in options)[:OPTIONS]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ()


def answered(open_call: OpenCall, at: datetime, turn: int) -> ToolFinished | None:
    """Return the result of a question that was answered; None of any other call."""
    if open_call.status != "answered" or open_call.answer is None:
        return None
    call = open_call.call
    return ToolFinished(at=at, turn=turn, call_id=call.id, tool=call.name, content=open_call.answer.text, attempts=1)


def wake_at(state: RunState) -> datetime | None:
    """Return when the next deadline or reminder is, None when there is none."""
    times = (
        at
        for entry in state.open_calls
        if entry.status in WAITS and entry.request is not None
        for at in (entry.request.expires_at, entry.request.remind_at)
        if at is not None
    )
    return min(times, default=None)


def still_holds(policy: ToolPolicy, open_call: OpenCall, now: datetime) -> bool:
    """Say, at dispatch, whether what was approved is what would run: the same request, in time, enough people."""
    asked = open_call.request
    if asked is None:
        return True
    approvals = {decision.by for decision in open_call.decisions if decision.approved}
    anonymous = asked.needed == 1 and any(decision.approved for decision in open_call.decisions)
    enough = anonymous or len(approvals) >= asked.needed
    same = asked.digest in {"", digest_of(policy, open_call.call)}
    in_time = asked.expires_at is None or now < asked.expires_at
    signed = not asked.keys or all(decision.signature for decision in open_call.decisions)
    return same and in_time and enough and signed and all(decision.approved for decision in open_call.decisions)


def digest_of(policy: ToolPolicy, call: Call) -> str:
    """Return the SHA-256 (hex) of what a person approves: the call, the tool as it is described, the policy.

    The arguments count as the bytes that the model wrote, which are the same inline and as an artifact.
    """
    inline_bytes = (call.arguments.text or "").encode()
    arguments = call.arguments.artifact.sha256 if call.arguments.artifact else hashlib.sha256(inline_bytes).hexdigest()
    return request_digest(call.name, arguments, policy.definition_digest, policy.asking)


def folded(state: RunState, entry: OfRequest) -> RunState:
    """Return the state after what happened to a request."""
    match entry:
        case ApprovalRequested():
            status = "awaiting_answer" if entry.question else "awaiting_approval"
            asked = {"status": status, "asked_at": entry.at, "request": entry, "decisions": ()}
            return change(state, entry.call_id, **asked)
        case Answered():
            return change(state, entry.call_id, status="answered", answer=entry)
        case Expired():
            return change(state, entry.call_id, status="expired")
        case Reminded():
            return _reminded(state, entry)
        case Decided():
            return _decided(state, entry)


def _decided(state: RunState, entry: Decided) -> RunState:
    """Return the state after a decision: enough approvals let the call run, one rejection ends it."""
    open_call = next((each for each in state.open_calls if each.call.id == entry.call_id), None)
    if open_call is None:
        return state
    decisions = (*open_call.decisions, entry)
    needed = open_call.request.needed if open_call.request else 1
    status = open_call.status
    if not entry.approved:
        status = "rejected"
    elif sum(decision.approved for decision in decisions) >= needed:
        status = "approved"
    spent = (*open_call.spent, *filter(None, (entry.signature,)))[-SPENT_KEPT:]
    after = change(state, entry.call_id, status=status, decisions=decisions, spent=spent)
    for_run = all(decision.scope == "run" for decision in decisions)
    if for_run and status == "approved" and open_call.call.name not in state.allowed:
        return after.model_copy(update={"allowed": (*state.allowed, open_call.call.name)})
    return after


def _reminded(state: RunState, entry: Reminded) -> RunState:
    """Return the state after a reminder."""
    open_call = next((each for each in state.open_calls if each.call.id == entry.call_id), None)
    if open_call is None or open_call.request is None:
        return state
    later = open_call.request.model_copy(update={"remind_at": entry.remind_at})
    return change(state, entry.call_id, request=later)


def _after_deadline(policy: ToolPolicy, open_call: OpenCall, now: datetime, turn: int) -> Entry:
    asked, call, asking = open_call.request, open_call.call, policy.asking
    if asked is not None and not asked.escalated and asking.escalate_to and asking.expires is not None:
        return asked.model_copy(
            update={
                "at": now,
                "turn": turn,
                "approvers": asking.escalate_to,
                "keys": _keys(asking, asking.escalate_to),
                "expires_at": now + asking.expires,
                "remind_at": now + asking.remind if asking.remind else None,
                "escalated": True,
            }
        )
    if asked is not None and asked.question:
        text = asking.default_answer or "Nobody answered in time."
        return Answered(at=now, turn=turn, call_id=call.id, text=inline(text))
    why = "Not run: nobody decided in time. Nothing was changed."
    return ToolFinished(at=now, turn=turn, call_id=call.id, tool=call.name, content=inline(why), failed=True)
