"""What a client does with runs of pipelines, through Temporal alone; acts of people go the way of agents' runs."""

import json
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio.client import WorkflowFailureError, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from core.content import one_line
from core.errors import InputError
from core.pipelines.runs import ContinuedPipeline, PipelineResult
from core.pipelines.view import PipelineView
from infra.runs import CALL_TIMEOUT, QUERY_TIMEOUT, Ending, NoWorker, RunInfo, Runs

PIPELINE = "Pipeline"


class PipelineRuns(Runs):
    """The runs of pipelines of a namespace. Raises as `Runs`."""

    workflow = PIPELINE

    async def view(self, run: str) -> PipelineView:
        """Ask the run itself where it stands; works on closed runs too, as long as a worker answers."""
        return PipelineView.model_validate(await self._query(run, "state"))

    async def whole(self, run: str) -> ContinuedPipeline | None:
        """Ask the run for all that it knows of itself; None before it has opened."""
        answer = await self._query(run, "whole")
        return None if answer is None else ContinuedPipeline.model_validate(answer)

    async def ending(self, run: str) -> Ending | None:
        """Return how a run ended, or None while it is open. Never waits."""
        ended = await self.ended(run)
        return None if ended is None else Ending(run=ended[0], reason=ended[2])

    async def ended(self, run: str) -> tuple[RunInfo, PipelineResult | None, str] | None:
        """Return how a run ended, and what it has come to, or why it has come to nothing; None while it is open."""
        info = await self.info(run)
        if info.status == "running":
            return None
        handle = self.client.get_workflow_handle(run, run_id=info.run_id, result_type=PipelineResult)
        with self.translated(run):
            try:
                result = await handle.result(rpc_timeout=CALL_TIMEOUT)
            except WorkflowFailureError as error:
                return info, *_failed(error)
        return info.model_copy(update={"status": result.outcome}), result, result.reason

    async def _query(self, run: str, name: str) -> Any:
        with self.translated(run):
            try:
                return await self._handle(run).query(name, rpc_timeout=QUERY_TIMEOUT)
            except WorkflowQueryFailedError as error:
                why = one_line(str(error), 300)
                raise NoWorker(f"run {run!r} can't answer, or is no pipeline's: {why}") from error
            except ValidationError as error:
                raise InputError(f"run {run!r} answers in a form of another version: use its starter.py") from error
            except RPCError as error:
                if error.status in {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}:
                    raise NoWorker("no worker answers; start one with: make up") from error
                raise


def _failed(error: WorkflowFailureError) -> tuple[PipelineResult | None, str]:
    """Return what a run that failed has come to, and why."""
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return None, ""
    try:
        return PipelineResult.model_validate(cause.details[0]), cause.message
    except (IndexError, ValidationError):
        return None, cause.message


def parsed(text: str) -> Any:
    """Return JSON from the command line, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


POLL = timedelta(milliseconds=300)
LONGEST_POLL = timedelta(seconds=5)
