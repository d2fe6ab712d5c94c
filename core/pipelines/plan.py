"""The plan of a pipeline: where each step stands, what it needs, and which runs of it there are. Pure.

A step outside of any `for_each` runs once, under its own id; one inside runs for each item: `merge.2` is step `merge`
of the third item, `look.0.4` one of a `for_each` in a `for_each`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from core.frozen import Frozen
from core.pipelines.file import (
    DEPTH,
    STEPS,
    AgentStep,
    ForEachStep,
    GateStep,
    Group,
    OnFailure,
    ParallelStep,
    PipelineFile,
    ToolStep,
)

AnyStep = AgentStep | ToolStep | GateStep | ForEachStep | ParallelStep


@dataclass(frozen=True)
class Place:
    """Where a step stands: in which group (empty: in none), what it needs there, how many `for_each` are around it."""

    step: AnyStep
    group: str
    needs: tuple[str, ...]
    loops: int


class Fault(Frozen):
    """What is wrong with a file: at which field (a path of names and numbers), and what to do."""

    where: tuple[str, ...]
    text: str


class Plan:
    """The steps of a pipeline without faults, by id."""

    def __init__(self, pipeline: PipelineFile) -> None:
        self.pipeline = pipeline
        self.places = {place.step.id: place for place in placed(pipeline)}
        self.members: dict[str, tuple[str, ...]] = {}
        for name, place in self.places.items():
            self.members[place.group] = (*self.members.get(place.group, ()), name)

    def step(self, key: str) -> AnyStep:
        """Return the step of a run of it."""
        return self.places[step_of(key)].step

    def on_failure(self, key: str) -> OnFailure:
        """Return what follows when this step fails, or a gate is rejected."""
        step = self.step(key)
        if step.on_failure is not None:
            return step.on_failure
        return "compensate" if isinstance(step, GateStep) else self.pipeline.on_failure

    def key(self, step_id: str, indices: tuple[str, ...]) -> str:
        """Return the run of a step that one with these indices sees."""
        return ".".join((step_id, *indices[: self.places[step_id].loops]))

    def loops(self, step_id: str) -> tuple[str, ...]:
        """Return the `for_each` steps around a step, the outermost first."""
        found: list[str] = []
        group = self.places[step_id].group
        while group:
            if isinstance(self.places[group].step, ForEachStep):
                found.insert(0, group)
            group = self.places[group].group
        return tuple(found)

    def before(self, step_id: str) -> set[str]:
        """Return all steps that have ended whenever this one starts, but for those inside of others."""
        found: set[str] = set()
        at = step_id
        while at:
            found |= self._needed(at)
            at = self.places[at].group
        return found

    def after(self, step_id: str) -> set[str]:
        """Return the top steps that come after this one, and it: what a rerun from it does anew."""
        top = self.members[""]
        return {name for name in top if name == step_id or step_id in self._needed(name)}

    def _needed(self, step_id: str) -> set[str]:
        found: set[str] = set()
        todo = list(self.places[step_id].needs)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.places[name].needs
        return found


def step_of(key: str) -> str:
    """Return the id of the step of a run of it."""
    return key.partition(".")[0]


def indices_of(key: str) -> tuple[str, ...]:
    """Return which items a run of a step is for, the outermost first."""
    return tuple(key.split(".")[1:])


def placed(pipeline: PipelineFile) -> Iterator[Place]:
    """Yield all steps, in the order of the file."""
    yield from _placed(pipeline.steps, "", 0, ordered=True)


def _placed(steps: tuple[AnyStep, ...], group: str, loops: int, *, ordered: bool) -> Iterator[Place]:
    before: tuple[str, ...] = ()
    for step in steps:
        needs = step.needs if step.needs is not None else before
        yield Place(step=step, group=group, needs=needs, loops=loops)
        if isinstance(step, ForEachStep | ParallelStep):
            inner = loops + isinstance(step, ForEachStep)
            yield from _placed(step.steps, step.id, inner, ordered=isinstance(step, ForEachStep))
        before = (step.id,) if ordered else ()


def faults(pipeline: PipelineFile) -> list[Fault]:
    """Return what is wrong with the order of the steps: names, cycles, depth, number."""
    found: list[Fault] = []
    paths = dict(_paths(pipeline.steps, ("steps",)))
    names = [step.id for step in paths.values()]
    if len(names) > STEPS:
        found.append(Fault(where=("steps",), text=f"has {len(names)} steps; at most {STEPS}: use a for_each"))
    seen: dict[str, tuple[str, ...]] = {}
    for path, step in paths.items():
        if step.id in seen:
            found.append(Fault(where=(*path, "id"), text=f"{step.id} is given twice; each step needs its own id"))
        seen.setdefault(step.id, path)
        if len(path) > 2 * DEPTH:
            found.append(Fault(where=path, text=f"{step.id} stands in too many others; at most {DEPTH - 1}"))
    return found or _order_faults(pipeline, seen)


def _paths(steps: tuple[AnyStep, ...], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], AnyStep]]:
    for number, step in enumerate(steps):
        here = (*path, str(number))
        yield here, step
        if isinstance(step, Group):
            yield from _paths(step.steps, (*here, "steps"))


def _order_faults(pipeline: PipelineFile, paths: dict[str, tuple[str, ...]]) -> list[Fault]:
    places = {place.step.id: place for place in placed(pipeline)}
    found = []
    for name, place in places.items():
        beside = [other for other, there in places.items() if there.group == place.group and other != name]
        for needed in place.needs:
            where = (*paths[name], "needs")
            if needed == name:
                found.append(Fault(where=where, text=f"{name} needs itself: a cycle; take it out"))
            elif needed not in places:
                known = ", ".join(beside) or "none"
                found.append(Fault(where=where, text=f"there is no step {needed}; steps beside {name}: {known}"))
            elif needed not in beside:
                text = f"{needed} is not beside {name}, it is in {places[needed].group or 'no group'}; "
                found.append(Fault(where=where, text=f"{text}need one of: {', '.join(beside) or 'none'}"))
    return found or _cycles(places, paths)


def _cycles(places: dict[str, Place], paths: dict[str, tuple[str, ...]]) -> list[Fault]:
    """Return the cycle, and the steps that would never be reached because they need one of it."""
    left = {name: set(place.needs) for name, place in places.items()}
    while ready := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in ready:
            del left[name]
    if not left:
        return []
    cycle = _one_cycle(left)
    text = f"{' needs '.join([*cycle, cycle[0]])}: a cycle, none of them could ever start; take one `needs` out"
    found = [Fault(where=(*paths[cycle[0]], "needs"), text=text)]
    for name in left.keys() - set(cycle):
        why = f"{name} is never reached: it needs {', '.join(sorted(left[name] & left.keys()))}, which can't start"
        found.append(Fault(where=(*paths[name], "needs"), text=f"{why}; mend that first"))
    return found


def _one_cycle(left: dict[str, set[str]]) -> list[str]:
    seen: list[str] = []
    at = next(iter(left))
    while at not in seen:
        seen.append(at)
        at = min(left[at] & left.keys())
    return seen[seen.index(at) :]


def path_of(pipeline: PipelineFile, step_id: str) -> tuple[str, ...]:
    """Return where a step stands in the file, as names and numbers."""
    return next(path for path, step in _paths(pipeline.steps, ("steps",)) if step.id == step_id)
