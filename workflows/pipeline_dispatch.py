"""How the workflow `Pipeline` runs its activities, and how what it was started with is read."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

    from activities.pipelines import PipelineActivities
    from core.content import one_line
    from core.failures import Failure
    from core.pipelines.runs import (
        ClosePipelineInput,
        ContinuedPipeline,
        OpenedPipeline,
        OpenPipelineInput,
        PipelineInput,
        PipelineResult,
        Recorded,
        RecordInput,
        Selected,
        SelectInput,
    )
    from workflows.dispatch import INPUT_BYTES
    from workflows.failures import failure_of
    from workflows.policies import JOURNAL_RETRY, JOURNAL_TIMEOUT

Input = TypeVar("Input")
Output = TypeVar("Output")


def _kind(value: object) -> str:
    return str(value.get("kind", "start")) if isinstance(value, dict) else "start"


START: TypeAdapter[PipelineInput | ContinuedPipeline] = TypeAdapter(
    Annotated[
        Annotated[PipelineInput, Tag("start")] | Annotated[ContinuedPipeline, Tag("continued")], Discriminator(_kind)
    ]
)


def read_start(raw: RawValue) -> PipelineInput | ContinuedPipeline | ApplicationError:
    """Read what the workflow was started with, or return the error that fails the run."""
    data = raw.payload.data
    if len(data) > INPUT_BYTES and b'"continued"' not in data[:INPUT_BYTES]:
        return _wrong(f"{len(data)} bytes, at most {INPUT_BYTES}; give long inputs as artifacts")
    try:
        return START.validate_json(data)
    except ValidationError as error:
        return _wrong("; ".join(f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()[:5]))


def _wrong(why: str) -> ApplicationError:
    said = f"the start input is no PipelineInput ({one_line(why, 1000)}); start it with starter.py pipeline start"
    return ApplicationError(said, type="InputError", non_retryable=True)


async def open_pipeline(opening: OpenPipelineInput) -> OpenedPipeline | Failure:
    """Open the run; only wrong input is raised, everything else is for a person to mend."""
    heartbeat = opening.start.heartbeat_timeout
    opened = await _do(PipelineActivities.open_pipeline, opening, heartbeat, f"open {opening.start.pipeline.name}")
    if isinstance(opened, Failure) and not opened.mendable:
        raise ApplicationError(opened.text, type=opened.kind, non_retryable=True)
    return opened


async def select(question: SelectInput, heartbeat: timedelta) -> Selected | Failure:
    """Find out what a step is given."""
    return await _do(PipelineActivities.select_for_step, question, heartbeat, f"what {question.key} is given")


async def record(write: RecordInput, heartbeat: timedelta) -> Recorded | Failure:
    """Write entries to the record."""
    return await _do(
        PipelineActivities.write_record, write, heartbeat, f"write {len(write.tail)} entries to the record"
    )


async def close_pipeline(closing: ClosePipelineInput, heartbeat: timedelta) -> PipelineResult | Failure:
    """Write the end of the record, and what the run has come to."""
    return await _do(PipelineActivities.close_pipeline, closing, heartbeat, f"close it: {closing.result.outcome}")


async def _do(
    activity: Callable[[Any, Input], Awaitable[Output]], argument: Input, heartbeat: timedelta, summary: str
) -> Output | Failure:
    try:
        return await workflow.execute_activity_method(
            activity,
            argument,
            start_to_close_timeout=JOURNAL_TIMEOUT,
            heartbeat_timeout=heartbeat,
            retry_policy=JOURNAL_RETRY,
            summary=one_line(summary, 200),
        )
    except (ActivityError, ApplicationError) as error:
        return failure_of(error)
