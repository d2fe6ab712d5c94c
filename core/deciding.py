"""What decisions, deadlines and reminders make of a call that waits for a person: the fold of these entries. Pure."""

from core.entries import Answered, ApprovalRequested, Decided, Delegated, Edited, Expired, Reminded, Revoked
from core.open_calls import change, with_changes
from core.state import ALLOWANCES_KEPT, Allowance, CallStatus, RunState

OfRequest = ApprovalRequested | Answered | Reminded | Expired | Edited | Decided | Revoked | Delegated

SPENT_KEPT = 50
"""So many used signatures of one call are known: each was made by somebody who may decide."""


def folded(state: RunState, entry: OfRequest) -> RunState:
    """Return the state after what happened to a request."""
    match entry:
        case ApprovalRequested():
            status = "awaiting_answer" if entry.question else "awaiting_approval"
            asked = {"status": status, "asked_at": entry.at, "request": entry, "decisions": ()}
            return change(state, entry.call_id, **asked)
        case Delegated():
            return change(state, entry.call_id, child=entry)
        case Answered():
            return change(state, entry.call_id, status="answered", answer=entry)
        case Expired():
            return change(state, entry.call_id, status="expired")
        case Reminded():
            return _reminded(state, entry)
        case Edited():
            return change(state, entry.call_id, status="edited", edit=entry)
        case Decided():
            return _decided(state, entry)
        case Revoked():
            return _revoked(state, entry)


def not_edited(state: RunState, call_id: str) -> RunState:
    """Return the state after edited arguments were refused: the call waits for a decision, as it was proposed."""
    waiting = {"edited", "checking"}
    is_so = any(each.call.id == call_id and each.status in waiting for each in state.open_calls)
    return change(state, call_id, status="awaiting_approval", edit=None) if is_so else state


def _decided(state: RunState, entry: Decided) -> RunState:
    """Return the state after a decision: enough approvals let the call run, one rejection ends it."""
    open_call = next((each for each in state.open_calls if each.call.id == entry.call_id), None)
    if open_call is None:
        return state
    if entry.call is not None and open_call.request is not None:  # what others approved was something else
        request_now = open_call.request.model_copy(update={"digest": entry.digest})
        open_call = with_changes(open_call, call=entry.call, request=request_now, decisions=(), edit=None)
        state = change(state, entry.call_id, call=entry.call, request=request_now, edit=None)
    decisions = (*open_call.decisions, entry)
    needed = open_call.request.needed if open_call.request else 1
    status: CallStatus = "awaiting_approval" if entry.call is not None else open_call.status
    if not entry.approved:
        status = "rejected"
    elif sum(decision.approved for decision in decisions) >= needed:
        status = "approved"
    spent = (*open_call.spent, *filter(None, (entry.signature,)))[-SPENT_KEPT:]
    after = change(state, entry.call_id, status=status, decisions=decisions, spent=spent)
    for_run = all(decision.scope == "run" and decision.only == entry.only for decision in decisions)
    return _allowed(after, open_call.call.name, entry) if for_run and status == "approved" else after


def _allowed(state: RunState, tool: str, entry: Decided) -> RunState:
    """Return the state in which calls of a tool need nobody any more: all, or those that fit."""
    if entry.only:
        allowances = (*state.allowances, Allowance(tool=tool, only=entry.only))
        return state.model_copy(update={"allowances": allowances[-ALLOWANCES_KEPT:]})
    return state if tool in state.allowed else state.model_copy(update={"allowed": (*state.allowed, tool)})


def _revoked(state: RunState, entry: Revoked) -> RunState:
    """Return the state in which a call waits for approval again, or a tool is asked for again.

    Who takes back what they approved takes back their own approval; anybody else who may decide takes back all.
    """
    open_call = next((each for each in state.open_calls if each.call.id == entry.call_id), None)
    tool = entry.tool or (
        open_call.call.name if open_call and any(d.scope == "run" for d in open_call.decisions) else ""
    )
    state = state.model_copy(
        update={
            "allowed": tuple(name for name in state.allowed if name != tool),
            "allowances": tuple(each for each in state.allowances if each.tool != tool),
        }
    )
    if open_call is None:
        return state
    own = entry.by and any(decision.by == entry.by for decision in open_call.decisions)
    kept = tuple(decision for decision in open_call.decisions if own and decision.by != entry.by)
    spent = (*open_call.spent, *filter(None, (entry.signature,)))[-SPENT_KEPT:]
    return change(state, entry.call_id, status="awaiting_approval", decisions=kept, edit=None, spent=spent)


def _reminded(state: RunState, entry: Reminded) -> RunState:
    """Return the state after a reminder."""
    open_call = next((each for each in state.open_calls if each.call.id == entry.call_id), None)
    if open_call is None or open_call.request is None:
        return state
    later = open_call.request.model_copy(update={"remind_at": entry.remind_at})
    return change(state, entry.call_id, request=later)
