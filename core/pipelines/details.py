"""The Markdown that the Temporal UI shows of a run of a pipeline: where it stands, and how a person acts on it."""

import json
import shlex

from core.content import cut, one_line
from core.lines import readable_arguments
from core.pipelines.runs import PipelineSpec
from core.pipelines.state import PipelineState, for_people
from core.state import OpenCall
from core.waiting import conditions, pending_below, pending_call

COMMAND = "python starter.py pipeline"
DETAILS_BYTES = 12 * 1024
STEPS_SHOWN = 60
PENDING_SHOWN = 5


def details(spec: PipelineSpec | None, state: PipelineState, workflow_id: str) -> str:
    """Return the Markdown: phase, what waits for whom, the steps, the last lines."""
    reason = f": {_code(state.reason)}" if state.reason else ""
    name = f" · {spec.pipeline.name}" if spec else ""
    parts = [f"**{state.phase.replace('_', ' ')}**{reason}{name}"]
    if state.ending is not None and state.outcome is None:
        parts.append(f"Comes to its end: {_code(state.ending.reason)}")
    if state.undo_failed:
        parts.append(f"### Could NOT be undone\n\n{_code(', '.join(state.undo_failed))}")
    parts += [_waiting(each, workflow_id) for each in state.pending[:PENDING_SHOWN]]
    for call in list(pending_below(for_people(state)))[:PENDING_SHOWN]:
        act = "answer" if call.question else "settle" if call.doubt else "approve"
        way = f"{COMMAND} {act} {shlex.quote(workflow_id)} {shlex.quote(call.id)}"
        parts.append(f"### {call.agent} waits: {call.tool}\n\n```\n{_fenced(call.arguments.shown())}\n{way}\n```")
    if len(state.pending) > PENDING_SHOWN:
        parts.append(f"and {len(state.pending) - PENDING_SHOWN} more: `{COMMAND} state {shlex.quote(workflow_id)}`")
    if state.paused is not None:
        why = state.paused.why.replace("```", "'''")
        parts.append(f"### Paused\n\n```\n{why}\n```\n\nTo go on, send signal `resume` with `{{}}`.")
    parts.append("### Steps\n\n" + "\n".join(_steps(state)))
    parts.append("### Last\n\n" + "\n".join(f"- {_code(text)}" for text in reversed(state.recent)))
    return cut("\n\n".join(parts), DETAILS_BYTES)


def _steps(state: PipelineState) -> list[str]:
    shown = list(state.runs.items())[-STEPS_SHOWN:]
    lines = [] if len(shown) == len(state.runs) else [f"- {len(state.runs) - len(shown)} earlier ones"]
    for key, run in shown:
        error = f": {_code(one_line(run.undo_error or run.error, 160))}" if run.undo_error or run.error else ""
        child = f" ({_code(run.child)})" if run.child else ""
        lines.append(f"- {_code(key)} {run.shown.replace('_', ' ')}{child}{error}")
    return lines


def _waiting(entry: OpenCall, workflow_id: str) -> str:
    call, run = entry.call, shlex.quote(workflow_id)
    shown = call.arguments.shown() if call.arguments.artifact else readable_arguments(call.arguments.text or "")
    if entry.status == "awaiting_settlement":
        why = one_line(entry.unsettled.why, 600) if entry.unsettled else ""
        return (
            f"### Waits to be settled: did {call.name} ({call.id}) take effect?\n\n{why.replace('`', ' ')}\n\n"
            f"```\n{_fenced(shown)}\n```\n\nLook where it would show, then type one of\n\n```\n"
            + "\n".join(f"{COMMAND} settle {run} {call.id} --{way}" for way in ("done", "run-again", "give-up"))
            + "\n```"
        )
    terms = "".join(f"- {_code(text)}\n" for text in conditions(pending_call(entry)))
    said = json.dumps({"id": call.id, "by": "your name", "reason": "why"})
    return (
        f"### Waits for approval: {call.id}\n\n{terms}\n```\n{_fenced(shown)}\n```\n\n"
        f"Send signal `approve` or `reject` with\n\n```json\n{said}\n```\n\nor type\n\n"
        f"```\n{COMMAND} approve {run} {call.id}\n```"
    )


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _fenced(text: str) -> str:
    return text.replace("```", "'''")
