"""The Markdown that the Temporal UI shows of a run: what it does, what it waits for, and how a person acts on it."""

import json
import shlex
from collections.abc import Sequence

from core.content import Content, cut, one_line
from core.lines import readable_arguments, summary
from core.runs import RunSpec
from core.state import OpenCall, RunState
from core.switching import model_of
from core.view import allowed_tools, approved_calls
from core.waiting import conditions, pending_below, pending_call

COMMAND = "python starter.py"
SIGNING = "--by NAME --sign-with FILE"

SHOWN = 5
"""So many calls that wait are shown in full, and as many of those that are approved."""
LISTED = 40
DETAILS_BYTES = 12 * 1024
"""Longest text for the Temporal UI."""


def details(spec: RunSpec | None, state: RunState, workflow_id: str) -> str:
    """Return the Markdown that the Temporal UI shows of the run: what it does, and what it waits for."""
    parts = [_headline(spec, state)]
    parts += [_waiting(entry, workflow_id) for entry in state.pending[:SHOWN]]
    if len(state.pending) > SHOWN:
        parts.append(_more(state.pending[SHOWN:], workflow_id))
    parts += _below(state, workflow_id)
    if state.paused is not None:
        parts.append(
            f"### Paused\n\n```\n{_fenced(state.paused.why)}\n```\n\n"
            "To go on, send signal `resume` with `{}`, or type:\n\n"
            f"```\n{COMMAND} resume {shlex.quote(workflow_id)}\n```"
        )
    parts += _revocable(state, workflow_id)
    if state.running:
        parts.append("### Running\n\n" + "\n".join(f"- {_code(summary(entry.call))}" for entry in state.running))
    if state.artifacts:
        parts.append("### Artifacts\n\n" + "\n".join(f"- {_code(ref.described())}" for ref in state.artifacts[-10:]))
    parts.append("### Last steps\n\n" + "\n".join(f"- {_code(text)}" for text in reversed(state.recent)))
    return cut("\n\n".join(parts), DETAILS_BYTES)


def _below(state: RunState, workflow_id: str) -> list[str]:
    """Return what waits in the runs below: it can be decided here."""
    run, parts = shlex.quote(workflow_id), []
    for call in list(pending_below(state))[:SHOWN]:
        name = call.of.workflow_id if call.of else ""
        verb = "settle" if call.doubt else "answer" if call.question else "approve"
        parts.append(
            f"### {call.agent} waits below: {call.tool} ({_code(name)})\n\n"
            f"```\n{_fenced(_shown_arguments(call.arguments))}\n```\n\n"
            f"To decide, send signal `{verb}` with `{json.dumps({'id': call.id, 'by': 'your name'})}`, or type\n\n"
            f"```\n{COMMAND} {verb} {run} {shlex.quote(call.id)}\n```"
        )
    paused = [f"- {_code(each.run.workflow_id)}: {_code(each.paused)}" for each in state.below if each.paused]
    return [*parts, "### Paused below\n\n" + "\n".join(paused)] if paused else parts


def _revocable(state: RunState, workflow_id: str) -> list[str]:
    """Return what people have allowed and can take back, and how."""
    run, approved, allowed = shlex.quote(workflow_id), approved_calls(state), allowed_tools(state)
    lines = [f"- {_code(f'{each.call.id} {summary(each.call)}')}" for each in approved[:SHOWN]]
    lines += [f"- {_code(one_line(each, 300))} for the rest of the run" for each in allowed]
    if not lines:
        return []
    ways = [f"{COMMAND} revoke {run} {each.call.id}" for each in approved[:1]]
    ways += [f"{COMMAND} revoke {run} --tool {shlex.quote(name)}" for name in _tools(state)[:1]]
    return [
        "### Approved, not begun\n\n" + "\n".join(lines) + f"\n\nTo take one back:\n\n```\n{chr(10).join(ways)}\n```"
    ]


def _tools(state: RunState) -> tuple[str, ...]:
    return (*state.allowed, *(each.tool for each in state.allowances))


def _headline(spec: RunSpec | None, state: RunState) -> str:
    if spec is None:
        return "**opening**"
    usage = state.usage
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd is not None else ""
    facts = f"turn {state.turn}, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
    reason = f": {_code(state.reason)}" if state.reason else ""
    headline = (
        f"**{state.phase.replace('_', ' ')}**{reason} · {spec.agent} with {_code(model_of(spec, state))} · {facts}"
    )
    return f"{headline}\n\n{_code(spec.task)}" if spec.task else headline


def _waiting(entry: OpenCall, workflow_id: str) -> str:
    call = entry.call
    run = shlex.quote(workflow_id)
    artifact = call.arguments.artifact
    whole = f"The whole arguments:\n\n```\n{COMMAND} artifact get {run} {artifact.handle}\n```\n\n" if artifact else ""
    asked = f" since {entry.asked_at:%Y-%m-%d %H:%M:%S} UTC" if entry.asked_at else ""
    if entry.status == "awaiting_settlement":
        return _doubtful(entry, run, asked, whole)
    if entry.status == "awaiting_answer":
        return _question(entry, run, asked, whole)
    terms = "".join(f"- {_code(text)}\n" for text in conditions(pending_call(entry)))
    by_signal = (
        "send signal `approve` or `reject` with\n\n"
        f"```json\n{json.dumps({'id': call.id, 'by': 'your name', 'reason': 'why'})}\n```\n\nor "
    )
    return (
        f"### Waits for approval: {call.name} ({call.id}){asked}\n\n{terms}\n"
        f"```\n{_fenced(_shown_arguments(call.arguments))}\n```\n\n"
        f"{whole}To decide, {'' if _signs(entry) else by_signal}"
        f"type\n\n```\n{COMMAND} approve {run} {call.id}{_signs(entry)}\n```"
    )


def _more(waiting: Sequence[OpenCall], workflow_id: str) -> str:
    """Name further calls that wait, as many as make sense."""
    lines = [f"- {_code(one_line(f'{entry.call.id} {summary(entry.call)}', 80))}" for entry in waiting[:LISTED]]
    rest = [f"- and {len(waiting) - LISTED} more"] if len(waiting) > LISTED else []
    way = f"All of them, with what to type:\n\n```\n{COMMAND} state {shlex.quote(workflow_id)}\n```"
    return f"### {len(waiting)} more wait\n\n" + "\n".join([*lines, *rest]) + f"\n\n{way}"


def _question(entry: OpenCall, run: str, asked: str, whole: str) -> str:
    call = entry.call
    terms = "".join(f"- {_code(text)}\n" for text in conditions(pending_call(entry)))
    by_signal = (
        "send signal `answer` with\n\n"
        f"```json\n{json.dumps({'id': call.id, 'text': 'the answer', 'by': 'your name'})}\n```\n\nor "
    )
    return (
        f"### Waits for an answer ({call.id}){asked}\n\n{terms}\n"
        f"```\n{_fenced(_shown_arguments(call.arguments))}\n```\n\n"
        f"{whole}To answer, {'' if _signs(entry) else by_signal}"
        f"type\n\n```\n{COMMAND} answer {run} 'the answer'{_signs(entry)}\n```"
    )


def _doubtful(entry: OpenCall, run: str, asked: str, whole: str) -> str:
    call = entry.call
    why = one_line(entry.unsettled.why, 600) if entry.unsettled else ""
    options = ("done", "run-again", "give-up")
    ways = "\n".join(f"{COMMAND} settle {run} {call.id} --{option}{_signs(entry)}" for option in options)
    by_signal = (
        "send signal `settle` with `done`, `run_again` or `give_up`:\n\n"
        f"```json\n{json.dumps({'id': call.id, 'settlement': 'done', 'by': 'your name', 'reason': 'why'})}\n```\n\nor "
    )
    return (
        f"### Waits to be settled: did {call.name} ({call.id}) take effect?{asked}\n\n{_fenced(why)}\n\n"
        f"```\n{_fenced(_shown_arguments(call.arguments))}\n```\n\n"
        f"{whole}Look where it would show, then {'' if _signs(entry) else by_signal}type one of\n\n```\n{ways}\n```"
    )


def _signs(entry: OpenCall) -> str:
    """Return what a command needs besides, where only signed decisions count; else nothing."""
    return f" {SIGNING}" if entry.request and entry.request.keys else ""


def _shown_arguments(arguments: Content) -> str:
    return arguments.shown() if arguments.artifact is not None else readable_arguments(arguments.text or "")


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _fenced(text: str) -> str:
    return text.replace("```", "'''")
