"""Sub-agents: a call of `delegate` is a run of its own below this one, and its result what that run has come to."""

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from core.below import gone
    from core.budgets import no_child, share
    from core.content import Content, inline, one_line
    from core.entries import Delegated, RunRef, ToolFinished
    from core.failures import Failure
    from core.runs import AgentInput, DelegateInput, RunResult, RunSpec
    from core.tools import Call
    from workflows import dispatch
    from workflows.held import HeldState


CONTENT_BYTES = 4000
"""Longest text to which the list of what was made is added."""


async def run_child(held: HeldState, spec: RunSpec, call: Call, runs: int) -> ToolFinished | Failure:
    """Start the sub-agent, and return its result; a failure is what a person has to mend first."""
    left = share(spec, held.state)
    if why := no_child(spec, held.state, left):
        return _failed(held, call, f"Not run: {why}.")
    child = await dispatch.prepare_child(spec, DelegateInput(spec=spec, call=call, limits=left))
    if isinstance(child, Failure):
        return child
    if child.start is None:
        return _failed(held, call, f"Not run: {child.problem}")
    start, number = child.start, f"-{runs}" if runs > 1 else ""
    to = f"{spec.run.workflow_id}.{call.id}{number}"
    limits, task = start.agent.limits, one_line(start.task.shown(), 160)
    held.apply(
        Delegated(
            at=workflow.now(),
            turn=held.state.turn,
            call_id=call.id,
            agent=start.agent.name,
            to=to,
            task=task,
            tokens=limits.tokens,
            cost_usd=limits.cost_usd,
        )
    )
    try:
        result = await _run(held, to, start, task)
    except WorkflowAlreadyStartedError:
        return _failed(held, call, f"Not run: another run has the id {to}; end it, then call again.")
    except ChildWorkflowError as error:
        if is_cancelled_exception(error) and workflow.cancellation_reason() is not None:
            raise
        return _failed(held, call, f"Failed: {start.agent.name} has ended: {one_line(str(error.cause or error), 1000)}")
    return _finished(held, call, start, result, RunRef(scope=result.scope, workflow_id=to, run_id=""))


async def _run(held: HeldState, to: str, start: AgentInput, task: str) -> RunResult:
    """Run it to its end; a cancel of this run waits until that one has closed its journal, too."""
    try:
        return await _to_its_end(to, start, task)
    finally:
        held.become(gone(held.state, to))


async def _to_its_end(to: str, start: AgentInput, task: str) -> RunResult:
    result: RunResult = await workflow.execute_child_workflow(
        "Agent",
        start,
        id=to,
        result_type=RunResult,
        task_timeout=workflow.info().task_timeout,
        cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        memo={"agent": start.agent.name, "task": task},
        static_summary=one_line(f"{start.agent.name}: {task}", 160),
    )
    return result


def _finished(held: HeldState, call: Call, start: AgentInput, result: RunResult, run: RunRef) -> ToolFinished:
    failed = result.outcome != "completed"
    why = f"Failed: {start.agent.name} is {result.outcome}: {result.reason}"
    return ToolFinished(
        at=workflow.now(),
        turn=held.state.turn,
        call_id=call.id,
        tool=call.name,
        content=inline(why) if failed else _said(result),
        failed=failed,
        artifacts=tuple(ref.model_copy(update={"preview": ""}) for ref in result.artifacts),
        attempts=1,
        seconds=result.seconds,
        untrusted=result.tainted,
        run=run,
        usage=result.usage,
        turns=result.turns,
    )


def _said(result: RunResult) -> Content:
    """Return what the model reads: the sub-agent's last word, and what it made."""
    text = result.text.text
    made = "".join(f"\n{ref.described()}" for ref in result.artifacts)
    if text is None or len((text + made).encode()) > CONTENT_BYTES:
        return result.text
    return inline(f"{text}\n\nIt made:{made}" if made else text)


def _failed(held: HeldState, call: Call, why: str) -> ToolFinished:
    return ToolFinished(
        at=workflow.now(), turn=held.state.turn, call_id=call.id, tool=call.name, content=inline(why), failed=True
    )
