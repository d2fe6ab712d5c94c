"""How entries change a run of a pipeline: `apply(state, entry) -> state`, and the few changes that are no entries."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import assert_never

from core import deciding, settlement
from core.call_entries import ApprovalRequested, Decided, Expired, Forwarded, Reminded, Revoked, Settled, Unsettled
from core.content import ArtifactRef, Content
from core.entries import Paused, Refused, Resumed
from core.frozen import Frozen
from core.journal import Head
from core.pending import WaitingRun
from core.pipelines.entries import (
    Began,
    Ended,
    Ending,
    Finalized,
    Opened,
    PipelineEntry,
    Prepared,
    Retried,
    Undone,
    size_bytes,
)
from core.pipelines.lines import line
from core.pipelines.state import AGENT, GATE, PipelineState, StepState
from core.state import (
    ACTS_KEPT,
    RECENT_LINES,
    TAIL_HARD_BYTES,
    UNSEEN,
    CallStatus,
    OpenCall,
    RunState,
    TakenAct,
    kept_act,
)

OfCall = ApprovalRequested | Decided | Expired | Reminded | Revoked | Unsettled | Settled
CARRIED_BYTES = 512
"""Longer texts of steps become artifacts when they are written to the record."""
UNDO = "-undo"
ARTIFACTS = 20
RUNS_BELOW = 100


def apply(state: PipelineState, entry: PipelineEntry) -> PipelineState:
    """Return the state after an entry, which also joins the tail. Pure."""
    after = _fold(state, entry)
    changes: dict[str, object] = {
        "updated_at": entry.at,
        "steps": state.steps + 1,
        "recent": (*state.recent, line(entry))[-RECENT_LINES:],
    }
    if isinstance(entry, Decided | Revoked | Settled | Paused | Resumed | Refused | Forwarded):
        act = kept_act(entry)
        taken = () if act is None else (TakenAct(step=state.steps + 1, entry=act),)
        changes["acts"] = (*state.acts, *taken)[-ACTS_KEPT:]
    if not (isinstance(entry, Refused) and state.tail_bytes > TAIL_HARD_BYTES):
        changes["tail"] = (*state.tail, entry)
        changes["tail_bytes"] = state.tail_bytes + size_bytes(entry)
    return _waiting(after.model_copy(update=changes), entry.at)


def _fold(state: PipelineState, entry: PipelineEntry) -> PipelineState:
    match entry:
        case Opened():
            return state.model_copy(update={"started_at": entry.at})
        case Prepared():
            return _prepared(state, entry)
        case Began():
            return _began(state, entry)
        case Ended():
            return _ended(state, entry)
        case Retried():
            return _retried(state, entry)
        case Undone():
            undone = {"undo": "failed" if entry.error else "undone", "undo_error": entry.error, "open": None}
            return changed(state, entry.step, **undone)
        case Ending():
            return state if state.ending is not None else state.model_copy(update={"ending": entry})
        case Finalized():
            return state.model_copy(update={"outcome": entry.outcome, "reason": entry.reason})
        case Paused():
            return state.model_copy(update={"paused": entry})
        case Resumed():
            return state.model_copy(update={"paused": None})
        case Refused() | Forwarded():
            return state
        case ApprovalRequested() | Decided() | Expired() | Reminded() | Revoked() | Unsettled() | Settled():
            return _of_call(state, entry)
        case _:
            assert_never(entry)


def changed(state: PipelineState, key: str, **changes: object) -> PipelineState:
    """Return the state with these fields of one run of a step set."""
    if key not in state.runs:
        return state
    return state.model_copy(update={"runs": {**state.runs, key: state.runs[key].model_copy(update=changes)}})


def preparing(state: PipelineState, key: str, now: datetime, *, undo: bool) -> PipelineState:
    """Return the state in which it is found out what a step is given."""
    if undo:
        return changed(state, key, undo="preparing")
    return state.model_copy(update={"runs": {**state.runs, key: StepState(status="preparing", asked_at=now)}})


def unprepared(state: PipelineState, key: str, *, undo: bool) -> PipelineState:
    """Return the state in which that could not be done: it is still to do."""
    if undo:
        return changed(state, key, undo="")
    return state.model_copy(update={"runs": {name: run for name, run in state.runs.items() if name != key}})


def with_call(state: PipelineState, key: str, status: CallStatus) -> PipelineState:
    """Return the state with the call of a step at this point."""
    open_call = state.runs[key].open
    return changed(state, key, open=open_call and open_call.model_copy(update={"status": status}))


def put_back(state: PipelineState, key: str) -> PipelineState:
    """Return the state in which a step that could not even start is as before: it is begun again."""
    run = state.runs[key]
    after = with_call(state, key, "again")
    if run.undo:
        return changed(after, key, undo_attempts=run.undo_attempts - 1)
    return changed(after, key, attempts=run.attempts - 1)


def stopping(state: PipelineState, key: str) -> PipelineState:
    """Return the state in which a step's agent was told to stop."""
    return changed(state, key, stopping=True)


def finishing(state: PipelineState, outcome: str) -> PipelineState:
    """Return the state in which only the end is to be written."""
    return state.model_copy(update={"finishing": outcome})


class Stored(Frozen):
    """Texts of a run of a step, the long ones now artifacts."""

    output: Content | None = None
    given: Content | None = None


def to_store(state: PipelineState) -> dict[str, Stored]:
    """Return the texts of steps that are long and inline, by run of a step."""
    found = {key: Stored(output=_long(run.output), given=_long(run.given)) for key, run in state.runs.items()}
    return {key: texts for key, texts in found.items() if texts != Stored()}


def _long(content: Content | None) -> Content | None:
    text = content.text if content is not None else None
    return content if text is not None and len(text.encode()) > CARRIED_BYTES else None


def committed(state: PipelineState, head: Head | None, count: int, stored: Mapping[str, Stored]) -> PipelineState:
    """Return the state after the first `count` entries of the tail were written, and long texts stored."""
    for key, texts in stored.items():
        changes = {"output": texts.output, "given": texts.given}
        state = changed(state, key, **{name: content for name, content in changes.items() if content is not None})
    rest = state.tail[count:]
    return state.model_copy(update={"head": head or state.head, "tail": rest, "tail_bytes": sum(map(size_bytes, rest))})


def _prepared(state: PipelineState, entry: Prepared) -> PipelineState:
    opened = OpenCall(call=entry.call) if entry.call is not None else None
    if entry.undo:
        return changed(state, entry.step, undo="open", open=opened)
    group = entry.call is None
    return changed(
        state,
        entry.step,
        status="group" if group else "open",
        open=opened,
        given=entry.given if group or entry.call is None or entry.call.name == AGENT else None,
        attachments=entry.attachments,
        items=entry.items,
        started_at=entry.at if group else None,
    )


def _began(state: PipelineState, entry: Began) -> PipelineState:
    run = state.runs[entry.step]
    begun = with_call(state, entry.step, "running")
    opened = begun.runs[entry.step].open
    counted = opened.model_copy(update={"runs": opened.runs + 1}) if opened is not None else None
    if entry.undo:
        return changed(begun, entry.step, undo="open", open=counted, undo_attempts=entry.attempt, retry_at=None)
    return changed(
        begun,
        entry.step,
        status="open",
        open=counted,
        attempts=entry.attempt,
        child=entry.child,
        started_at=run.started_at or entry.at,
        retry_at=None,
    )


def _ended(state: PipelineState, entry: Ended) -> PipelineState:
    run = state.runs.get(entry.step) or StepState(status="preparing", asked_at=entry.at)
    artifacts: tuple[ArtifactRef, ...] = tuple(
        ref.model_copy(update={"preview": ""}) for ref in entry.artifacts[:ARTIFACTS]
    )
    gate = run.open is not None and run.open.call.name == GATE
    run = run.model_copy(
        update={
            "status": entry.status,
            "ended_at": entry.at,
            "order": state.ended + 1,
            "open": None,
            "given": run.given if run.status == "group" else None,
            "attachments": (),
            "output": entry.output,
            "artifacts": artifacts,
            "error": entry.error,
            "by": entry.by,
            "retry_at": None,
        }
    )
    changes: dict[str, object] = {"runs": {**state.runs, entry.step: run}, "ended": state.ended + 1}
    if gate:
        changes["approved"] = entry.status == "done"
    return state.model_copy(update=changes)


def _retried(state: PipelineState, entry: Retried) -> PipelineState:
    at = entry.at + timedelta(seconds=entry.wait_seconds)
    again = {"retry_at": at, "open": _anew(state.runs[entry.step])}
    if entry.undo:
        return changed(state, entry.step, undo="retrying", undo_error=entry.error, **again)
    return changed(state, entry.step, status="retrying", error=entry.error, **again)


def _anew(run: StepState) -> OpenCall | None:
    """Return the call for the next attempt: another call, so that it has a key of its own outside."""
    if run.open is None:
        return None
    number = (run.undo_attempts if run.undo else run.attempts) + 1
    call_id = f"{run.open.call.id.partition('-try-')[0]}-try-{number}"
    return OpenCall(call=run.open.call.model_copy(update={"id": call_id}), status="again")


def _of_call(state: PipelineState, entry: OfCall) -> PipelineState:
    """Let an entry about a call change it as it would an agent's."""
    for key, run in state.runs.items():
        if run.open is not None and run.open.call.id == getattr(entry, "call_id", ""):
            alone = RunState(open_calls=(run.open,))
            folded: Callable[[RunState], RunState] = lambda before: _folded(before, entry)  # noqa: E731 - used at once
            after = changed(state, key, open=folded(alone).open_calls[0])
            asks = isinstance(entry, ApprovalRequested) and run.open.call.name == GATE
            return after.model_copy(update={"approved": False}) if asks else after
    return state


def _folded(alone: RunState, entry: OfCall) -> RunState:
    if isinstance(entry, Unsettled | Settled):
        return settlement.folded(alone, entry)
    return deciding.folded(alone, entry)


def _waiting(state: PipelineState, now: datetime) -> PipelineState:
    """Keep count of the time in which only people were waited for."""
    waits = state.paused is not None or (bool(state.pending or state.below) and not state.at_work)
    if waits and state.waiting_since is None:
        return state.model_copy(update={"waiting_since": now})
    if not waits and state.waiting_since is not None:
        waited = state.waited_seconds + (now - state.waiting_since).total_seconds()
        return state.model_copy(update={"waiting_since": None, "waited_seconds": waited})
    return state


def interrupted(state: PipelineState, now: datetime) -> PipelineState:
    """Return the state after a cancel has stopped all that was under way: whether it took effect is not known."""
    for key, run in state.runs.items():
        undo_stopped = run.undo in {"preparing", "open"}
        if undo_stopped:
            state = changed(state, key, undo="", open=None)
        elif run.status in {"preparing", "open", "retrying"}:
            begun = run.open is not None and run.open.status in UNSEEN
            why = "the run was cancelled" + ("; it may or may not have taken effect" if begun else "")
            state = apply(state, Ended(at=now, step=key, status="cancelled", error=why))
    return state


def heard(state: PipelineState, told: WaitingRun) -> PipelineState:
    """Return the state after the run of an agent has told what it waits for."""
    others = tuple(each for each in state.below if each.run.workflow_id != told.run.workflow_id)
    waits = not told.ended and bool(told.pending or told.paused)
    return state.model_copy(update={"below": (*others, told)[-RUNS_BELOW:] if waits else others})
