"""What is found out before a step begins, and what follows from it. Pure."""

from datetime import datetime

from core.content import Content, inline
from core.pipelines.entries import Ended, Prepared, Undone
from core.pipelines.file import AgentStep, ForEachStep, GateStep, Group, ParallelStep, ToolStep, ToolUse
from core.pipelines.plan import AnyStep, Plan, indices_of, step_of
from core.pipelines.runs import Known, Loop, PipelineSpec, Selected, SelectInput
from core.pipelines.state import AGENT, GATE, PipelineState
from core.tools import Call


def question(plan: Plan, spec: PipelineSpec, state: PipelineState, key: str, *, undo: bool) -> SelectInput:
    """Return what is to be evaluated for a step, or for its undo, with all that it may read and nothing else."""
    step = plan.step(key)
    name, indices = step_of(key), indices_of(key)
    reads = spec.reads.get(f"{name}-undo" if undo else name, ())
    known = [each for read in reads for each in _known(plan, state, read, indices)]
    loops = plan.loops(name)
    loop = None
    if loops:
        group = state.runs[plan.key(loops[-1], indices)]
        loop = Loop(items=group.given or inline("[]"), index=int(indices[-1]))
    base = SelectInput(run=spec.run, key=key, kind=step.kind, inputs=spec.inputs, known=tuple(known), loop=loop)
    if undo:
        use = step.undo if isinstance(step, AgentStep | ToolStep) else None
        return base.model_copy(update={"kind": "tool", **_use(use)})
    return base.model_copy(update={"when": step.when, **_own(step)})


def _own(step: AnyStep) -> dict[str, object]:
    match step:
        case AgentStep():
            return {"select": step.select, "task": step.task, "attach": step.attach}
        case ToolStep():
            return {**_use(step), "asking": step.approval}
        case GateStep():
            return {"select": step.show, "task": step.ask}
        case ForEachStep():
            return {"items": step.items}
        case ParallelStep():
            return {}


def _use(use: ToolUse | None) -> dict[str, object]:
    return {} if use is None else {"tool": use.tool, "arguments": use.arguments, "select": use.select}


def _known(plan: Plan, state: PipelineState, name: str, indices: tuple[str, ...]) -> list[Known]:
    """Return what is known of a step as one with these indices sees it; of a group, also of the steps in it."""
    return _runs_of(plan, state, name, plan.key(name, indices))


def _runs_of(plan: Plan, state: PipelineState, name: str, key: str) -> list[Known]:
    run = state.runs.get(key)
    if run is None:
        return [Known(key=key, step=name, status="waiting")]
    step = plan.places[name].step
    group = isinstance(step, Group)
    own = Known(
        key=key,
        step=name,
        status=run.status,
        error=run.error,
        output=run.output,
        artifacts=tuple(ref.model_copy(update={"preview": ""}) for ref in run.artifacts),
        items=run.items,
        given=run.given if isinstance(step, ForEachStep) else None,
        members=plan.members.get(name, ()) if group else (),
    )
    found = [own]
    if group:
        inner = range(run.items or 0) if isinstance(step, ForEachStep) else [None]
        for number in inner:
            here = (*indices_of(key), *([] if number is None else [str(number)]))
            for member in plan.members[name]:
                found += _runs_of(plan, state, member, ".".join((member, *here)))
    return found


def prepared(plan: Plan, key: str, found: Selected, now: datetime, *, undo: bool) -> Prepared | Ended | Undone:
    """Return what follows from what a step is given; one that selects nothing has failed."""
    if found.problem and undo:
        return Undone(at=now, step=key, error=found.problem)
    if found.problem:
        return Ended(at=now, step=key, status="failed", error=found.problem)
    if found.skipped:
        return Ended(at=now, step=key, status="skipped")
    return Prepared(
        at=now,
        step=key,
        given=found.given or inline(""),
        attachments=found.attachments,
        items=found.items,
        call=_call(plan, key, found, undo=undo),
        undo=undo,
    )


def _call(plan: Plan, key: str, found: Selected, *, undo: bool) -> Call | None:
    """Return what runs, or waits for a person. A group has nothing of its own."""
    call_id = f"{key}-undo" if undo else key
    if found.call is not None:
        return found.call.model_copy(update={"id": call_id})
    match plan.step(key):
        case AgentStep():
            return Call(id=call_id, provider_id="", name=AGENT, arguments=inline(""))
        case GateStep():
            return Call(id=call_id, provider_id="", name=GATE, arguments=found.given or Content(text=""))
        case _:
            return None
