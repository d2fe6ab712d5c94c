"""Pipelines as files: read and checked as a whole before anything runs. Every error names file, line, field and cure.

Which tools there are is known to the workers: the one that opens the run refuses those that it does not have.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from core.agents import AgentFile
from core.content import one_line
from core.errors import InputError
from core.pipelines.file import (
    AgentStep,
    ForEachStep,
    GateStep,
    Group,
    InputType,
    ParallelStep,
    PipelineFile,
    ToolStep,
    selections,
)
from core.pipelines.plan import Fault, Plan, faults, path_of
from core.pipelines.selections import Reads, reads, type_of
from core.wording import fault
from infra.agent_files import load_agent, load_team
from infra.yaml_lines import Lined, read_yaml

FILE_BYTES = 256 * 1024
FOLDER = Path("pipelines")
KINDS: Mapping[str, type[BaseModel]] = {
    "agent": AgentStep,
    "tool": ToolStep,
    "gate": GateStep,
    "for_each": ForEachStep,
    "parallel": ParallelStep,
}


def find_pipeline(name: str) -> Path:
    """Return the file that a person means: a path, or the name of a pipeline of the folder `pipelines`.

    Raises:
        InputError: there is none; those that there are are named.
    """
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    known = sorted(each.stem for each in FOLDER.glob("*.yaml"))
    if name in known:
        return FOLDER / f"{name}.yaml"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no pipeline {one_line(name, 80)!r}; {hint}known: {', '.join(known) or 'none'}")


def read_pipeline(path: Path) -> PipelineFile:
    """Read a pipeline and check all that can be checked without its agents.

    Raises:
        InputError: it can't be read, or is wrong; one line for each fault.
    """
    lined = read_yaml(_text(path), str(path))
    try:
        pipeline = PipelineFile.model_validate(lined.value)
    except ValidationError as error:
        # Steps that are wrong are no items to pydantic: a list of them is no empty one.
        told = [each for each in error.errors(include_url=False) if each["type"] != "too_short" or not each["input"]]
        problems = dict.fromkeys(_explain(each, lined, path) for each in told)
        raise InputError("\n".join(problems)) from None
    found = faults(pipeline)
    if not found:
        found = [*_selection_faults(pipeline), *_other_faults(pipeline)]
    if found:
        raise InputError("\n".join(f"{path}:{lined.line_of(each.where)}: {_said(each)}" for each in found))
    return pipeline


def agents_of(pipeline: PipelineFile, path: Path, folder: Path) -> dict[str, AgentFile]:
    """Load the agents that a pipeline names, and those that they may hand tasks to.

    Raises:
        InputError: there is no such agent, or its file is wrong.
    """
    found: dict[str, AgentFile] = {}
    for name, place in Plan(pipeline).places.items():
        if isinstance(place.step, AgentStep) and place.step.agent not in found:
            try:
                agent = load_agent(place.step.agent, folder)
                found |= {each.name: each for each in (agent, *load_team(agent, folder))}
            except InputError as error:
                line = read_yaml(_text(path), str(path)).line_of((*path_of(pipeline, name), "agent"))
                raise InputError(f"{path}:{line}: step {name}: {error}") from None
    return found


def _said(found: Fault) -> str:
    names = [part for part in found.where if not part.isdigit() and part != "steps"]
    return f"{'.'.join(names)}: {found.text}" if names else found.text


def _selection_faults(pipeline: PipelineFile) -> Iterator[Fault]:
    plan = Plan(pipeline)
    for name, place in plan.places.items():
        for field, text in selections(place.step).items():
            where = (*path_of(pipeline, name), *field.split("."))
            why = _selection_fault(plan, name, field, text)
            if why:
                yield Fault(where=where, text=f"step {name}: {why}")


def _selection_fault(plan: Plan, name: str, field: str, text: str) -> str:
    """Say what is wrong with a selection; empty when nothing is."""
    try:
        parsed = jmespath.compile(text).parsed
    except JMESPathError as error:
        return f"{text!r} is no JMESPath ({one_line(str(error), 200)}); write it like steps.plan.output"
    found = reads(parsed)
    why = found.problem or _unknown(plan, name, field, found)
    if why:
        return f"{text!r} {why}"
    wanted: InputType | None = "list" if field in {"items", "attach"} else "boolean" if field == "when" else None
    gives = type_of(parsed, lambda kind, read: _known_type(plan, kind, read))
    if wanted and gives not in {wanted, None}:
        return f"{text!r} gives a {gives}, and {field} must be a {wanted}{_cure(wanted)}"
    return ""


def _cure(wanted: InputType) -> str:
    return ": compare it, such as steps.plan.status == 'done'" if wanted == "boolean" else ": select a list"


def _unknown(plan: Plan, name: str, field: str, found: Reads) -> str:
    inputs = plan.pipeline.inputs
    for read in found.inputs:
        if read not in inputs:
            return f"reads input {read}, which is not there; inputs: {', '.join(inputs) or 'none'}"
    if found.item and not plan.loops(name):
        return "reads item or index, and the step is in no for_each"
    before = plan.before(name) | ({name} if field.startswith("undo.") else set())
    for read in found.steps:
        if read not in plan.places:
            near = difflib.get_close_matches(read, before, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            return f"reads step {read}, which is not there; {hint}it may read: {', '.join(sorted(before)) or 'none'}"
        if read not in before:
            return f"reads step {read}, {_why_not(plan, name, read)}"
    return ""


def _why_not(plan: Plan, name: str, read: str) -> str:
    group = plan.places[read].group
    if group != plan.places[name].group and group in plan.before(name):
        path = "items[*]" if isinstance(plan.places[group].step, ForEachStep) else "output"
        return f"which is in {group}; select steps.{group}.{path}.{read}"
    return "which need not have ended by then; add it to its needs, or move the step behind it"


def _known_type(plan: Plan, kind: str, read: str) -> InputType | None:
    if kind == "inputs":
        return plan.pipeline.inputs[read].type
    step = plan.places[read].step
    if isinstance(step, Group):
        return "list" if isinstance(step, ForEachStep) else "object"
    return None


def _other_faults(pipeline: PipelineFile) -> Iterator[Fault]:
    for name, place in Plan(pipeline).places.items():
        step, path = place.step, path_of(pipeline, name)
        uses = [((), step)] if isinstance(step, ToolStep) else []
        undo = step.undo if isinstance(step, AgentStep | ToolStep) else None
        for where, use in (*uses, *([(("undo",), undo)] if undo is not None else [])):
            for twice in sorted(set(use.arguments) & set(use.select)):
                why = f"step {name}: {twice} is given and selected; keep one of the two"
                yield Fault(where=(*path, *where, "select", twice), text=why)


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(f"{path} can't be read: there is no such file; check the path")
        if path.stat().st_size > FILE_BYTES:
            raise InputError(f"{path} has more than {FILE_BYTES:,} bytes; a pipeline is shorter: give data as inputs")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text (byte {error.start:,}); save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}); check its permissions") from error


def _explain(problem: ErrorDetails, lined: Lined, path: Path) -> str:
    """Write one problem in one line: file, line, field, what is wrong, the cure."""
    where = _where(problem["loc"])
    line = lined.line_of(where)
    field = ".".join(part for part in where if not part.isdigit()) or "the file"
    match problem["type"]:
        case "extra_forbidden":
            known = list(_model_of(where, lined).model_fields)
            near = difflib.get_close_matches(where[-1], known, n=1)
            cure = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            return f"{path}:{line}: {field}: there is no such field; {cure}"
        case "union_tag_invalid" | "union_tag_not_found":
            given = problem.get("ctx", {}).get("tag", "")
            said = f"there is no kind {one_line(str(given), 40)!r}" if given else "its kind is missing"
            line = lined.line_of((*where, "kind"))
            return f"{path}:{line}: {field}: {said}; kinds: {', '.join(KINDS)}"
        case "missing":
            return f"{path}:{line}: {field}: is missing; add it"
        case "string_pattern_mismatch":
            rule = "must be a-z, 0-9 and _, a letter first (a pipeline's name also -)"
            return f"{path}:{line}: {field}: {rule}, it is {one_line(repr(problem['input']), 60)}"
        case kind:
            said = "" if kind == "value_error" else f", it is {one_line(repr(problem['input']), 60)}"
            return f"{path}:{line}: {field}: {fault(problem)}{said}"


def _where(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return a place in the file: pydantic puts the kind of a step into its path."""
    where: list[str] = []
    tagged = False
    for part in map(str, loc):
        of_step = len(where) > 1 and where[-1].isdigit() and where[-2] == "steps" and part in KINDS
        if not of_step or tagged:
            where.append(part)
        tagged = of_step and not tagged
    return tuple(where)


def _model_of(where: tuple[str, ...], lined: Lined) -> type[BaseModel]:
    """Return the model that a field would belong to."""
    value: Any = lined.value
    model: type[BaseModel] = PipelineFile
    for part in where[:-1]:
        value = value[int(part)] if isinstance(value, list) else value[part]
        if isinstance(value, dict) and "kind" in value:
            model = KINDS.get(str(value["kind"]), model)
        elif isinstance(value, dict) and part in {"undo", "retry", "approval"}:
            field = model.model_fields[part].annotation
            options = [field, *getattr(field, "__args__", ())]
            model = next((each for each in options if isinstance(each, type) and issubclass(each, BaseModel)), model)
    return model
