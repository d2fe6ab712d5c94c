"""The state of a run: the fold of its entries by `core.fold.apply`.

All of it is bounded, whatever the conversation grows to: the conversation is in the journal, the state holds the head.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from core.chat import StopReason, Usage
from core.content import ArtifactRef, Content, inline, one_line
from core.entries import (
    Answered,
    ApprovalRequested,
    Decided,
    Delegated,
    Edited,
    Entry,
    Forwarded,
    Messaged,
    Outcome,
    Paused,
    Raised,
    Refused,
    Resumed,
    Revoked,
    Settled,
    ToolFinished,
    Unsettled,
)
from core.frozen import Frozen, Sparse
from core.journal import Head
from core.patterns import Scalar
from core.pending import WaitingRun
from core.tools import Call

RECENT_LINES = 20
ARTIFACTS_KEPT = 50
ACTS_KEPT = 10
TAIL_HARD_BYTES = 128 * 1024
"""A tail this long is written before anything else: a turn of many calls with inline results, a flood of acts."""
TOKEN_BYTES = 4

Phase = Literal["opening", "thinking", "acting", "awaiting_approval", "paused", "completed", "failed", "cancelled"]
CallStatus = Literal[
    "proposed",
    "awaiting_approval",
    "edited",
    "checking",
    "approved",
    "rejected",
    "awaiting_answer",
    "answered",
    "expired",
    "running",
    "unsettled",
    "verifying",
    "awaiting_settlement",
    "settled",
    "again",
    "finished",
]
WAITING: frozenset[CallStatus] = frozenset({"awaiting_approval", "awaiting_answer", "awaiting_settlement"})
UNSEEN: frozenset[CallStatus] = frozenset({"running", "unsettled", "verifying", "awaiting_settlement"})
"""In these a call has begun, and its end was not seen."""
UNDER_WAY: frozenset[CallStatus] = frozenset({"running", "verifying"})
ALLOWANCES_KEPT = 20


OfCall = Decided | Edited | Revoked | Forwarded | Answered | Settled
TakenEntry = OfCall | Messaged | Paused | Resumed | Raised | Refused


class TakenAct(Frozen):
    """What became of a person's act, and at which step."""

    step: int
    entry: TakenEntry = Field(discriminator="kind")
    """A message only as its beginning."""


class OpenCall(Sparse):
    """A call of the current turn."""

    call: Call
    status: CallStatus = "proposed"
    asked_at: datetime | None = None
    request: ApprovalRequested | None = None
    answer: Answered | None = None
    edit: Edited | None = None
    """With which other arguments a person approved it, until they are checked."""
    decisions: tuple[Decided, ...] = ()
    """What people have said to the request so far."""
    spent: tuple[str, ...] = ()
    """Signatures that have counted: also when what they said was taken back, they do not count again."""
    runs: int = 0
    """How often it was dispatched: more than once only when it was settled that it had not taken effect."""
    unsettled: Unsettled | None = None
    settled: Settled | None = None
    child: Delegated | None = None
    """The sub-agent that it has started."""
    result: ToolFinished | None = None
    recorded: bool = False
    """Whether the result is in the tail; then it is kept here without its content."""


class Allowance(Frozen):
    """Calls of a tool that need nobody for the rest of the run: those whose arguments fit the pattern."""

    tool: str
    only: dict[str, Scalar]


class Seen(Frozen):
    """A call with its result, as SHA-256 of tool, canonical arguments and result; how often, and if that was told."""

    tool: str
    digest: str
    count: int = 1
    told: bool = False


class FailedModel(Frozen):
    """A model that failed for good, and why."""

    model: str
    why: str


class RunState(Frozen):
    """All that the workflow knows of its run. `version` is that of this form; old ones are migrated when carried on."""

    version: Literal[1] = 1
    started_at: datetime | None = None
    updated_at: datetime | None = None
    head: Head | None = None
    tail: tuple[Entry, ...] = ()
    tail_bytes: int = 0
    """The size of the tail in a payload."""
    turn: int = 0
    open_calls: tuple[OpenCall, ...] = ()
    said: Content | None = None
    """The last reply's text, as long as it may be the answer."""
    stop_reason: StopReason | None = None
    output: Content | None = Field(default=None, exclude_if=lambda value: value is None)
    """The same as JSON, where the agent has a schema for it."""
    misfit: str = Field(default="", exclude_if=lambda value: not value)
    """Why the last reply is no answer that fits it."""
    mistakes: int = 0
    """Mistakes of the model in a row: empty replies, unknown tools, malformed arguments."""
    allowed: tuple[str, ...] = ()
    """Tools that a person allowed for the rest of the run."""
    allowances: tuple[Allowance, ...] = ()
    """Tools that were allowed so only for some arguments."""
    below: tuple[WaitingRun, ...] = ()
    """What the runs below this one wait for, as they last told."""
    tainted: bool = False
    """Whether the model has read what strangers wrote."""
    failures: dict[str, int] = Field(default_factory=dict)
    """Failures in a row, by tool; one good result ends the row."""
    seen: tuple[Seen, ...] = ()
    """The newest calls with their results, to tell when the model goes round in circles."""
    grants: int = 0
    """How often a person granted the limits again."""
    raised: Raised | None = None
    """By how much the limits were raised, in all."""
    paused: Paused | None = None
    waiting_since: datetime | None = None
    waited_seconds: float = 0.0
    model: str = Field(default="", exclude_if=lambda value: not value)
    """The model that is asked, when it is not the one that the run began with."""
    failed_models: tuple[FailedModel, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Those that failed since the last reply, in their order."""
    usage: Usage = Usage()
    context_tokens: int = 0
    """The size of the next prompt, estimated: the last one, and what came since."""
    compactions: int = 0
    """Compactions since the last reply: more than one in a row did not help."""
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
        """The calls that wait for a person: to be approved, or to be settled."""
        return tuple(entry for entry in self.open_calls if entry.status in WAITING)

    @property
    def running(self) -> tuple[OpenCall, ...]:
        """The calls that run."""
        return tuple(entry for entry in self.open_calls if entry.status in UNDER_WAY)

    @property
    def phase(self) -> Phase:
        """What the run is doing; `awaiting_approval` as soon as nothing else goes on."""
        if self.paused is not None:
            return "paused"
        if self.outcome is not None:
            return self.outcome
        if self.started_at is None:
            return "opening"
        waiting = {run.run.workflow_id for run in self.below}
        busy = [entry for entry in self.running if entry.child is None or entry.child.to not in waiting]
        if (self.pending or len(busy) < len(self.running)) and not busy:
            return "awaiting_approval"
        return "acting" if self.open_calls else "thinking"


def kept_act(entry: Entry) -> TakenEntry | None:
    """Return what the state keeps of a person's act; None for any other entry."""
    match entry:
        case Forwarded():
            return entry.model_copy(update={"said": inline("")})
        case Decided() | Revoked() | Settled() | Resumed() | Raised() | Refused():
            return entry
        case Messaged() | Answered():
            return entry.model_copy(update={"text": inline(one_line(entry.text.shown(), 100))})
        case Edited():
            return entry.model_copy(update={"arguments": inline(one_line(entry.arguments.shown(), 100))})
        case Paused(cause="person"):
            return entry
        case _:
            return None
