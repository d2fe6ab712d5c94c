"""The worker: wires the ports to their adapters, and runs workflows and activities until it is told to stop.

SIGTERM and SIGINT drain: no new work is taken, what runs may end within the graceful shutdown timeout; what can't is
handed over to another worker by the rules of its effect.

Exit codes: 0 drained; 1 a bug, told with its traceback; 2 wrong settings, credentials or tools; 3 a server can't be
reached.
"""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TypedDict

import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.compaction import CompactionActivities
from activities.delegation import DelegationActivities
from activities.edits import EditActivities
from activities.journal import JournalActivities
from activities.model import ModelActivities
from activities.pipelines import PipelineActivities
from activities.printing import route_prints
from activities.tool_call import ToolCalls
from activities.toolbox import Toolbox
from core.errors import InputError, PerdureError
from core.ports import BlobStore, ChatModel
from core.storage import Storage
from infra.accounts import Accounts
from infra.exits import FAILED, OK, exit_code
from infra.json_schemas import JsonSchemas
from infra.logging import configure_logging
from infra.models import Models, choose_default_model
from infra.patience import PatientBlobStore
from infra.process import leave
from infra.s3 import S3BlobStore
from infra.secrets import EnvironmentSecrets
from infra.settings import Settings, forget_secrets, load_settings
from infra.streams import StreamLimits
from infra.temporal import connect
from infra.workflow_runner import CarefulWorkflowRunner
from workflows.agent import Agent
from workflows.pipeline import Pipeline

log = structlog.get_logger(__name__)

TOOL_PACKAGE = "activities.tools"
SPARE_THREADS = 16
"""For tools that ignored a cancel and were left behind: they keep their thread until they end."""


def build_worker(client: Client, settings: Settings, blobs: BlobStore, model: ChatModel) -> Worker:
    """Wire a worker for the settings' task queue; run it with `async with` or `await worker.run()`.

    Raises:
        InputError: a tool's file can't be imported or declares its tool wrongly.
    """
    toolbox, storage, schemas = _toolbox(settings), _storage(settings, blobs), JsonSchemas()
    journal = JournalActivities(storage, toolbox, default_model(settings), schemas)
    asking = ModelActivities(storage, toolbox, model, schemas)
    compaction = CompactionActivities(storage, model)
    pipelines = PipelineActivities(storage, toolbox, journal)
    calls = _tool_calls(settings, toolbox, storage)
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[Agent, Pipeline],
        activities=[
            journal.open_run,
            journal.commit,
            journal.close_run,
            asking.ask_model,
            compaction.compact,
            pipelines.open_pipeline,
            pipelines.select_for_step,
            pipelines.write_record,
            pipelines.close_pipeline,
            EditActivities(storage, toolbox).check_arguments,
            DelegationActivities(storage, toolbox).prepare_child,
            *calls.activities(),
            *calls.verifying(),
        ],
        workflow_runner=workflow_runner(),
        max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
        **_activity_options(settings),
    )


def build_tool_worker(client: Client, settings: Settings, blobs: BlobStore, task_queue: str) -> Worker:
    """Wire a worker for the task queue that some tools have of their own; it runs tools and nothing else.

    Raises:
        InputError: a tool's file is wrong, or no tool has this task queue.
    """
    toolbox = _toolbox(settings)
    served = [name for name in toolbox.names if toolbox.policy(name).task_queue == task_queue]
    if not served:
        raise InputError(f"no tool has task queue {task_queue!r}: correct PERDURE_TOOL_QUEUES, or name it in @tool")
    calls = _tool_calls(settings, toolbox, _storage(settings, blobs))
    activities = [*calls.activities(), *calls.verifying()]
    return Worker(client, task_queue=task_queue, activities=activities, **_activity_options(settings))


class _ActivityOptions(TypedDict):
    max_concurrent_activities: int
    graceful_shutdown_timeout: timedelta
    max_heartbeat_throttle_interval: timedelta
    default_heartbeat_throttle_interval: timedelta


def _activity_options(settings: Settings) -> _ActivityOptions:
    return {
        "max_concurrent_activities": settings.max_concurrent_activities,
        "graceful_shutdown_timeout": settings.graceful_shutdown_timeout,
        # Heartbeats are also how cancellation arrives: the SDK would hold them back for most of the timeout.
        "max_heartbeat_throttle_interval": min(timedelta(seconds=1), settings.heartbeat_timeout / 4),
        "default_heartbeat_throttle_interval": timedelta(seconds=1),
    }


def _toolbox(settings: Settings) -> Toolbox:
    return Toolbox.discover((TOOL_PACKAGE, *settings.tools))


def _storage(settings: Settings, blobs: BlobStore) -> Storage:
    return Storage(PatientBlobStore(blobs), settings.journal_cache_bytes)


def _tool_calls(settings: Settings, toolbox: Toolbox, storage: Storage) -> ToolCalls:
    return ToolCalls(
        toolbox,
        storage,
        data_dir=settings.data_dir,
        cache_bytes=settings.artifact_cache_bytes,
        threads=ThreadPoolExecutor(settings.max_concurrent_activities + SPARE_THREADS, "tool"),
        secrets=EnvironmentSecrets.from_settings(settings),
    )


def workflow_runner() -> SandboxedWorkflowRunner:
    """Return the sandbox of workflow code; modules without state are shared, not loaded anew for each run."""
    shared = SandboxRestrictions.default.with_passthrough_modules("core", "activities", "infra")
    return CarefulWorkflowRunner(restrictions=shared)


def default_model(settings: Settings) -> str:
    """Return the model of agents that name none."""
    return choose_default_model(settings.model, Accounts.from_settings(settings))


@asynccontextmanager
async def opened_models(settings: Settings) -> AsyncIterator[Models]:
    """Open the model adapters, and close their connections at the end."""
    models = Models(
        Accounts.from_settings(settings),
        StreamLimits(settings.model_first_chunk_timeout, settings.model_chunk_timeout),
        attempt=lambda: activity.info().attempt,
    )
    try:
        yield models
    finally:
        await models.close()


async def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT, then drain."""
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    client = await connect(settings)
    blobs = S3BlobStore.from_settings(settings)
    try:
        await blobs.check()
        async with opened_models(settings) as models, AsyncExitStack() as workers:
            await workers.enter_async_context(build_worker(client, settings, blobs, models))
            for queue in settings.tool_queues:
                await workers.enter_async_context(build_tool_worker(client, settings, blobs, queue))
            queues = [settings.task_queue, *settings.tool_queues]
            log.info("worker ready", task_queues=queues, model=default_model(settings), pid=os.getpid())
            await stop.wait()
            log.info("worker drains", seconds=settings.graceful_shutdown_timeout.total_seconds())
        log.info("worker stopped")
    finally:
        await blobs.close()


def main() -> int:
    """Run the worker and return its exit code."""
    try:
        settings = load_settings()
        forget_secrets()
        configure_logging(settings)
        route_prints()
        asyncio.run(run_worker(settings))
    except PerdureError as error:
        print(f"worker: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it, before there is a log
        return exit_code(error)
    return OK


if __name__ == "__main__":
    try:
        exit_status = main()
    except BaseException:  # noqa: BLE001 - a bug: show it all, and still end safely
        traceback.print_exc()
        exit_status = FAILED
    leave(exit_status)
