"""Starting a run of a pipeline: its file, agents and inputs are checked and pinned; its id is its idempotency key."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from core.agents import AgentFile
from core.artifacts import Artifacts
from core.content import cut, inline, one_line, readable_bytes
from core.errors import InputError
from core.frozen import Frozen
from core.pipelines.file import AgentStep, Group, PipelineFile
from core.pipelines.graph import tree
from core.pipelines.inputs import inputs_of
from core.pipelines.plan import AnyStep, Plan, step_of
from core.pipelines.runs import ContinuedPipeline, PipelineInput, Reuse
from core.runs import START_BYTES
from infra.launch import DETAILS_BYTES, SUMMARY_BYTES, Launched, made_up_id, pinned, user_name
from infra.model_names import check_model
from infra.pipeline_files import agents_of, read_pipeline
from infra.pipeline_runs import PIPELINE, PipelineRuns
from infra.runs import CALL_TIMEOUT, check_run_id
from infra.settings import Settings
from infra.store import opened_storage
from infra.temporal import AGENT_NAME, AGENT_PHASE, has_search_attributes

FILE = "@"
"""What stands before a path: the file is stored, and its handle is the value."""


class PipelineOrder(Frozen):
    """What a person wants run; checked, nothing is sent yet."""

    id: str
    pipeline: PipelineFile
    agents: dict[str, AgentFile]
    inputs: dict[str, Any]
    files: dict[str, tuple[Path, ...]]
    model: str | None = None


def make_pipeline_order(
    path: Path, given: Sequence[str], *, run: str | None, models: Sequence[str], agents_dir: Path
) -> PipelineOrder:
    """Check what a person wants run.

    Raises:
        InputError: the file, an agent or an input is wrong.
    """
    pipeline, model = _with_models(read_pipeline(path), models)
    inputs, files = _read_inputs(pipeline, given)
    stand_ins = {name: [FILE] if pipeline.inputs[name].type == "list" else FILE for name in files}
    inputs_of(pipeline, {**inputs, **stand_ins})
    return PipelineOrder(
        id=made_up_id(pipeline.name) if run is None else check_run_id(run),
        pipeline=pipeline,
        agents=agents_of(pipeline, path, agents_dir),
        inputs=inputs,
        files=files,
        model=model,
    )


def _with_models(pipeline: PipelineFile, models: Sequence[str]) -> tuple[PipelineFile, str | None]:
    """Return the pipeline with the models of its steps (`STEP=MODEL`), and the one for all others (`MODEL`)."""
    for_all: str | None = None
    of_steps: dict[str, str] = {}
    agents = [name for name, place in Plan(pipeline).places.items() if isinstance(place.step, AgentStep)]
    for text in models:
        name, equals, model = text.partition("=")
        if equals and name not in agents:
            raise InputError(
                f"--model {text!r}: {name!r} is no step of an agent; there are: {', '.join(agents) or 'none'}"
            )
        if equals:
            of_steps[name] = check_model(model)
        else:
            for_all = check_model(text)
    steps = tuple(_with_model(step, of_steps) for step in pipeline.steps)
    return pipeline.model_copy(update={"steps": steps}), for_all


def _with_model(step: AnyStep, models: Mapping[str, str]) -> AnyStep:
    if isinstance(step, Group):
        return step.model_copy(update={"steps": tuple(_with_model(inner, models) for inner in step.steps)})
    return step.model_copy(update={"model": models[step.id]}) if step.id in models else step


def _read_inputs(pipeline: PipelineFile, given: Sequence[str]) -> tuple[dict[str, Any], dict[str, tuple[Path, ...]]]:
    """Read `NAME=VALUE`: a text where the input is one, else JSON; `NAME=@FILE` for a file's handle."""
    inputs: dict[str, Any] = {}
    files: dict[str, tuple[Path, ...]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in pipeline.inputs:
            known = ", ".join(pipeline.inputs) or "none"
            raise InputError(f"--input {one_line(text, 60)!r} names no input; write NAME=VALUE; inputs: {known}")
        kind = pipeline.inputs[name].type
        if value.startswith(FILE):
            path = Path(value[1:])
            if not path.is_file():
                raise InputError(f"--input {name}: there is no file {str(path)!r}; check the path")
            if kind not in {"list", "string"}:
                raise InputError(f"--input {name}: a file's handle is a string, and {name} must be a {kind}")
            files[name] = (*files.get(name, ()), path)
        elif kind == "string":
            inputs[name] = value
        else:
            inputs[name] = _json(name, kind, value)
    return inputs, files


def _json(name: str, kind: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InputError(f"--input {name} must be a {kind}, as JSON; it is {one_line(value, 60)!r}") from None


async def launch_pipeline(
    runs: PipelineRuns, settings: Settings, order: PipelineOrder, tell: Callable[[str], None] | None = None
) -> Launched:
    """Start the run, or attach to the one that has its id already. Idempotent by the id.

    Raises:
        InputError: all of it is too long for a start input.
        StorageError: nothing was started.
        ServerUnavailable: it may have been started all the same.
    """
    async with opened_storage(settings, tell) as storage:
        artifacts = storage.artifacts(order.id)
        start = PipelineInput(
            pipeline=order.pipeline,
            inputs=await _stored_inputs(artifacts, order),
            agents={name: await pinned(artifacts, agent) for name, agent in order.agents.items()},
            model=order.model,
        )
    return await start_pipeline(runs, settings, order.id, start, order.inputs)


async def _stored_inputs(artifacts: Artifacts, order: PipelineOrder) -> Any:
    inputs = dict(order.inputs)
    for name, paths in order.files.items():
        handles = [(await artifacts.store_file(path, path.name)).handle for path in paths]
        listed = order.pipeline.inputs[name].type == "list"
        inputs[name] = [*inputs.get(name, []), *handles] if listed else handles[-1]
    text = json.dumps(inputs_of(order.pipeline, inputs), ensure_ascii=False)
    return await artifacts.store_text(text, "inputs.json", "application/json")


async def start_pipeline(
    runs: PipelineRuns, settings: Settings, run: str, start: PipelineInput, inputs: Mapping[str, Any]
) -> Launched:
    """Start the workflow, or attach to the one that has the id. Raises as `launch_pipeline`."""
    attributes = await has_search_attributes(runs.client)
    start = start.model_copy(
        update={
            "by": user_name(),
            "heartbeat_timeout": settings.heartbeat_timeout,
            "search_attributes": attributes,
        }
    )
    size_bytes = len(start.model_dump_json().encode())
    if size_bytes > START_BYTES:
        raise InputError(
            f"the start input has {readable_bytes(size_bytes)}, at most {readable_bytes(START_BYTES)} are sent: "
            "shorten the pipeline or its agents"
        )
    name = start.pipeline.name
    pairs = [SearchAttributePair(AGENT_NAME, name), SearchAttributePair(AGENT_PHASE, "running")]
    said = one_line(", ".join(f"{key}={json.dumps(value)}" for key, value in inputs.items()), 160)
    with runs.translated(run):
        try:
            handle = await runs.client.start_workflow(
                PIPELINE,
                start,
                id=run,
                task_queue=settings.task_queue,
                task_timeout=settings.workflow_task_timeout,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                search_attributes=TypedSearchAttributes(pairs if attributes else []),
                memo={"agent": name, "task": said},
                static_summary=cut(f"{name}: {said}", SUMMARY_BYTES),
                static_details=cut("```\n" + "\n".join(tree(start.pipeline)) + "\n```", DETAILS_BYTES),
                rpc_timeout=CALL_TIMEOUT,
            )
        except WorkflowAlreadyStartedError:
            info = await runs.info(run)
            note = f"run {run} exists already ({info.status}); attached to it"
            return Launched(id=run, run_id=info.run_id, attached=True, note=note)
    return Launched(id=run, run_id=handle.result_run_id or "")


def rerun_input(origin: ContinuedPipeline, step: str, pipeline: PipelineFile | None) -> PipelineInput:
    """Return the start of a rerun: what came before the step is taken from the origin, the rest is done anew.

    Raises:
        InputError: there is no such step, it stands in another one, or what came before it has not ended.
    """
    spec, state = origin.spec, origin.state
    plan = Plan(pipeline or spec.pipeline)
    if step not in plan.members[""]:
        raise InputError(f"a rerun begins at one of: {', '.join(plan.members[''])}; {step!r} is none of them")
    anew = _with_inner(plan, plan.after(step))
    kept = {key: run for key, run in state.runs.items() if step_of(key) in plan.places and step_of(key) not in anew}
    for key, run in kept.items():
        fine = run.status in {"done", "skipped"} or plan.on_failure(key) == "continue"
        if not run.ended or run.undo or (not fine and not plan.places[step_of(key)].group):
            raise InputError(f"{key} comes before {step} and is {run.shown}: rerun from {step_of(key)}")
    if missing := [name for name in plan.members[""] if name not in anew and name not in kept]:
        raise InputError(f"{missing[0]} comes before {step} and did not run: rerun from {missing[0]}")
    return PipelineInput(
        pipeline=pipeline or spec.pipeline,
        inputs=spec.inputs if spec.inputs.artifact else inline(spec.inputs.text or "{}"),
        agents=spec.agents,
        model=spec.model,
        reuse=Reuse(origin=spec.run, step=step, runs=kept),
    )


def _with_inner(plan: Plan, names: set[str]) -> set[str]:
    found = set(names)
    for name, place in plan.places.items():
        if place.group in found:
            found.add(name)
    return found
