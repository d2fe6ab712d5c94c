"""How the failures of activities are read: what Temporal raises becomes a `Failure`, by which the rules decide."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from core.failures import NOT_TAKEN, TIMED_OUT, WORKER_LOST, Failure


def failure_of(error: ActivityError | ApplicationError) -> Failure:
    """Read what went wrong, in the activity or when its input was to be sent. A cancel is none, it is raised."""
    if is_cancelled_exception(error) and workflow.cancellation_reason() is not None:
        raise error
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return Failure(kind=cause.type or "Error", text=cause.message)
    if isinstance(cause, ActivityTimeout):
        return _timed_out(cause)
    return Failure(kind=type(cause).__name__, text=str(cause or error))


def _timed_out(timeout: ActivityTimeout) -> Failure:
    match timeout.type:
        case TimeoutType.HEARTBEAT:
            return Failure(kind=WORKER_LOST, text="its worker died")
        case TimeoutType.SCHEDULE_TO_START:
            why = "no worker has taken it: start one that serves its task queue (PERDURE_TOOL_QUEUES), then resume"
            return Failure(kind=NOT_TAKEN, text=why)
        case _:
            return Failure(kind=TIMED_OUT, text=str(timeout))
