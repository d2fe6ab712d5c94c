"""How the workflow runs its activities: which, with what options, and how their failures are read."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

    from activities.compaction import CompactionActivities
    from activities.journal import JournalActivities
    from activities.model import ModelActivities
    from core.content import one_line
    from core.entries import ToolFinished
    from core.failures import TIMED_OUT, Failure, failed_result
    from core.lines import arguments_line
    from core.runs import (
        AgentInput,
        Asked,
        AskInput,
        CloseInput,
        CommitInput,
        Committed,
        CompactedResult,
        CompactInput,
        Continued,
        Opened,
        OpenInput,
        RunResult,
        RunSpec,
        ToolInput,
    )
    from core.tools import Call, ToolOutcome
    from workflows.policies import JOURNAL_RETRY, JOURNAL_TIMEOUT, MODEL_RETRY, MODEL_TIMEOUT, tool_retry


def _kind(value: object) -> str:
    """Tell a continued run from a start; a start need not say so."""
    return str(value.get("kind", "start")) if isinstance(value, dict) else "start"


NOTHING = RawValue(Payload())
"""Stands for an argument that was not sent."""

RUN_INPUT: TypeAdapter[AgentInput | Continued] = TypeAdapter(
    Annotated[Annotated[AgentInput, Tag("start")] | Annotated[Continued, Tag("continued")], Discriminator(_kind)]
)

Handler = TypeVar("Handler", bound=Callable[..., None])


def total(handler: Handler) -> Handler:
    """Make a signal handler take whatever is sent: no argument, several, or one that is no raw value.

    Temporal would call it with as many arguments as came, and a handler that raises hangs the run.
    """

    @wraps(handler)
    def tolerant(self: object, *sent: object) -> None:
        only = sent[0] if len(sent) == 1 and isinstance(sent[0], RawValue) else None
        handler(self, only if only is not None else NOTHING if not sent else RawValue(Payload(data=b"several values")))

    return tolerant  # type: ignore[return-value]  # the same signature, by __wrapped__, which Temporal reads


def read_input(raw: RawValue) -> AgentInput | Continued | ApplicationError:
    """Read what the workflow was started with, or return the error that fails the run: it must not hang on it."""
    try:
        return RUN_INPUT.validate_json(raw.payload.data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()[:5])
        message = f"the start input is no AgentInput ({problems}); start runs with starter.py start"
        return ApplicationError(message, type="InputError", non_retryable=True)


async def open_run(opening: OpenInput) -> Opened | Failure:
    """Open the run; only wrong input is raised, everything else is for a person to mend."""
    try:
        return await workflow.execute_activity_method(
            JournalActivities.open_run,
            opening,
            start_to_close_timeout=JOURNAL_TIMEOUT,
            heartbeat_timeout=opening.start.heartbeat_timeout,
            retry_policy=JOURNAL_RETRY,
            summary=f"open a run of {opening.start.agent.name}",
        )
    except (ActivityError, ApplicationError) as error:
        failure = _failure(error)
        if not failure.mendable:
            raise ApplicationError(failure.text, type=failure.kind, non_retryable=True) from None
        return failure


async def ask_model(spec: RunSpec, ask: AskInput) -> Asked | Failure:
    """Call the model."""
    try:
        return await workflow.execute_activity_method(
            ModelActivities.ask_model,
            ask,
            start_to_close_timeout=MODEL_TIMEOUT,
            heartbeat_timeout=spec.heartbeat_timeout,
            retry_policy=MODEL_RETRY,
            summary=f"turn {ask.turn}: ask {one_line(spec.model, 80)}",
        )
    except (ActivityError, ApplicationError) as error:
        return _failure(error)


async def run_call(spec: RunSpec, call: Call, turn: int) -> ToolFinished | Failure:
    """Run a tool; a failure that is the store's is for a person to mend, any other is a result for the model."""
    policy = spec.tool(call.name)
    if policy is None:
        raise RuntimeError(f"call {call.id} of unknown tool {call.name} was dispatched")
    try:
        outcome: ToolOutcome = await workflow.execute_activity(
            call.name,
            ToolInput(run=spec.run, opening=spec.opening, call=call, turn=turn),
            result_type=ToolOutcome,
            activity_id=call.id,
            start_to_close_timeout=policy.timeout,
            heartbeat_timeout=spec.heartbeat_timeout,
            retry_policy=tool_retry(policy),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=arguments_line(call),
        )
    except (ActivityError, ApplicationError) as error:
        failure = _failure(error)
        if failure.of_store:
            return failure
        outcome = ToolOutcome(content=failed_result(policy, failure), failed=True)
    return ToolFinished(
        at=workflow.now(),
        turn=turn,
        call_id=call.id,
        tool=call.name,
        content=outcome.content,
        failed=outcome.failed,
        artifacts=outcome.artifacts,
        attempts=outcome.attempt,
        seconds=outcome.seconds,
    )


async def commit(spec: RunSpec, write: CommitInput) -> Committed | Failure:
    """Write the tail to the journal."""
    try:
        return await workflow.execute_activity_method(
            JournalActivities.commit,
            write,
            start_to_close_timeout=JOURNAL_TIMEOUT,
            heartbeat_timeout=spec.heartbeat_timeout,
            retry_policy=JOURNAL_RETRY,
            summary=f"write {len(write.tail)} entries to the journal",
        )
    except (ActivityError, ApplicationError) as error:
        return _failure(error)


async def compact(spec: RunSpec, request: CompactInput) -> CompactedResult | Failure:
    """Make room in the conversation; the summary is a model call."""
    try:
        return await workflow.execute_activity_method(
            CompactionActivities.compact,
            request,
            start_to_close_timeout=MODEL_TIMEOUT,
            heartbeat_timeout=spec.heartbeat_timeout,
            retry_policy=MODEL_RETRY,
            summary="drop the oldest exchanges" if request.drop else f"sum up the conversation with {spec.model}"[:160],
        )
    except (ActivityError, ApplicationError) as error:
        return _failure(error)


async def close_run(spec: RunSpec, closing: CloseInput) -> RunResult | Failure:
    """Write the journal's end and the manifest."""
    try:
        return await workflow.execute_activity_method(
            JournalActivities.close_run,
            closing,
            start_to_close_timeout=JOURNAL_TIMEOUT,
            heartbeat_timeout=spec.heartbeat_timeout,
            retry_policy=JOURNAL_RETRY,
            summary=f"close the run: {closing.result.outcome}",
        )
    except (ActivityError, ApplicationError) as error:
        return _failure(error)


def _failure(error: ActivityError | ApplicationError) -> Failure:
    """Read what went wrong, in the activity or when its input was to be sent. A cancel is none, it is raised."""
    if is_cancelled_exception(error):
        raise error
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return Failure(kind=cause.type or "Error", text=cause.message)
    if isinstance(cause, ActivityTimeout):
        return Failure(kind=TIMED_OUT, text=str(cause))
    return Failure(kind=type(cause).__name__, text=str(cause or error))
