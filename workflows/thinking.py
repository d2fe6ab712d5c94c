"""How the workflow calls the model: which activity, and how often again (see `core.retries`)."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.compaction import CompactionActivities
    from activities.model import ModelActivities
    from core.content import one_line
    from core.failures import Failure
    from core.retries import AGAIN, pause_seconds
    from core.runs import Asked, AskInput, CompactedResult, CompactInput, RunSpec
    from workflows.failures import failure_of
    from workflows.policies import MODEL_RETRY, MODEL_TIMEOUT

BUDGETS = "budgets-of-model-calls"
"""A patch: runs of before 0.2.0 left all retries to Temporal."""

Input = TypeVar("Input")
Output = TypeVar("Output")


async def ask_model(spec: RunSpec, ask: AskInput) -> Asked | Failure:
    """Call the model."""
    summary = f"turn {ask.turn}: ask {one_line(spec.model, 80)}"
    return await _think(ModelActivities.ask_model, ask, spec.heartbeat_timeout, summary)


async def compact(spec: RunSpec, request: CompactInput) -> CompactedResult | Failure:
    """Make room in the conversation; the summary is a model call."""
    summary = "drop the oldest exchanges" if request.drop else f"sum up with {one_line(spec.model, 80)}"
    return await _think(CompactionActivities.compact, request, spec.heartbeat_timeout, summary)


async def _think(
    activity: Callable[[Any, Input], Awaitable[Output]], argument: Input, heartbeat: timedelta, summary: str
) -> Output | Failure:
    """Run an activity that calls the model, again as long as the budget of what went wrong allows."""
    failures: Counter[str] = Counter()
    while True:
        try:
            return await workflow.execute_activity_method(
                activity,
                argument,
                start_to_close_timeout=MODEL_TIMEOUT,
                heartbeat_timeout=heartbeat,
                retry_policy=MODEL_RETRY,
                summary=summary,
            )
        except (ActivityError, ApplicationError) as error:
            failure = failure_of(error)
        failures[failure.kind] += 1
        if failures[failure.kind] > AGAIN.get(failure.kind, 0) or not workflow.patched(BUDGETS):
            return failure
        if seconds := pause_seconds(failure.kind, failures[failure.kind]):
            await workflow.sleep(timedelta(seconds=seconds), summary="the blob store is down: again")
