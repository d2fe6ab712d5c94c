"""The steps of a pipeline that are under way: each in a task of its own, so that none waits for another."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Protocol

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from core.content import Content, cut, inline, one_line
    from core.entries import ToolFinished
    from core.failures import Failure
    from core.pipelines import calls, fold, given
    from core.pipelines.entries import PipelineEntry
    from core.pipelines.file import AgentStep, ToolStep
    from core.pipelines.plan import Plan
    from core.pipelines.runs import PipelineSpec, Selected, SelectInput
    from core.pipelines.state import AGENT, PipelineState, StepState
    from core.runs import Above, AgentInput, RunResult
    from core.settlement import verified
    from core.state import OpenCall, RunState
    from workflows import pipeline_dispatch, tools

NAME = SearchAttributeKey.for_keyword("AgentName")
PHASE = SearchAttributeKey.for_keyword("AgentPhase")
LARGE_BYTES = 32 * 1024
MOST_BYTES = 1024 * 1024
TIMED_OUT = "it did not end within {seconds:g} seconds, and was stopped"


class Held(Protocol):
    """The state that steps change."""

    state: PipelineState

    def apply(self, entry: PipelineEntry) -> None:
        """Take in an entry."""

    def become(self, state: PipelineState) -> None:
        """Take the new state."""

    def pause(self, failure: Failure) -> None:
        """Pause with the reason."""


class Work:
    """Starts steps and takes in what comes of them."""

    def __init__(self, held: Held, plan: Plan, spec: PipelineSpec) -> None:
        self._held = held
        self._plan = plan
        self._spec = spec
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._alone = asyncio.Lock()

    def __bool__(self) -> bool:
        """Say whether anything is under way."""
        return bool(self._tasks)

    def prepare(self, key: str, *, undo: bool) -> None:
        """Find out what a step is given, or its undo."""
        self._held.become(fold.preparing(self._held.state, key, workflow.now(), undo=undo))
        self._start(key, self._prepare(key, undo=undo))

    def begin(self, key: str) -> None:
        """Start the call of a step, or of its undo; or its agent."""
        run = self._held.state.runs[key]
        agent = run.open is not None and run.open.call.name == AGENT
        number = run.attempts + 1
        again = f"-try-{number}" if number > 1 else ""
        child = f"{workflow.info().workflow_id}.{key}{again}" if agent else ""
        self._held.apply(calls.begun(run, key, child, workflow.now()))
        self._start(key, self._agent(key) if agent else self._tool(key))

    def verify(self, key: str) -> None:
        """Let the tool find out whether the call of a step took effect."""
        self._held.become(fold.with_call(self._held.state, key, "verifying"))
        self._start(key, self._verify(key))

    def stop(self, key: str) -> None:
        """Tell a step's agent to stop."""
        self._held.become(fold.stopping(self._held.state, key))
        if key in self._tasks:
            self._tasks[key].cancel()

    async def cancel(self) -> None:
        """Stop all that is under way, and wait for its end."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    def crashed(self) -> asyncio.Task[None] | None:
        """Return a step's task that ended by a fault of ours: it must be seen, not waited for."""
        return next((task for task in self._tasks.values() if task.done()), None)

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[key] = asyncio.create_task(work)

    async def _prepare(self, key: str, *, undo: bool) -> None:
        question = given.question(self._plan, self._spec, self._held.state, key, undo=undo)
        found = await self._selected(question)
        del self._tasks[key]
        if isinstance(found, Failure):
            self._held.become(fold.unprepared(self._held.state, key, undo=undo))
            self._held.pause(found)
        else:
            self._held.apply(given.prepared(self._plan, key, found, workflow.now(), undo=undo))

    async def _selected(self, question: SelectInput) -> Selected | Failure:
        """Find out what a step is given; what is long to send goes alone, so that no workflow task sends too much."""
        size_bytes = len(question.model_dump_json())
        if size_bytes > MOST_BYTES:
            return Selected(problem="it selects from more runs of steps than can be sent; select from fewer")
        if size_bytes <= LARGE_BYTES:
            return await pipeline_dispatch.select(question, self._spec.tools.heartbeat_timeout)
        async with self._alone:
            return await pipeline_dispatch.select(question, self._spec.tools.heartbeat_timeout)

    async def _tool(self, key: str) -> None:
        run = self._held.state.runs[key]
        call = _call(run)
        running = asyncio.create_task(tools.run_call(self._spec.tools, call.call, RunState(), call.runs))
        result = await self._in_time(key, running, run)
        del self._tasks[key]
        if isinstance(result, Failure):
            self._held.become(fold.put_back(self._held.state, key))
            self._held.pause(result)
        elif isinstance(result, ToolFinished):
            self._held.apply(calls.finished(self._plan, self._held.state, key, result))
        else:
            self._held.apply(result)

    async def _in_time(self, key: str, running: asyncio.Task[Any], run: StepState) -> Any:
        """Wait for the end of what runs; stop it when its time is over, and say so where it fails by that."""
        timeout = self._timeout(key, run)
        try:
            done, _ = await workflow.wait([running], timeout=timeout.total_seconds() if timeout else None)
            if not done:
                running.cancel()
            result = await running
        except asyncio.CancelledError:
            running.cancel()  # what goes on must have ended before anything is undone
            await asyncio.gather(running, return_exceptions=True)
            if workflow.cancellation_reason() is not None:
                raise
            return running.result()
        late = not done and isinstance(result, ToolFinished) and result.failed
        seconds = timeout.total_seconds() if timeout else 0
        return result.model_copy(update={"content": inline(TIMED_OUT.format(seconds=seconds))}) if late else result

    def _timeout(self, key: str, run: StepState) -> timedelta | None:
        step = self._plan.step(key)
        if not isinstance(step, AgentStep | ToolStep):
            return None
        if run.undo:
            return step.undo.timeout if step.undo is not None else None
        return step.timeout

    async def _agent(self, key: str) -> None:
        run = self._held.state.runs[key]
        result = await self._in_time(key, asyncio.create_task(self._child(key, run)), run)
        del self._tasks[key]
        self._held.apply(calls.finished(self._plan, self._held.state, key, result))

    async def _child(self, key: str, run: StepState) -> ToolFinished:
        """Run a step's agent, and return what it has come to as the result of a call."""
        failed = True
        artifacts: tuple[Any, ...] = ()
        try:
            result: RunResult = await workflow.execute_child_workflow("Agent", **self._child_options(key, run))
            failed = result.outcome != "completed"
            content = result.text if not failed else inline(result.reason or result.outcome)
            artifacts = result.artifacts[: fold.ARTIFACTS]
        except WorkflowAlreadyStartedError:
            content = inline(f"there is a run {run.child} already; give the pipeline another id")
        except ChildWorkflowError as error:
            cause = error.cause
            said = cause.message if isinstance(cause, ApplicationError) else str(cause or error)
            content = inline(one_line(f"its agent did not end well: {said}", 1000))
        at = workflow.now()
        return ToolFinished(
            at=at, call_id=_call(run).call.id, tool=AGENT, content=content, failed=failed, artifacts=artifacts
        )

    def _child_options(self, key: str, run: StepState) -> dict[str, Any]:
        step, spec, above = self._plan.step(key), self._spec, workflow.info().workflow_id
        if not isinstance(step, AgentStep):
            raise TypeError(f"step {key} has no agent")
        told = run.given or Content(text=step.task)
        start = AgentInput(
            agent=spec.agents[step.agent],
            task=told,
            attachments=run.attachments,
            model=step.model or spec.model,
            team=spec.team(step.agent),
            by=spec.by,
            heartbeat_timeout=spec.tools.heartbeat_timeout,
            events_per_generation=spec.tools.events_per_generation,
            search_attributes=spec.tools.search_attributes,
            scope=spec.run.scope,
            above=Above(workflow_id=above, path=(above,)),
        )
        pairs = [SearchAttributePair(NAME, step.agent), SearchAttributePair(PHASE, "running")]
        task = one_line(step.task, 160)
        return {
            "arg": start,
            "id": run.child,
            "result_type": RunResult,
            "task_timeout": workflow.info().task_timeout,
            "parent_close_policy": workflow.ParentClosePolicy.REQUEST_CANCEL,
            "cancellation_type": workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            "search_attributes": TypedSearchAttributes(pairs if spec.tools.search_attributes else []),
            "memo": {"agent": step.agent, "task": task},
            "static_summary": cut(f"{step.agent}: {key} of {spec.pipeline.name}", 200),
        }

    async def _verify(self, key: str) -> None:
        found = await tools.verify_call(self._spec.tools, _call(self._held.state.runs[key]).call, 0)
        del self._tasks[key]
        if isinstance(found, Failure):
            self._held.become(fold.with_call(self._held.state, key, "unsettled"))
            self._held.pause(found)
            return
        open_call = _call(self._held.state.runs[key])
        self._held.apply(verified(open_call, found, workflow.now(), 0))


def _call(run: StepState) -> OpenCall:
    if run.open is None:
        raise RuntimeError("the step is not open")
    return run.open
