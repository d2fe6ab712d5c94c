"""What a client does with runs, through Temporal alone: start, look, send, cancel, list.

Every call is bounded in time: a server that is down is an error within seconds, and so is a query that no worker
answers. The workflow is called by its names (`Agent`, `state`, `approve`, ...): infra knows no workflow.
"""

import shlex
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from pydantic import RootModel, ValidationError
from temporalio.api.common.v1 import WorkflowExecution as ExecutionRef
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import CancelledError, FailureError
from temporalio.service import RPCError, RPCStatusCode

from core.acts import Act, ActName
from core.content import clean, one_line
from core.errors import InputError, PerdureError
from core.frozen import Frozen
from core.pipelines.view import PipelineView
from core.runs import Position, RunResult
from core.shapes import counted
from core.view import Progress, StateView
from infra.saying import saying
from infra.temporal import AGENT_PHASE, ServerUnavailable

WORKFLOW = "Agent"
QUERY_TIMEOUT = timedelta(seconds=3)
"""A worker that is alive answers in milliseconds."""
CALL_TIMEOUT = timedelta(seconds=5)
ID_CHARACTERS = 200

Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed_out", "unknown"]

_STATUS: dict[WorkflowExecutionStatus, Status] = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
}
_SILENT = {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION}
_REFUSED = {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED}


class AnyState(RootModel[StateView | PipelineView]):
    """What a run answers: that of an agent, or that of a pipeline, which people decide on in the same way."""


_Answer = TypeVar("_Answer", Progress, AnyState, Position)


class RunNotFound(PerdureError):
    """There is no run of this id in the namespace; or it is closed, for an act that needs an open one."""


class NoWorker(PerdureError):
    """No worker answered in time: the run goes on as soon as one does."""

    retryable = True


class RunInfo(Frozen):
    """What the server itself knows of a run, whether or not a worker answers. Times are UTC.

    `phase` is the run's own as far as it is indexed, else the status. `trouble` is set when the run's workflow task
    fails again and again: a bug, seen by nobody else, since such a run simply does not move.
    """

    id: str
    run_id: str
    status: Status
    phase: str
    agent: str
    task: str
    task_sha256: str = ""
    started_at: datetime
    closed_at: datetime | None = None
    trouble: str = ""
    saying: str = ""
    """The end of what the model writes in this moment."""


class Ending(Frozen):
    """How a closed run ended: `result` when it came to one, else `reason`."""

    run: RunInfo
    result: RunResult | None = None
    reason: str = ""

    def said(self) -> str:
        """Say in one line how it ended."""
        reason = self.reason or (self.result.reason if self.result else "")
        return f"{self.run.status.replace('_', ' ')}" + (f": {reason}" if reason else "")


class Runs:
    """The runs of a namespace. Its methods raise only `PerdureError`s.

    ```
    RunNotFound        there is no such run
    ServerUnavailable  Temporal does not answer; retryable
    NoWorker           a query that no worker answers; retryable
    InputError         the server refuses the request as it is
    ```
    """

    workflow = WORKFLOW
    """Which workflows they are."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.address = client.service_client.config.target_host

    async def info(self, run: str) -> RunInfo:
        """Return what the server knows of a run."""
        with self.translated(run):
            description = await self._handle(run).describe(rpc_timeout=CALL_TIMEOUT)
            trouble = await self._trouble(description)
        found = {"trouble": trouble, "saying": await saying(description)}
        return (await _info(description)).model_copy(update=found)

    async def state(self, run: str) -> StateView:
        """Ask the run itself for all but the conversation; works on closed runs too, as long as a worker answers."""
        answer = await self._ask(run, "state", AnyState)
        return answer.root.as_run() if isinstance(answer.root, PipelineView) else answer.root

    async def progress(self, run: str) -> Progress:
        """Ask the run itself for the little that a progress line needs."""
        return await self._ask(run, "progress", Progress)

    async def position(self, run: str) -> Position | None:
        """Ask the run itself where its journal is, and for the entries not yet in it; None before it has opened."""
        return await self._ask(run, "position", Position)

    async def send(self, run: str, name: ActName, act: Act) -> None:
        """Send a person's act as a signal: the server keeps it while no worker runs. A second one is only refused."""
        with self.translated(run):
            await self._handle(run).signal(name, act, rpc_timeout=CALL_TIMEOUT)

    async def cancel(self, run: str) -> None:
        """Ask a run to stop what it does and to close its journal. Idempotent."""
        with self.translated(run):
            await self._handle(run).cancel(rpc_timeout=CALL_TIMEOUT)

    async def ending(self, run: str) -> Ending | None:
        """Return how a run ended, or None while it is open. Never waits."""
        info = await self.info(run)
        if info.status == "running":
            return None
        handle = self.client.get_workflow_handle(run, run_id=info.run_id, result_type=RunResult)
        with self.translated(run):
            try:
                result = await handle.result(rpc_timeout=CALL_TIMEOUT)
            except WorkflowFailureError as error:
                return Ending(run=info, reason=_reason(error))
            except ValidationError as error:
                problems = counted(error.error_count(), "problem")
                reason = f"its result is not of a form that this version reads ({problems})"
                return Ending(run=info, reason=reason)
        if result.outcome != "completed":
            info = info.model_copy(update={"status": result.outcome})
        return Ending(run=info, result=result)

    async def list(self, query: str, limit: int) -> list[RunInfo]:
        """Return up to `limit` runs, the newest first; `query` narrows them in Temporal's own query language."""
        narrowed = f"WorkflowType = '{self.workflow}' AND ExecutionStatus != 'ContinuedAsNew'" + (
            query and f" AND {query}"
        )
        with self.translated(""):
            found = self.client.list_workflows(
                narrowed, limit=limit, page_size=min(limit, 1000), rpc_timeout=CALL_TIMEOUT
            )
            return [await _info(execution) async for execution in found]

    @contextmanager
    def translated(self, run: str) -> Iterator[None]:
        """Turn Temporal's errors into those of this class."""
        try:
            yield
        except RPCError as error:
            raise self.error(error, run) from error

    def _handle(self, run: str) -> WorkflowHandle[object, object]:
        return self.client.get_workflow_handle(check_run_id(run))

    async def _ask(self, run: str, query: str, answer: type[_Answer]) -> _Answer:
        with self.translated(run):
            try:
                result: _Answer = await self._handle(run).query(query, result_type=answer, rpc_timeout=QUERY_TIMEOUT)
            except WorkflowQueryFailedError as error:
                raise NoWorker(f"run {run!r} can't answer: {one_line(str(error), 300)}") from error
            except ValidationError as error:
                raise InputError(f"run {run!r} answers in a form of another version: use its starter.py") from error
            except RPCError as error:
                if error.status in _SILENT:
                    raise NoWorker("no worker answers; start one with: make up") from error
                raise
        return result

    async def _trouble(self, description: WorkflowExecutionDescription) -> str:
        """Return why the workflow task fails, if it does; one that only timed out waits for a worker."""
        attempt = description.raw_description.pending_workflow_task.attempt
        if attempt < 2:
            return ""
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self.client.namespace,
            execution=ExecutionRef(workflow_id=description.id, run_id=description.run_id),
            maximum_page_size=10,
        )
        answer = await self.client.workflow_service.get_workflow_execution_history_reverse(
            request, timeout=CALL_TIMEOUT
        )
        for event in answer.history.events:
            if event.HasField("workflow_task_failed_event_attributes"):
                why = event.workflow_task_failed_event_attributes.failure.message
                said = one_line(clean(why), 300)
                times = f"{attempt - 1} times" if attempt > 2 else "once"
                last = shlex.join(["temporal", "workflow", "terminate", "--workflow-id", description.id])
                return (
                    f"the run does not move: its workflow task failed {times} ({said}); see the worker's log, the run "
                    f"goes on when the cause is mended. As a last resort, end it: {last}"
                )
        return ""

    def error(self, error: RPCError, run: str) -> PerdureError:
        """Return what an error of Temporal's means."""
        said = one_line(clean(error.message), 300)
        if error.status is RPCStatusCode.NOT_FOUND:
            if "already completed" in said:
                return RunNotFound(f"run {run!r} is closed already")
            return RunNotFound(f"there is no run {run!r}; `python starter.py list` shows those that there are")
        if error.status in _REFUSED:
            return InputError(f"Temporal at {self.address} refuses ({said}); check the request and TEMPORAL_*")
        return ServerUnavailable(
            f"Temporal does not answer at {self.address} ({said}). Start the local servers with `make up`, or set "
            "TEMPORAL_ADDRESS to a server that runs."
        )


def check_run_id(run: str) -> str:
    """Return the id of a run if it can be one.

    Raises:
        InputError: it is empty, longer than 200 characters, begins with a -, or holds what can't be typed or shown.
    """
    if not run.strip():
        raise InputError("the id of the run is empty; leave --id out and one is made up")
    if len(run) > ID_CHARACTERS:
        raise InputError(f"the id of the run has {len(run)} characters; at most {ID_CHARACTERS}")
    if run != one_line(clean(run), ID_CHARACTERS):
        raise InputError(f"the id {run!a} has odd spaces or control characters; use letters, digits and -")
    if any(unicodedata.category(character) == "Cf" for character in run):
        raise InputError(f"the id {run!a} has characters that nobody sees; use letters, digits and -")
    if run.startswith("-"):
        raise InputError(f"the id {run!r} begins with -, as options do; begin it with a letter or a digit")
    return run


async def _info(execution: WorkflowExecution) -> RunInfo:
    status = _STATUS.get(execution.status, "unknown") if execution.status else "unknown"
    phase = execution.typed_search_attributes.get(AGENT_PHASE) if status == "running" else None
    return RunInfo(
        id=execution.id,
        run_id=execution.run_id,
        status=status,
        phase=phase or status,
        agent=str(await execution.memo_value("agent", "")),
        task=str(await execution.memo_value("task", "")),
        task_sha256=str(await execution.memo_value("task_sha256", "")),
        started_at=execution.start_time,
        closed_at=execution.close_time,
    )


def _reason(error: WorkflowFailureError) -> str:
    cause = error.cause
    if isinstance(cause, CancelledError):
        return ""
    said = cause.message if isinstance(cause, FailureError) else str(cause)
    return clean(said)
