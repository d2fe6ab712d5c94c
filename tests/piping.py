"""How tests run pipelines: start one, wait for its state, decide, and replay each that has ended."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import WorkflowHandle

from core.agents import PinnedAgent
from core.content import inline
from core.entries import RunRef
from core.pipelines.entries import PipelineEntry
from core.pipelines.file import PipelineFile
from core.pipelines.record import Record
from core.pipelines.runs import PipelineInput, PipelineResult, Reuse
from core.pipelines.view import PipelineView
from tests.running import Running, replay
from tests.waiting import wait_until

Handle = WorkflowHandle[Any, PipelineResult]
AGENT = PinnedAgent(name="worker", description="Works.", tools=("echo",), instructions=inline("Work."))


def pipeline_of(*steps: Mapping[str, Any], **more: Any) -> PipelineFile:
    """A pipeline of these steps."""
    return PipelineFile.model_validate({"name": "tested", "description": "Tested.", "steps": steps, **more})


def put(name: str, book: Path, *, undone: bool = False, **more: Any) -> dict[str, Any]:
    """A step that writes its name into a book; its undo writes `undo NAME`."""
    step = {"id": name, "kind": "tool", "tool": "put_line", "arguments": {"book": str(book), "line": name}}
    undo = {"tool": "put_line", "arguments": {"book": str(book), "line": f"undo {name}"}}
    return {**step, **({"undo": undo} if undone else {}), **more}


def lines(book: Path) -> list[str]:
    """What stands in a book."""
    return book.read_text().splitlines() if book.exists() else []


async def start(  # noqa: PLR0913 - each is one thing that a test may vary
    running: Running,
    pipeline: PipelineFile,
    inputs: Mapping[str, Any] | None = None,
    *,
    events: int = 4000,
    reuse: Reuse | None = None,
    agent: PinnedAgent = AGENT,
    agents: Mapping[str, PinnedAgent] | None = None,
) -> Handle:
    """Start a pipeline whose agents are all `worker`."""
    given = PipelineInput(
        pipeline=pipeline,
        inputs=inline(json.dumps(inputs or {})),
        agents=dict(agents or {"worker": agent}),
        by="tests",
        heartbeat_timeout=running.settings.heartbeat_timeout,
        events_per_generation=events,
        search_attributes=True,
        reuse=reuse,
    )
    return await running.client.start_workflow(
        "Pipeline",
        given,
        id=f"pipe-{uuid4().hex[:10]}",
        task_queue=running.settings.task_queue,
        task_timeout=running.settings.workflow_task_timeout,
        execution_timeout=timedelta(minutes=10),
        result_type=PipelineResult,
    )


async def state(handle: Handle) -> PipelineView:
    """Return where it stands."""
    view: PipelineView = await handle.query("state", result_type=PipelineView)
    return view


async def until(handle: Handle, holds: Callable[[PipelineView], bool], what: str) -> PipelineView:
    """Wait until something holds of the run's state, and return it."""
    seen: list[PipelineView] = []

    async def check() -> bool:
        seen.append(await state(handle))
        return holds(seen[-1])

    await wait_until(check, timeout=timedelta(seconds=60), description=what)
    return seen[-1]


async def result(handle: Handle) -> PipelineResult:
    """Wait for the end, and replay it."""
    try:
        return await handle.result()
    finally:
        await replay(handle)


async def entries(running: Running, view: PipelineView) -> list[PipelineEntry]:
    """Return the record of a run, as another process reads it."""
    assert view.run is not None
    assert view.head is not None
    run: RunRef = view.run
    return await Record(running.blobs, run.scope).entries(view.head)


def statuses(view: PipelineView) -> dict[str, str]:
    """The status of each step."""
    return {step.key: step.status for step in view.steps}
