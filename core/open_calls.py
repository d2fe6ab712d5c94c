"""The calls of a turn on their way from proposed to finished: the changes that are no entries of the journal."""

from collections import Counter
from collections.abc import Iterable

from core.state import OpenCall, RunState


def started(state: RunState, call_ids: Iterable[str]) -> RunState:
    """Return the state in which these calls run."""
    ids = set(call_ids)
    calls = tuple(
        with_changes(entry, status="running", runs=entry.runs + 1) if entry.call.id in ids else entry
        for entry in state.open_calls
    )
    counts = Counter(state.calls) + Counter(entry.call.name for entry in calls if entry.call.id in ids)
    return state.model_copy(update={"open_calls": calls, "calls": dict(counts)})


def verifying(state: RunState, call_id: str) -> RunState:
    """Return the state in which it is being found out whether a call took effect."""
    return change(state, call_id, status="verifying")


def put_back(state: RunState, call_id: str) -> RunState:
    """Return the state in which a call that could not even start is as before it was started."""
    names = [open_call.call.name for open_call in state.open_calls if open_call.call.id == call_id]
    counts = Counter(state.calls) - Counter(names)
    runs = {each.call.id: each.runs - 1 for each in state.open_calls}
    after = change(state, call_id, status="approved", runs=runs.get(call_id, 0))
    return after.model_copy(update={"calls": dict(counts)})


def unverified(state: RunState, call_id: str) -> RunState:
    """Return the state in which a call's `verify` could not even start: it waits to be verified, as before."""
    return change(state, call_id, status="unsettled")


def checking(state: RunState, call_id: str) -> RunState:
    """Return the state in which the arguments are checked that a person gave a call."""
    return change(state, call_id, status="checking")


def unchecked(state: RunState, call_id: str) -> RunState:
    """Return the state in which that could not be done: it is still to do."""
    is_so = any(each.call.id == call_id and each.status == "checking" for each in state.open_calls)
    return change(state, call_id, status="edited") if is_so else state


def change(state: RunState, call_id: str, **changes: object) -> RunState:
    """Return the state with these fields of one open call set."""
    calls = tuple(with_changes(entry, **changes) if entry.call.id == call_id else entry for entry in state.open_calls)
    return state.model_copy(update={"open_calls": calls})


def with_changes(entry: OpenCall, **changes: object) -> OpenCall:
    """Return the call with these fields set."""
    return entry.model_copy(update=changes)
