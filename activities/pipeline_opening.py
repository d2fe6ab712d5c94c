"""Opening a run of a pipeline: what is wrong with it is found now, not days later."""

import json
from collections.abc import Iterator
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from activities.rules import check_rule
from activities.toolbox import Toolbox
from core.agents import PinnedAgent
from core.content import inline
from core.errors import InputError
from core.pipelines.file import STEPS, AgentStep, PipelineFile, ToolStep, ToolUse, selections
from core.pipelines.plan import Plan, faults
from core.pipelines.runs import OpenPipelineInput
from core.pipelines.selections import reads
from core.runs import AgentInput


def _uses(pipeline: PipelineFile) -> Iterator[tuple[str, ToolUse]]:
    for name, place in Plan(pipeline).places.items():
        if isinstance(place.step, ToolStep):
            yield name, place.step
        if isinstance(place.step, AgentStep | ToolStep) and place.step.undo is not None:
            yield name, place.step.undo


def check(pipeline: PipelineFile, agents: dict[str, PinnedAgent], toolbox: Toolbox) -> None:
    """Refuse what can't run here; a starter has checked the rest, but a run can be started by others too."""
    if wrong := faults(pipeline):
        raise InputError("; ".join(fault.text for fault in wrong[:5]))
    for name, use in _uses(pipeline):
        if use.tool not in toolbox.names:
            raise InputError(f"step {name}: {toolbox.unknown(use.tool)}")
        if isinstance(use, ToolStep) and use.approval is not None:
            check_rule(use.tool, use.approval)
    for name, place in Plan(pipeline).places.items():
        if isinstance(place.step, AgentStep):
            agent = agents.get(place.step.agent)
            if agent is None:
                raise InputError(f"step {name}: agent {place.step.agent} is not pinned; start with starter.py pipeline")
            for tool in agent.tools:
                if tool not in toolbox.names:
                    raise InputError(f"step {name}: agent {agent.name}: {toolbox.unknown(tool)}")


def reads_of(pipeline: PipelineFile) -> dict[str, tuple[str, ...]]:
    """Return which steps each step selects from; under `ID-undo`, which its undo does."""
    found: dict[str, set[str]] = {}
    for name, place in Plan(pipeline).places.items():
        for field, text in selections(place.step).items():
            try:
                read = reads(jmespath.compile(text).parsed)
            except (JMESPathError, ValueError, RecursionError) as error:
                raise InputError(f"step {name}: {field}: {text!r} is no JMESPath ({error})") from error
            unknown = [step for step in read.steps if step not in Plan(pipeline).places]
            if read.problem or unknown:
                raise InputError(f"step {name}: {field}: {text!r} {read.problem or f'reads unknown {unknown[0]}'}")
            key = f"{name}-undo" if field.startswith("undo.") else name
            found.setdefault(key, set()).update(read.steps)
    return {key: tuple(sorted(steps)) for key, steps in found.items()}


def read_inputs(text: str) -> dict[str, Any]:
    """Return the inputs as they were given."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InputError("the inputs are no JSON object; give them with --input NAME=VALUE")
    return given


def as_agent(pipeline: PipelineFile, by: str, opening: OpenPipelineInput) -> AgentInput:
    """Return a run of an agent that has all the tools: how the tools of a pipeline are resolved and pinned."""
    names = tuple(dict.fromkeys(use.tool for _, use in _uses(pipeline)))[:STEPS]
    agent = PinnedAgent(
        name=f"pipeline-{pipeline.name}"[:63],
        description=pipeline.description,
        tools=names,
        secrets=pipeline.secrets,
        instructions=inline("Runs the tools of a pipeline."),
    )
    return AgentInput(
        agent=agent,
        task=inline(f"Run pipeline {pipeline.name}."),
        model="offline",
        by=by,
        heartbeat_timeout=opening.start.heartbeat_timeout,
        search_attributes=opening.start.search_attributes,
    )
