"""What a run has come to, as its caller gets it."""

from datetime import datetime

from core.content import inline
from core.entries import Outcome
from core.runs import RunResult, RunSpec
from core.state import RunState
from core.switching import model_of


def result_of(spec: RunSpec, state: RunState, outcome: Outcome, reason: str, now: datetime) -> RunResult:
    """Return the result of a run that ends now in this state."""
    return RunResult(
        outcome=outcome,
        text=state.said if state.said is not None else inline(""),
        output=state.output if outcome == "completed" else None,
        reason=reason,
        artifacts=state.artifacts,
        turns=state.turn,
        calls=state.calls,
        usage=state.usage,
        model=model_of(spec, state),
        seconds=(now - (state.started_at or now)).total_seconds(),
        waited_seconds=state.waited_seconds,
        scope=spec.run.scope,
        tainted=state.tainted,
    )
