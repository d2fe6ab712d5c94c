"""A step of a pipeline that is open: a call of a tool, a run of an agent, a gate; or a call that undoes one. Pure.

All three are a call that may wait for people, by the same rules as an agent's: deadlines, quorums, signatures. A gate
is over with its decision, an agent begins at once, a tool when its policy lets it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from core.content import inline, one_line
from core.entries import ToolFinished
from core.frozen import Frozen
from core.pipelines.entries import Began, Ended, PipelineEntry, Retried, Undone
from core.pipelines.file import AgentStep, GateStep, Retry, ToolStep
from core.pipelines.plan import Plan
from core.pipelines.state import AGENT, GATE, PipelineState, StepState
from core.requests import due, is_asked, request, still_holds
from core.runs import RunSpec
from core.settlement import result_of_settled
from core.state import OpenCall, RunState
from core.tools import ToolPolicy

NEVER = "nobody decided in time"


class Begin(Frozen):
    """Start the call of a step, or of its undo."""

    key: str
    undo: bool = False


class Verify(Frozen):
    """Let the tool find out whether the call of a step took effect."""

    key: str


class Record(Frozen):
    """Append this entry: something that the rules alone decide."""

    entry: PipelineEntry


def go_on(
    plan: Plan, spec: RunSpec, state: PipelineState, key: str, now: datetime
) -> Iterator[Begin | Verify | Record]:
    """Return what to do with an open step now, if anything."""
    run = state.runs[key]
    if run.open is None:
        return
    policy = policy_of(plan, spec, key, run)
    waits = overdue(plan, spec, state, key, now)
    if waits is not None:
        yield waits
        return
    match run.open.status:
        case "proposed":
            yield _proposed(spec, policy, key, run, now)
        case "approved":
            yield _approved(spec, policy, key, run, now)
        case "rejected":
            last = run.open.decisions[-1]
            why = one_line(last.reason, 1000) or "no reason given"
            yield Record(entry=Ended(at=now, step=key, status="rejected", error=why, by=last.by))
        case "again":
            yield Begin(key=key, undo=bool(run.undo))
        case "unsettled":
            yield Verify(key=key)
        case "settled":
            result = result_of_settled(run.open, policy, now, 0)
            if result is not None:
                yield Record(entry=finished(plan, state, key, result))


def overdue(plan: Plan, spec: RunSpec, state: PipelineState, key: str, now: datetime) -> Record | None:
    """Return what time alone makes of a step that waits for people."""
    run = state.runs[key]
    if run.open is None:
        return None
    entry = due(policy_of(plan, spec, key, run), run.open, now, 0)
    if entry is None:
        return None
    if isinstance(entry, ToolFinished):  # its deadline is over, and there is nobody else to ask
        return Record(entry=Ended(at=now, step=key, status="rejected", error=NEVER))
    return Record(entry=entry)  # type: ignore[arg-type]  # `due` gives requests, ends of requests and reminders only


def policy_of(plan: Plan, spec: RunSpec, key: str, run: StepState) -> ToolPolicy:
    """Return by which policy the open call of a step is decided on."""
    step = plan.step(key)
    asked = timedelta(seconds=1)
    if isinstance(step, GateStep):
        return ToolPolicy(name=GATE, effect="read", timeout=asked, approval="ask", asking=step.approval)
    name = run.open.call.name if run.open is not None else ""
    policy = spec.tool(name) or ToolPolicy(name=name, effect="read", timeout=asked, approval="auto")
    if run.undo:  # whoever approved the step, or the pipeline, approved that it is taken back
        return policy.model_copy(update={"approval": "auto"})
    if isinstance(step, ToolStep) and step.approval is not None:
        return policy.model_copy(update={"approval": step.approval.mode, "asking": step.approval})
    return policy


def _proposed(spec: RunSpec, policy: ToolPolicy, key: str, run: StepState, now: datetime) -> Begin | Record:
    opened = _opened(run)
    if opened.call.problem is not None:
        return Record(entry=Ended(at=now, step=key, status="failed", error=opened.call.problem))
    if policy.approval == "deny":
        return Record(entry=Ended(at=now, step=key, status="failed", error=f"{policy.name} is denied by its policy"))
    if opened.call.name != AGENT and is_asked(policy, RunState(), opened.call):
        return Record(entry=request(spec, policy, opened.call, now, 0))
    return Begin(key=key, undo=bool(run.undo))


def _approved(spec: RunSpec, policy: ToolPolicy, key: str, run: StepState, now: datetime) -> Begin | Record:
    """Let run what was approved, if it still is what would run; a gate is over then."""
    opened = _opened(run)
    if not still_holds(policy, opened, now):
        return Record(entry=request(spec, policy, opened.call, now, 0))
    if opened.call.name != GATE:
        return Begin(key=key, undo=bool(run.undo))
    by = ", ".join(decision.by for decision in opened.decisions if decision.by)
    reason = next((decision.reason for decision in reversed(opened.decisions) if decision.reason), "")
    return Record(entry=Ended(at=now, step=key, status="done", output=inline(reason), by=by))


def begun(run: StepState, key: str, child: str, now: datetime) -> Began:
    """Return that a step begins, or its undo."""
    undo = bool(run.undo)
    number = (run.undo_attempts if undo else run.attempts) + 1
    return Began(at=now, step=key, attempt=number, child=child, undo=undo)


def finished(plan: Plan, state: PipelineState, key: str, result: ToolFinished) -> Ended | Retried | Undone:
    """Return what the result of a call makes of its step: its end, or one more attempt."""
    run = state.runs[key]
    error = one_line(result.content.shown(), 1000) if result.failed else ""
    if error and (again := _again(plan, state, key, run)) is not None:
        return Retried(at=result.at, step=key, error=error, wait_seconds=again, undo=bool(run.undo))
    if run.undo:
        return Undone(at=result.at, step=key, error=error)
    return Ended(
        at=result.at,
        step=key,
        status="failed" if result.failed else "done",
        output=result.content,
        artifacts=result.artifacts,
        error=error,
    )


def _again(plan: Plan, state: PipelineState, key: str, run: StepState) -> float | None:
    """Return after how many seconds a step that failed is tried again; None: it is not."""
    step = plan.step(key)
    if not isinstance(step, AgentStep | ToolStep) or (state.ending is not None and not run.undo):
        return None
    retry = (step.undo.retry if step.undo is not None else Retry()) if run.undo else step.retry
    tried = run.undo_attempts if run.undo else run.attempts
    return retry.wait.total_seconds() * 2.0 ** (tried - 1) if tried < retry.attempts else None


def _opened(run: StepState) -> OpenCall:
    if run.open is None:
        raise RuntimeError("the step is not open")
    return run.open
