"""How the workflow calls the model: how often again (see `core.retries`), and what becomes of the run."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.compaction import CompactionActivities
    from activities.model import ModelActivities
    from core import fold
    from core.content import one_line
    from core.failures import STORE_KINDS, Failure
    from core.retries import AGAIN, pause_seconds
    from core.runs import AskInput, CompactInput, RunSpec
    from core.steps import Finish
    from core.switching import model_of, switched, why_paused, why_stopped
    from workflows.failures import failure_of
    from workflows.held import HeldState
    from workflows.policies import MODEL_RETRY, MODEL_TIMEOUT

BUDGETS = "budgets-of-model-calls"
"""A patch: runs of before 0.2.0 left all retries to Temporal."""

Input = TypeVar("Input")
Output = TypeVar("Output")


async def ask(held: HeldState, spec: RunSpec, turn: int) -> Finish | None:
    """Ask the model, and take in its reply.

    What goes wrong for good lets the run go on with the agent's next model, or pauses it, or ends it (`on_failure`).
    """
    tail = held.state.tail
    asking = AskInput(run=spec.run, head=held.head, tail=tail, turn=turn)
    summary = f"turn {turn}: ask {one_line(model_of(spec, held.state), 80)}"
    asked = await _think(ModelActivities.ask_model, asking, spec.heartbeat_timeout, summary)
    if not isinstance(asked, Failure):
        held.become(fold.added(held.state, asked.reply, asked.head, len(tail)))
    elif asked.kind == "ContextTooLong" and spec.context.policy == "compact":
        held.become(fold.overflowed(held.state, spec.context.window_tokens))
    elif (switch := switched(spec, held.state, asked, workflow.now())) is not None:
        held.apply(switch)
    elif spec.on_failure == "fail" and asked.kind not in STORE_KINDS:
        return Finish(outcome="failed", reason=why_stopped(spec, held.state, asked))
    else:
        held.pause(asked.model_copy(update={"text": why_paused(spec, held.state, asked)}))
    return None


async def compact(held: HeldState, spec: RunSpec, *, drop: bool) -> None:
    """Make room in the conversation; the summary is a model call."""
    state = held.state
    request = CompactInput(run=spec.run, head=held.head, tail=state.tail, turn=state.turn, drop=drop)
    summary = "drop the oldest exchanges" if drop else f"sum up with {one_line(model_of(spec, state), 80)}"
    compacted = await _think(CompactionActivities.compact, request, spec.heartbeat_timeout, summary)
    if isinstance(compacted, Failure):
        held.pause(compacted.model_copy(update={"text": why_paused(spec, held.state, compacted)}))
    else:
        held.become(fold.added(held.state, compacted.entry, compacted.head, len(state.tail)))


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
