"""The state of a pipeline's run: the fold of its entries by `core.pipelines.fold.apply`. Bounded, whatever flows."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from core.content import ArtifactRef, Content
from core.entries import Outcome, Paused
from core.frozen import Frozen, Sparse
from core.journal import Head
from core.pending import WaitingRun
from core.pipelines.entries import Ending, EndStatus, PipelineEntry
from core.state import WAITING, CallStatus, OpenCall, RunState, TakenAct

RUNS = 1000
"""Most runs of steps in one run of a pipeline: items count."""

AGENT = "an agent"
GATE = "a gate"
"""What stands as the tool's name in the calls of such steps: no tool can be called so."""

Phase = Literal[
    "init",
    "processing",
    "awaiting_approval",
    "approved",
    "finalizing",
    "completed",
    "rejected",
    "undoing",
    "cancelled",
    "failed",
    "paused",
]
StepStatus = Literal["preparing", "open", "group", "retrying"] | EndStatus
"""`open`: what it does is in `open`; `group`: its own steps run."""
UndoStatus = Literal["", "preparing", "open", "retrying", "undone", "failed"]
ENDS: frozenset[str] = frozenset({"done", "failed", "skipped", "blocked", "rejected", "cancelled"})
BEFORE_WORK: frozenset[CallStatus] = frozenset({"proposed", "awaiting_approval", "approved", "rejected", "expired"})


class StepState(Sparse):
    """One run of a step."""

    status: StepStatus
    attempts: int = 0
    """How often it has begun."""
    asked_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    order: int = 0
    """When it ended, as a number: what ended last is undone first."""
    open: OpenCall | None = None
    """Its call, or that of its undo, or the gate, while it is not over."""
    given: Content | None = None
    """What its agent is told, until it has ended; the items of a `for_each`, as long as it may be asked for."""
    attachments: tuple[ArtifactRef, ...] = ()
    items: int | None = None
    child: str = ""
    """The run of its agent."""
    output: Content | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    error: str = ""
    by: str = ""
    retry_at: datetime | None = None
    stopping: bool = False
    """Whether its agent was told to stop."""
    undo: UndoStatus = ""
    undo_error: str = ""
    undo_attempts: int = 0
    reused: bool = False
    """Whether another run did it, of which this one is a rerun."""

    @property
    def ended(self) -> bool:
        """Whether it is over, undo aside."""
        return self.status in ENDS

    @property
    def shown(self) -> str:
        """What people read as its status."""
        if self.undo:
            return {"undone": "undone", "failed": "undo failed"}.get(self.undo, "undoing")
        if self.status == "open" and self.open is not None:
            return {"proposed": "ready", "unsettled": "in doubt", "awaiting_settlement": "in doubt"}.get(
                self.open.status, self.open.status
            )
        return "running" if self.status == "group" else self.status


class PipelineState(Frozen):
    """All that the workflow knows of its run. `version` is that of this form."""

    version: Literal[1] = 1
    started_at: datetime | None = None
    updated_at: datetime | None = None
    head: Head | None = None
    tail: tuple[PipelineEntry, ...] = ()
    tail_bytes: int = 0
    below: tuple[WaitingRun, ...] = ()
    """What the agents' runs wait for, as they last told."""
    runs: dict[str, StepState] = Field(default_factory=dict)
    """The runs of steps that have come up, in that order."""
    ended: int = 0
    """How many have ended so far."""
    approved: bool = False
    """Whether the last gate that was decided was approved."""
    ending: Ending | None = None
    finishing: Outcome | None = None
    """Set when all is done but to write the end."""
    paused: Paused | None = None
    outcome: Outcome | None = None
    reason: str = ""
    waiting_since: datetime | None = None
    waited_seconds: float = 0.0
    steps: int = 0
    """Entries so far."""
    recent: tuple[str, ...] = ()
    acts: tuple[TakenAct, ...] = ()

    @property
    def pending(self) -> tuple[OpenCall, ...]:
        """What waits for people."""
        return tuple(run.open for run in self.runs.values() if run.open is not None and run.open.status in WAITING)

    @property
    def at_work(self) -> tuple[str, ...]:
        """The runs of steps of which something goes on that needs nobody."""
        waiting = {each.run.workflow_id for each in self.below}
        return tuple(key for key, run in self.runs.items() if _works(run) and run.child not in waiting)

    @property
    def undo_failed(self) -> tuple[str, ...]:
        """The runs of steps that could not be taken back."""
        return tuple(key for key, run in self.runs.items() if run.undo == "failed")

    @property
    def phase(self) -> Phase:
        """What the run is doing."""
        if self.outcome is not None:
            return self.outcome
        if self.paused is not None:
            return "paused"
        if self.started_at is None:
            return "init"
        if self.finishing is not None:
            return "finalizing"
        if (self.pending or self.below) and not self.at_work:
            return "awaiting_approval"
        if self.ending is not None:
            return "rejected" if self.ending.rejected else "undoing"
        return "approved" if self.approved else "processing"


def _works(run: StepState) -> bool:
    status = run.undo or run.status
    if status in {"preparing", "retrying"}:
        return True
    return status == "open" and run.open is not None and run.open.status not in WAITING


def for_people(state: PipelineState) -> RunState:
    """Return the state as people's acts see it: what waits for them are calls, as those of an agent."""
    return RunState(
        started_at=state.started_at,
        open_calls=tuple(run.open for run in state.runs.values() if run.open is not None),
        below=state.below,
        paused=state.paused,
        outcome=state.outcome,
        reason=state.reason,
        steps=state.steps,
        acts=state.acts,
    )
