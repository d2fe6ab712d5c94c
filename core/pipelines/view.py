"""A run of a pipeline as people see it: the answer to the query `state`."""

from datetime import datetime

from core.chat import Usage
from core.content import ArtifactRef, one_line
from core.entries import Outcome, RunRef
from core.frozen import Frozen, Sparse
from core.journal import Head
from core.pending import PendingCall
from core.pipelines.graph import about
from core.pipelines.plan import Plan
from core.pipelines.runs import PipelineSpec
from core.pipelines.state import Phase, PipelineState, for_people
from core.state import TakenAct
from core.view import StateView, approved_calls
from core.waiting import pending_below, pending_call


class StepView(Sparse):
    """A step, or one run of it for an item."""

    key: str
    about: str = ""
    status: str = "waiting"
    attempts: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    items: int | None = None
    error: str = ""
    undo_error: str = ""
    by: str = ""
    child: str = ""
    """The run of its agent."""
    output: str = ""
    """Its beginning."""
    artifacts: tuple[ArtifactRef, ...] = ()
    reused: bool = False


class PipelineView(Frozen):
    """Answer to query `state`: all but what the steps were given and gave, which is in the record."""

    pipeline: str
    run: RunRef | None = None
    by: str = ""
    phase: Phase
    steps: tuple[StepView, ...]
    pending: tuple[PendingCall, ...]
    approved: tuple[PendingCall, ...] = ()
    paused: str = ""
    entries: int
    """So far; two views compare by it."""
    recent: tuple[str, ...]
    acts: tuple[TakenAct, ...]
    started_at: datetime | None
    waited_seconds: float
    undo_failed: tuple[str, ...] = ()
    head: Head | None
    outcome: Outcome | None = None
    reason: str = ""

    def as_run(self) -> StateView:
        """Return it as that of an agent's run, as far as acts of people go."""
        phases = {"awaiting_approval", "paused", "completed", "failed", "cancelled"}
        return StateView.model_validate(
            {
                "agent": self.pipeline,
                "model": "",
                "run": self.run,
                "phase": self.phase if self.phase in phases else "acting",
                "turn": 0,
                "pending": self.pending,
                "approved": self.approved,
                "running": (),
                "paused": self.paused,
                "usage": Usage(),
                "calls": {},
                "artifacts": (),
                "steps": self.entries,
                "recent": self.recent,
                "acts": self.acts,
                "started_at": self.started_at,
                "waited_seconds": self.waited_seconds,
                "head": self.head,
                "outcome": self.outcome,
                "reason": self.reason,
            }
        )


def pipeline_view(spec: PipelineSpec | None, state: PipelineState) -> PipelineView:
    """Return the state for people; `spec` is None until the run has opened."""
    return PipelineView(
        pipeline=spec.pipeline.name if spec else "",
        run=spec.run if spec else None,
        by=spec.by if spec else "",
        phase=state.phase,
        steps=tuple(_steps(Plan(spec.pipeline), state)) if spec else (),
        pending=(*map(pending_call, state.pending), *pending_below(for_people(state))),
        approved=tuple(pending_call(each) for each in approved_calls(for_people(state))),
        paused=state.paused.why if state.paused else "",
        entries=state.steps,
        recent=state.recent,
        acts=state.acts,
        started_at=state.started_at,
        waited_seconds=state.waited_seconds,
        undo_failed=state.undo_failed,
        head=state.head,
        outcome=state.outcome,
        reason=state.reason,
    )


def _steps(plan: Plan, state: PipelineState) -> list[StepView]:
    """Return the steps in the order of the file, the items of each below it."""
    found: list[StepView] = []
    for name, place in plan.places.items():
        keys = [key for key in state.runs if key.partition(".")[0] == name]
        found += [_step(key, about(place.step), state) for key in keys]
        if not keys:
            found.append(StepView(key=name, about=about(place.step)))
    return found


def _step(key: str, said: str, state: PipelineState) -> StepView:
    run = state.runs[key]
    return StepView(
        key=key,
        about=said,
        status=run.shown,
        attempts=run.attempts,
        started_at=run.started_at,
        ended_at=run.ended_at,
        items=run.items,
        error=run.error,
        undo_error=run.undo_error,
        by=run.by,
        child=run.child,
        output=one_line(run.output.shown(), 160) if run.output else "",
        artifacts=run.artifacts,
        reused=run.reused,
    )
