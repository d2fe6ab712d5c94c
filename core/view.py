"""A run as people see it: the answers to the queries `state` and `progress`, and the Markdown of the Temporal UI."""

import json
import shlex
from datetime import datetime

from pydantic import Field

from core.chat import Usage
from core.content import ArtifactRef, Content, cut, one_line
from core.entries import Outcome, RunRef
from core.frozen import Frozen
from core.journal import Head
from core.lines import readable_arguments, summary
from core.runs import RunSpec
from core.state import OpenCall, Phase, RunState, TakenAct

COMMAND = "python starter.py"
SIGNING = "--by NAME --sign-with FILE"

DETAILS_BYTES = 12 * 1024
"""Longest text for the Temporal UI."""


class PendingCall(Frozen):
    """A call that waits for a person: what would run, exactly."""

    id: str
    tool: str
    arguments: Content
    asked_at: datetime | None
    reason: str = ""
    """Why a person is asked, as the policy says."""
    risk: str = ""
    digest: str = ""
    """SHA-256 (hex) of exactly what is asked for; a decision may name it, or its beginning."""
    needed: int = 1
    approvers: tuple[str, ...] = ()
    """Who may decide; empty: anybody."""
    keys: dict[str, str] = Field(default_factory=dict)
    """Their public keys; when there are any, only signed decisions count (`core.signing`)."""
    approved_by: tuple[str, ...] = ()
    expires_at: datetime | None = None
    question: bool = False
    """Whether the agent asks for an answer; its arguments are the question."""
    doubt: str = ""
    """Set when the call was started and its end not seen: it waits to be settled, not approved. Says what happened."""


class StateView(Frozen):
    """Answer to query `state`: all but the conversation, which is in the journal."""

    agent: str
    model: str
    run: RunRef | None = None
    """Which run it is, also when it went on in other Temporal runs; None until it has opened."""
    phase: Phase
    turn: int
    pending: tuple[PendingCall, ...]
    running: tuple[str, ...]
    paused: str = ""
    usage: Usage
    calls: dict[str, int]
    artifacts: tuple[ArtifactRef, ...]
    steps: int
    """Entries so far; two views compare by it."""
    recent: tuple[str, ...]
    acts: tuple[TakenAct, ...]
    started_at: datetime | None
    waited_seconds: float
    head: Head | None
    outcome: Outcome | None = None
    reason: str = ""


class Progress(Frozen):
    """Answer to query `progress`: small, for polling."""

    phase: Phase
    turn: int
    running: tuple[str, ...]
    pending: tuple[str, ...]
    paused: str
    usage: Usage
    calls: int
    started_at: datetime | None
    last: str


def state_view(spec: RunSpec | None, state: RunState) -> StateView:
    """Return the state for people; `spec` is None until the run has opened."""
    return StateView(
        agent=spec.agent if spec else "",
        model=spec.model if spec else "",
        run=spec.run if spec else None,
        phase=state.phase,
        turn=state.turn,
        pending=tuple(_pending(entry) for entry in state.pending),
        running=tuple(summary(entry.call) for entry in state.running),
        paused=state.paused.why if state.paused else "",
        usage=state.usage,
        calls=state.calls,
        artifacts=state.artifacts,
        steps=state.steps,
        recent=state.recent,
        acts=state.acts,
        started_at=state.started_at,
        waited_seconds=state.waited_seconds,
        head=state.head,
        outcome=state.outcome,
        reason=state.reason,
    )


def new_lines(before: StateView | None, after: StateView) -> tuple[str, ...]:
    """Return the lines that came after an earlier view; of None, all that are kept."""
    count = len(after.recent) if before is None else min(after.steps - before.steps, len(after.recent))
    return after.recent[len(after.recent) - max(count, 0) :]


def progress(state: RunState) -> Progress:
    """Return the little that a progress line needs."""
    return Progress(
        phase=state.phase,
        turn=state.turn,
        running=tuple(summary(entry.call) for entry in state.running),
        pending=tuple(entry.call.id for entry in state.pending),
        paused=state.paused.why if state.paused else "",
        usage=state.usage,
        calls=sum(state.calls.values()),
        started_at=state.started_at,
        last=state.recent[-1] if state.recent else "",
    )


def details(spec: RunSpec | None, state: RunState, workflow_id: str) -> str:
    """Return the Markdown that the Temporal UI shows of the run: what it does, and what it waits for."""
    parts = [_headline(spec, state)]
    parts += [_waiting(entry, workflow_id) for entry in state.pending]
    if state.paused is not None:
        parts.append(
            f"### Paused\n\n```\n{_fenced(state.paused.why)}\n```\n\n"
            "To go on, send signal `resume` with `{}`, or type:\n\n"
            f"```\n{COMMAND} resume {shlex.quote(workflow_id)}\n```"
        )
    if state.running:
        parts.append("### Running\n\n" + "\n".join(f"- {_code(summary(entry.call))}" for entry in state.running))
    if state.artifacts:
        parts.append("### Artifacts\n\n" + "\n".join(f"- {_code(ref.described())}" for ref in state.artifacts[-10:]))
    parts.append("### Last steps\n\n" + "\n".join(f"- {_code(text)}" for text in reversed(state.recent)))
    return cut("\n\n".join(parts), DETAILS_BYTES)


def _headline(spec: RunSpec | None, state: RunState) -> str:
    if spec is None:
        return "**opening**"
    usage = state.usage
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd is not None else ""
    facts = f"turn {state.turn}, {usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
    reason = f": {_code(state.reason)}" if state.reason else ""
    headline = f"**{state.phase.replace('_', ' ')}**{reason} · {spec.agent} with {_code(spec.model)} · {facts}"
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
    terms = "".join(f"- {_code(text)}\n" for text in conditions(_pending(entry)))
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


def _question(entry: OpenCall, run: str, asked: str, whole: str) -> str:
    call = entry.call
    terms = "".join(f"- {_code(text)}\n" for text in conditions(_pending(entry)))
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


def _pending(entry: OpenCall) -> PendingCall:
    asked = entry.request
    if entry.status == "awaiting_settlement":
        return PendingCall(
            id=entry.call.id,
            tool=entry.call.name,
            arguments=entry.call.arguments,
            asked_at=entry.asked_at,
            digest=asked.digest if asked else "",
            approvers=asked.approvers if asked else (),
            keys=asked.keys if asked else {},
            doubt=entry.unsettled.why if entry.unsettled else "its end was not seen",
        )
    return PendingCall(
        id=entry.call.id,
        tool=entry.call.name,
        arguments=entry.call.arguments,
        asked_at=entry.asked_at,
        question=entry.status == "awaiting_answer",
        reason=asked.reason if asked else "",
        risk=asked.risk if asked else "",
        digest=asked.digest if asked else "",
        needed=asked.needed if asked else 1,
        approvers=asked.approvers if asked else (),
        keys=asked.keys if asked else {},
        approved_by=tuple(decision.by for decision in entry.decisions),
        expires_at=asked.expires_at if asked else None,
    )


def conditions(pending: PendingCall) -> list[str]:
    """Say why a person is asked, who may decide, how many must, and until when; each in one line, what there is."""
    said = [pending.reason, f"risk: {pending.risk}" if pending.risk else ""]
    if pending.approvers:
        said.append(f"may decide: {', '.join(pending.approvers)}")
    if pending.keys:
        said.append("only signed decisions count (--sign-with FILE)")
    if pending.needed > 1:
        by = f" (so far: {', '.join(pending.approved_by)})" if pending.approved_by else ""
        said.append(f"needs {pending.needed} different people{by}")
    if pending.expires_at is not None:
        said.append(f"until {pending.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    return [one_line(text, 300) for text in said if text]


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _fenced(text: str) -> str:
    return text.replace("```", "'''")
