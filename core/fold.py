"""How entries change a run: `apply(state, entry) -> state`, and the few changes that are no entries.

All pure: the state of a run is the fold of its journal.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import takewhile

from core import deciding, settlement, switching
from core.budgets import raised
from core.content import inline
from core.entries import (
    Answered,
    ApprovalRequested,
    Closed,
    Compacted,
    Decided,
    Delegated,
    Edited,
    Entry,
    Expired,
    Forked,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Reminded,
    Replied,
    Resumed,
    Revoked,
    Settled,
    Started,
    Switched,
    Told,
    ToolFinished,
    Unsettled,
    size_bytes,
)
from core.forks import inherited
from core.journal import Head
from core.lines import line
from core.loops import counted, warned
from core.open_calls import change, with_changes
from core.sizes import tokens
from core.state import (
    ACTS_KEPT,
    ARTIFACTS_KEPT,
    RECENT_LINES,
    TAIL_HARD_BYTES,
    UNSEEN,
    OpenCall,
    RunState,
    TakenAct,
    kept_act,
)
from core.tools import Call

ACTS_CARRIED = 3
RECENT_CARRIED = 12


def apply(state: RunState, entry: Entry) -> RunState:
    """Return the state after an entry. Pure; the entry also joins the tail, results in the order of their calls."""
    after = _fold(state, entry)
    changes: dict[str, object] = {
        "updated_at": entry.at,
        "steps": after.steps + 1,
        "recent": (*after.recent, line(entry))[-RECENT_LINES:],
    }
    if (act := kept_act(entry)) is not None:
        changes["acts"] = (*after.acts, TakenAct(step=after.steps + 1, entry=act))[-ACTS_KEPT:]
    after = after.model_copy(update=changes)
    # While nothing can be written, a flood of refused acts only shows in `recent`: it must not fill the state.
    flooded = isinstance(entry, Refused) and after.tail_bytes > TAIL_HARD_BYTES
    if not isinstance(entry, ToolFinished) and not flooded:
        after = _recorded(after, entry)
    return _waiting(after, entry.at)


def _recorded(state: RunState, *entries: Entry) -> RunState:
    """Put entries into the tail."""
    size = state.tail_bytes + sum(size_bytes(entry) for entry in entries)
    return state.model_copy(update={"tail": (*state.tail, *entries), "tail_bytes": size})


def opened(state: RunState, beginning: RunState) -> RunState:
    """Return the state after the run has opened with `beginning`; what came in before that stays in the tail."""
    after = beginning
    for entry in state.tail:
        after = apply(after, entry)
    return after.model_copy(
        update={
            "steps": state.steps,
            "recent": state.recent,
            "acts": state.acts,
            "waited_seconds": state.waited_seconds,
            "updated_at": state.updated_at or beginning.started_at,
        }
    )


def overflowed(state: RunState, window_tokens: int) -> RunState:
    """Return the state after a provider said that the prompt is too long: the estimate was too low."""
    return state.model_copy(update={"context_tokens": window_tokens})


def all_recorded(state: RunState) -> RunState:
    """Return the state in which every result that is there is in the tail, also before results of earlier calls."""
    return _results_recorded(state, [open_call.call.id for open_call in state.open_calls])


def carried(state: RunState, calls: Iterable[Call]) -> RunState:
    """Return the state with long arguments of open calls as artifacts: it goes into the next Temporal run."""
    stored = {call.id: call for call in calls}
    open_calls = tuple(with_changes(entry, call=stored.get(entry.call.id, entry.call)) for entry in state.open_calls)
    return state.model_copy(
        update={"open_calls": open_calls, "acts": state.acts[-ACTS_CARRIED:], "recent": state.recent[-RECENT_CARRIED:]}
    )


def committed(state: RunState, head: Head, count: int) -> RunState:
    """Return the state after the first `count` entries of the tail were written; later ones stay."""
    rest = state.tail[count:]
    return state.model_copy(update={"head": head, "tail": rest, "tail_bytes": sum(map(size_bytes, rest))})


def added(state: RunState, entry: Entry, head: Head | None, sent: int) -> RunState:
    """Return the state after an activity that was sent `sent` entries of the tail gave a further one.

    When it committed (`head`), these and the entry are in the journal; what came in meanwhile stays in the tail.
    """
    after = apply(state, entry)
    rest = after.tail[sent:-1]
    if any(isinstance(later, Messaged) for later in rest):
        after = after.model_copy(update={"said": None, "stop_reason": None})
    if head is None:  # it answers what was sent: what came in meanwhile stands behind it
        return after.model_copy(update={"tail": (*after.tail[:sent], entry, *rest)})
    return after.model_copy(update={"head": head, "tail": rest, "tail_bytes": sum(map(size_bytes, rest))})


def interrupted(state: RunState, now: datetime) -> RunState:
    """Return the state in which no call is open: those that have not ended get a result that says so."""
    for open_call in state.open_calls:
        if open_call.result is None:
            call = open_call.call
            why = "Interrupted: the run was cancelled. The call may or may not have taken effect."
            if open_call.status not in UNSEEN:
                why = "Not run: the run was cancelled."
            result = ToolFinished(
                at=now, turn=state.turn, call_id=call.id, tool=call.name, content=inline(why), failed=True
            )
            state = apply(state, result)
    return state


def _fold(state: RunState, entry: Entry) -> RunState:
    match entry:
        case Started():
            return state.model_copy(update={"started_at": entry.at})
        case Forked():
            return inherited(state, entry)
        case Messaged():  # what the agent has just said is no answer any more: there is more to say
            context_tokens = state.context_tokens + tokens(entry)
            return state.model_copy(update={"context_tokens": context_tokens, "said": None, "stop_reason": None})
        case Compacted():
            return _compacted(state, entry)
        case Replied():
            return _replied(state, entry)
        case ToolFinished():
            return _finished(state, entry)
        case ApprovalRequested() | Answered() | Reminded() | Expired() | Edited() | Decided() | Revoked() | Delegated():
            return deciding.folded(state, entry)
        case Unsettled() | Settled():
            return settlement.folded(state, entry)
        case Told():
            return _told(state, entry)
        case Paused():
            return state.model_copy(update={"paused": entry})
        case Resumed() | Switched():
            return switching.folded(state, entry)
        case Raised():
            return raised(state, entry)
        case Closed():
            return state.model_copy(update={"outcome": entry.outcome, "reason": entry.reason})
        case Refused() | Forwarded():
            return deciding.not_edited(state, entry.call_id) if isinstance(entry, Refused) and entry.call_id else state


def _told(state: RunState, entry: Told) -> RunState:
    if entry.about:
        return warned(state, entry.about)
    return state.model_copy(update={"said": None, "stop_reason": None, "mistakes": state.mistakes + 1})


def _replied(state: RunState, entry: Replied) -> RunState:
    return state.model_copy(
        update={
            "turn": entry.turn,
            "open_calls": tuple(OpenCall(call=call) for call in entry.calls),
            "said": entry.answer or entry.text,
            "stop_reason": entry.stop_reason,
            "output": entry.output,
            "misfit": entry.misfit,
            "usage": state.usage + entry.usage,
            "context_tokens": entry.prompt_tokens + tokens(entry),
            "compactions": 0,
            "failed_models": (),
        }
    )


def _compacted(state: RunState, entry: Compacted) -> RunState:
    return state.model_copy(
        update={
            "usage": state.usage + entry.usage,
            "context_tokens": entry.prompt_tokens,
            "compactions": state.compactions + 1,
        }
    )


def _finished(state: RunState, entry: ToolFinished) -> RunState:
    call = next((each.call for each in state.open_calls if each.call.id == entry.call_id), None)
    state = change(state, entry.call_id, status="finished", result=entry)
    state = counted(state, call, entry) if call is not None else state
    made = tuple(ref.model_copy(update={"preview": ""}) for ref in entry.artifacts)
    state = state.model_copy(
        update={
            "artifacts": (*state.artifacts, *made)[-ARTIFACTS_KEPT:],
            "context_tokens": state.context_tokens + tokens(entry),
            "tainted": state.tainted or entry.untrusted,
            "usage": state.usage + entry.usage,
        }
    )
    ready = takewhile(lambda open_call: open_call.result is not None, state.open_calls)
    state = _results_recorded(state, [open_call.call.id for open_call in ready])
    if not all(open_call.recorded for open_call in state.open_calls):
        return state
    return state.model_copy(update={"open_calls": (), "said": None, "mistakes": _mistakes(state)})


def _results_recorded(state: RunState, call_ids: Iterable[str]) -> RunState:
    """Put the results of these calls into the tail, in the order of the calls; each once."""
    ids = set(call_ids)
    results: list[ToolFinished] = []
    calls: list[OpenCall] = []
    for open_call in state.open_calls:
        if open_call.call.id in ids and open_call.result is not None and not open_call.recorded:
            results.append(open_call.result)
            bare = open_call.result.model_copy(update={"content": inline(""), "artifacts": ()})
            calls.append(with_changes(open_call, result=bare, recorded=True))
        else:
            calls.append(open_call)
    return _recorded(state.model_copy(update={"open_calls": tuple(calls)}), *results)


def _mistakes(state: RunState) -> int:
    """Count a turn of which nothing could be run as one more mistake; one good result ends the row."""
    results = [(entry, entry.result) for entry in state.open_calls if entry.result is not None]
    if any(not result.failed for _, result in results):
        return 0
    ran_or_rejected = any(result.attempts or entry.decisions for entry, result in results)
    return state.mistakes if ran_or_rejected else state.mistakes + 1


def _waiting(state: RunState, now: datetime) -> RunState:
    """Keep count of the time in which a person was waited for."""
    waits = state.paused is not None or bool(state.pending)
    if waits and state.waiting_since is None:
        return state.model_copy(update={"waiting_since": now})
    if not waits and state.waiting_since is not None:
        waited = state.waited_seconds + (now - state.waiting_since).total_seconds()
        return state.model_copy(update={"waiting_since": None, "waited_seconds": waited})
    return state
