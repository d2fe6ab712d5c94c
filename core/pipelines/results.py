"""What a run of a pipeline has come to, as its caller gets it."""

from datetime import datetime

from core.pipelines.plan import Plan
from core.pipelines.runs import PipelineResult, PipelineSpec, StepResult
from core.pipelines.state import PipelineState, StepState

STEPS_SHOWN = 300
TEXTS_BYTES = 256 * 1024
"""So much of what steps gave stands in the result; all of it is in the record."""


def result_of(spec: PipelineSpec, plan: Plan, state: PipelineState, now: datetime) -> PipelineResult:
    """Return the result of a run that ends now in this state."""
    left = TEXTS_BYTES
    found: dict[str, StepResult] = {}
    for key, run in list(state.runs.items())[:STEPS_SHOWN]:
        result = _result(run)
        left -= len(result.model_dump_json())
        found[key] = result if left >= 0 else StepResult(status=result.status)
    last = state.runs.get(plan.members[""][-1])
    return PipelineResult(
        pipeline=spec.pipeline.name,
        outcome=state.outcome or "failed",
        reason=state.reason,
        output=last.output if last is not None else None,
        steps=found,
        undo_failed=state.undo_failed,
        seconds=(now - (state.started_at or now)).total_seconds(),
        waited_seconds=state.waited_seconds,
        scope=spec.run.scope,
    )


def _result(run: StepState) -> StepResult:
    return StepResult(
        status=run.shown,
        output=run.output,
        artifacts=run.artifacts,
        error=run.error,
        by=run.by,
        undo_error=run.undo_error,
        attempts=run.attempts,
    )
