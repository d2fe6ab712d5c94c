"""Requests for approval: when one is made, what decisions, deadlines and reminders make of it. Pure rules.

A request is for one call, exactly: tool, arguments, the tool's definition and the policy make its digest. It ends when
enough different people approved it, when one rejected it, or at its deadline: nothing is ever approved by waiting.
"""

import hashlib
import json
from datetime import datetime

from core.asking import Asking, request_digest
from core.content import inline, one_line
from core.entries import (
    Answered,
    ApprovalRequested,
    Decided,
    Entry,
    Expired,
    Refused,
    Reminded,
    ToolFinished,
    utc,
)
from core.patterns import fits
from core.runs import RunSpec
from core.state import CallStatus, OpenCall, RunState
from core.tools import Call, ToolPolicy

OPTIONS = 20
OPTION_CHARACTERS = 100
"""More and longer options of a question are not kept: then any answer is taken."""
WAITS: frozenset[CallStatus] = frozenset({"awaiting_approval", "awaiting_answer"})


def is_asked(policy: ToolPolicy, state: RunState, call: Call) -> bool:
    """Say whether a person must approve a call; what can't be told is asked."""
    asking = policy.asking
    if asking.when_tainted and state.tainted:
        return True
    if asking.above_usd is not None and (state.usage.cost_usd is None or state.usage.cost_usd > asking.above_usd):
        return True
    return policy.approval == "ask" and call.rule != "not" and not _is_allowed(state, call)


def _is_allowed(state: RunState, call: Call) -> bool:
    """Say whether a person allowed the tool for the rest of the run, with such arguments."""
    if call.name in state.allowed:
        return True
    return any(each.tool == call.name and fits(each.only, call.arguments.text) for each in state.allowances)


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
        path=spec.above.path if spec.above else (),
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


def is_revocable(open_call: OpenCall) -> bool:
    """Say whether an approval can be taken back: there is one, and the call has not begun."""
    if open_call.status in {"approved", "edited", "checking"}:
        return open_call.runs == 0 and open_call.request is not None
    return open_call.status == "awaiting_approval" and any(decision.approved for decision in open_call.decisions)


def checked(open_call: OpenCall, call: Call, policy: ToolPolicy, at: datetime, turn: int) -> Decided | Refused:
    """Return what becomes of a call whose edited arguments were checked: it is decided on as it will run, or refused.

    When the edit was taken back meanwhile, or its request is over, that is said, and nothing is decided.
    """
    edit, call_id = open_call.edit, open_call.call.id
    if open_call.status != "checking" or edit is None:
        why = f"the other arguments for {call_id} are not wanted any more"
        return Refused(at=at, turn=turn, act="approve", why=why)
    if call.problem is not None:
        why = one_line(f"the other arguments for {call_id} by {edit.by or 'somebody'}: {call.problem}", 500)
        return Refused(at=at, turn=turn, act="approve", why=why, call_id=call_id)
    return Decided(
        at=at,
        turn=turn,
        call_id=call_id,
        approved=True,
        by=edit.by,
        reason=edit.reason,
        digest=digest_of(policy, call),
        call=call,
        signature=edit.signature,
    )


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
