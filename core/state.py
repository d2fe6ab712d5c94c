"""The state of a run, as the fold of its entries: `apply(state, entry) -> state`.

All of it is bounded, whatever the conversation grows to: the conversation is in the journal, the state holds the head.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from core.chat import StopReason, Usage
from core.content import ArtifactRef, Content, inline
from core.entries import (
    ApprovalRequested,
    Closed,
    Decided,
    Entry,
    Outcome,
    Paused,
    Refused,
    Replied,
    Resumed,
    Started,
    Told,
    ToolFinished,
    size_bytes,
)
from core.frozen import Frozen
from core.journal import Head
from core.lines import line
from core.tools import Call

RECENT_LINES = 20
ARTIFACTS_KEPT = 50
ACTS_KEPT = 10

Phase = Literal["opening", "thinking", "acting", "awaiting_approval", "paused", "completed", "failed", "cancelled"]
CallStatus = Literal["proposed", "awaiting_approval", "approved", "rejected", "running", "finished"]


class TakenAct(Frozen):
    """What became of a person's act, and at which step."""

    step: int
    entry: Decided | Resumed | Refused = Field(discriminator="kind")


class OpenCall(Frozen):
    """A call of the current turn."""

    call: Call
    status: CallStatus = "proposed"
    asked_at: datetime | None = None
    decision: Decided | None = None
    result: ToolFinished | None = None


class RunState(Frozen):
    """All that the workflow knows of its run. `version` is that of this form; old ones are migrated when carried on."""

    version: Literal[1] = 1
    started_at: datetime | None = None
    updated_at: datetime | None = None
    head: Head | None = None
    tail: tuple[Entry, ...] = ()
    turn: int = 0
    open_calls: tuple[OpenCall, ...] = ()
    recorded: int = 0
    """How many of the open calls, from the first on, have their result in the tail: results are kept in call order."""
    said: Content | None = None
    """The last reply's text, as long as it may be the answer."""
    stop_reason: StopReason | None = None
    mistakes: int = 0
    """Mistakes of the model in a row: empty replies, unknown tools, malformed arguments."""
    grants: int = 0
    """How often a person granted the limits again."""
    paused: Paused | None = None
    waiting_since: datetime | None = None
    waited_seconds: float = 0.0
    usage: Usage = Usage()
    calls: dict[str, int] = Field(default_factory=dict)
    artifacts: tuple[ArtifactRef, ...] = ()
    steps: int = 0
    """Entries so far: the last `recent` line is that of this step."""
    recent: tuple[str, ...] = ()
    acts: tuple[TakenAct, ...] = ()
    """What became of the newest acts of people."""
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def pending(self) -> tuple[OpenCall, ...]:
        """The calls that wait for a person."""
        return tuple(entry for entry in self.open_calls if entry.status == "awaiting_approval")

    @property
    def running(self) -> tuple[OpenCall, ...]:
        """The calls that run."""
        return tuple(entry for entry in self.open_calls if entry.status == "running")

    @property
    def tail_bytes(self) -> int:
        """The size of the tail in a payload."""
        return sum(size_bytes(entry) for entry in self.tail)

    @property
    def phase(self) -> Phase:
        """What the run is doing; `awaiting_approval` as soon as nothing else goes on."""
        if self.outcome is not None:
            return self.outcome
        if self.paused is not None:
            return "paused"
        if self.started_at is None:
            return "opening"
        if self.pending and not self.running:
            return "awaiting_approval"
        return "acting" if self.open_calls else "thinking"


def apply(state: RunState, entry: Entry) -> RunState:
    """Return the state after an entry. Pure; the entry also joins the tail, results in the order of their calls."""
    after = _fold(state, entry)
    changes: dict[str, object] = {
        "updated_at": entry.at,
        "steps": after.steps + 1,
        "recent": (*after.recent, line(entry))[-RECENT_LINES:],
    }
    if not isinstance(entry, ToolFinished):
        changes["tail"] = (*after.tail, entry)
    if isinstance(entry, Decided | Resumed | Refused):
        changes["acts"] = (*after.acts, TakenAct(step=after.steps + 1, entry=entry))[-ACTS_KEPT:]
    return _waiting(after.model_copy(update=changes), entry.at)


def opened(state: RunState, head: Head, at: datetime) -> RunState:
    """Return the state after the run has opened: its first entry is in the journal already."""
    return state.model_copy(update={"head": head, "started_at": at, "updated_at": at})


def committed(state: RunState, head: Head, count: int) -> RunState:
    """Return the state after the first `count` entries of the tail were written; later ones stay."""
    return state.model_copy(update={"head": head, "tail": state.tail[count:]})


def replied(state: RunState, reply: Replied, head: Head | None, sent: int) -> RunState:
    """Return the state after a model call that was sent `sent` entries of the tail.

    When it committed (`head`), these and the reply are in the journal; what came in meanwhile stays in the tail.
    """
    after = apply(state, reply)
    return after if head is None else after.model_copy(update={"head": head, "tail": after.tail[sent:-1]})


def started(state: RunState, call_ids: Iterable[str]) -> RunState:
    """Return the state in which these calls run."""
    ids = set(call_ids)
    calls = tuple(_set(entry, status="running") if entry.call.id in ids else entry for entry in state.open_calls)
    counts = Counter(state.calls) + Counter(entry.call.name for entry in calls if entry.call.id in ids)
    return state.model_copy(update={"open_calls": calls, "calls": dict(counts)})


def put_back(state: RunState, call_id: str) -> RunState:
    """Return the state in which a call that could not even start is as before it was started."""
    return _change(state, call_id, status="approved")


def interrupted(state: RunState, now: datetime) -> RunState:
    """Return the state in which no call is open: those that have not ended get a result that says so."""
    for open_call in state.open_calls:
        if open_call.result is None:
            call = open_call.call
            why = "Interrupted: the run was cancelled. The call may or may not have taken effect."
            if open_call.status != "running":
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
        case Replied():
            return _replied(state, entry)
        case ToolFinished():
            return _finished(state, entry)
        case ApprovalRequested():
            return _change(state, entry.call_id, status="awaiting_approval", asked_at=entry.at)
        case Decided():
            return _change(state, entry.call_id, status="approved" if entry.approved else "rejected", decision=entry)
        case Told():
            return state.model_copy(update={"said": None, "stop_reason": None, "mistakes": state.mistakes + 1})
        case Paused():
            return state.model_copy(update={"paused": entry})
        case Resumed():
            return _resumed(state)
        case Closed():
            return state.model_copy(update={"outcome": entry.outcome, "reason": entry.reason})
        case Refused():
            return state


def _replied(state: RunState, entry: Replied) -> RunState:
    return state.model_copy(
        update={
            "turn": entry.turn,
            "open_calls": tuple(OpenCall(call=call) for call in entry.calls),
            "recorded": 0,
            "said": entry.text,
            "stop_reason": entry.stop_reason,
            "usage": state.usage + entry.usage,
        }
    )


def _finished(state: RunState, entry: ToolFinished) -> RunState:
    state = _change(state, entry.call_id, status="finished", result=entry)
    tail, recorded = list(state.tail), state.recorded
    while recorded < len(state.open_calls) and (result := state.open_calls[recorded].result) is not None:
        tail.append(result)
        recorded += 1
    done = recorded == len(state.open_calls)
    return state.model_copy(
        update={
            "tail": tuple(tail),
            "recorded": 0 if done else recorded,
            "open_calls": () if done else state.open_calls,
            "said": None if done else state.said,
            "mistakes": _mistakes(state) if done else state.mistakes,
            "artifacts": (*state.artifacts, *entry.artifacts)[-ARTIFACTS_KEPT:],
        }
    )


def _mistakes(state: RunState) -> int:
    """Count a turn of which nothing could be run as one more mistake; one good result ends the row."""
    results = [(entry, entry.result) for entry in state.open_calls if entry.result is not None]
    if any(not result.failed for _, result in results):
        return 0
    ran_or_rejected = any(result.attempts or entry.decision for entry, result in results)
    return state.mistakes if ran_or_rejected else state.mistakes + 1


def _resumed(state: RunState) -> RunState:
    granted = state.paused is not None and state.paused.cause == "limit"
    changes: dict[str, object] = {"paused": None, "mistakes": 0, "grants": state.grants + (1 if granted else 0)}
    if not granted:
        changes |= {"said": None, "stop_reason": None}
    return state.model_copy(update=changes)


def _change(state: RunState, call_id: str, **changes: object) -> RunState:
    calls = tuple(_set(entry, **changes) if entry.call.id == call_id else entry for entry in state.open_calls)
    return state.model_copy(update={"open_calls": calls})


def _set(entry: OpenCall, **changes: object) -> OpenCall:
    return entry.model_copy(update=changes)


def _waiting(state: RunState, now: datetime) -> RunState:
    """Keep count of the time in which a person was waited for."""
    waits = state.paused is not None or bool(state.pending)
    if waits and state.waiting_since is None:
        return state.model_copy(update={"waiting_since": now})
    if not waits and state.waiting_since is not None:
        waited = state.waited_seconds + (now - state.waiting_since).total_seconds()
        return state.model_copy(update={"waiting_since": None, "waited_seconds": waited})
    return state
