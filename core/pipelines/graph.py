"""A pipeline as a picture: a tree for the terminal, and Mermaid. Pure."""

from collections.abc import Iterator, Mapping

from core.content import one_line
from core.pipelines.file import AgentStep, ForEachStep, GateStep, Group, ParallelStep, PipelineFile, ToolStep
from core.pipelines.plan import AnyStep, Plan


def tree(pipeline: PipelineFile, status: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of a tree of the steps; `status` is what stands behind a step."""
    plan = Plan(pipeline)
    width = max(2 + 3 * _depth(plan, name) + len(name) for name in plan.places)
    return [pipeline.name, *_branches(plan, "", "", width, status or {})]


def _branches(plan: Plan, group: str, margin: str, width: int, status: Mapping[str, str]) -> Iterator[str]:
    names = plan.members[group]
    for name in names:
        last = name == names[-1]
        head = f"{margin}{'└' if last else '├'}─ {name}"
        says = "  ".join(part for part in (about(plan.places[name].step), _after(plan, name), status.get(name)) if part)
        yield f"{head:<{width + 2}} {says}".rstrip()
        if name in plan.members:
            yield from _branches(plan, name, margin + ("   " if last else "│  "), width, status)


def _depth(plan: Plan, name: str) -> int:
    depth = 0
    while name := plan.places[name].group:
        depth += 1
    return depth


def about(step: AnyStep) -> str:
    """Say in a few words what a step is."""
    extra = [f"when {one_line(step.when, 40)}"] if step.when else []
    if isinstance(step, AgentStep | ToolStep) and step.undo is not None:
        extra.append(f"undo: {step.undo.tool}")
    if step.on_failure is not None:
        extra.append(f"on failure: {step.on_failure}")
    return "; ".join([_kind(step), *extra])


def _kind(step: AnyStep) -> str:
    match step:
        case AgentStep():
            return f"agent {step.agent}"
        case ToolStep():
            return f"tool {step.tool}"
        case GateStep():
            return f"gate: {one_line(step.ask, 50)}"
        case ForEachStep():
            return f"for each of {one_line(step.items, 40)}, {step.at_once} at once"
        case ParallelStep():
            return f"parallel, {step.at_once} at once"


def _after(plan: Plan, name: str) -> str:
    """Say what a step needs, where that is not simply the one before it."""
    place = plan.places[name]
    beside = plan.members[place.group]
    number = beside.index(name)
    parallel = bool(place.group) and isinstance(plan.places[place.group].step, ParallelStep)
    before = beside[number - 1 : number] if number and not parallel else ()
    if place.needs == tuple(before):
        return ""
    return f"(after {', '.join(place.needs)})" if place.needs else "(at once)"


_SHAPES = {"agent": ("([", "])"), "tool": ("[", "]"), "gate": ("{{", "}}")}


def mermaid(pipeline: PipelineFile) -> str:
    """Return the graph in Mermaid: as GitHub and many editors draw it. Undo steps stand dotted beside theirs."""
    plan = Plan(pipeline)
    return "\n".join(["flowchart TD", *_boxes(plan, "", "  "), *_arrows(plan)])


def _boxes(plan: Plan, group: str, margin: str) -> Iterator[str]:
    for name in plan.members[group]:
        step = plan.places[name].step
        label = _quoted(f"{name}<br/>{_escaped(_kind(step))}")
        if isinstance(step, Group):
            yield f"{margin}subgraph {name} [{label}]"
            yield from _boxes(plan, name, margin + "  ")
            yield f"{margin}end"
        else:
            opening, closing = _SHAPES[step.kind]
            yield f"{margin}{name}{opening}{label}{closing}"


def _arrows(plan: Plan) -> Iterator[str]:
    for name, place in plan.places.items():
        for needed in place.needs:
            yield f"  {needed} --> {name}"
        undo = getattr(place.step, "undo", None)
        if undo is not None:
            yield f"  {name} -.-> {name}__undo[{_quoted('undo: ' + undo.tool)}]"


def _escaped(text: str) -> str:
    for character, code in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(character, code)
    return text


def _quoted(text: str) -> str:
    return f'"{text}"'
