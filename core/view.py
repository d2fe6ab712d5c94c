"""A run as people see it: the answers to the queries `state` and `progress`."""

from datetime import datetime

from pydantic import Field

from core.chat import Usage
from core.content import ArtifactRef, Content, one_line
from core.entries import Outcome, RunRef
from core.frozen import Frozen
from core.journal import Head
from core.lines import summary, tool_line
from core.requests import is_revocable
from core.runs import RunSpec
from core.state import OpenCall, Phase, RunState, TakenAct


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
    approved: tuple[PendingCall, ...] = ()
    """What was approved and has not begun: it can be taken back."""
    allowed: tuple[str, ...] = ()
    """Tools that need nobody for the rest of the run; each with the pattern of the arguments, if only for some."""
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
        pending=tuple(pending_call(entry) for entry in state.pending),
        approved=tuple(pending_call(entry) for entry in approved_calls(state)),
        allowed=allowed_tools(state),
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


def approved_calls(state: RunState) -> tuple[OpenCall, ...]:
    """Return what was approved and can be taken back, but for what waits for more people still."""
    return tuple(each for each in state.open_calls if each.status != "awaiting_approval" and is_revocable(each))


def allowed_tools(state: RunState) -> tuple[str, ...]:
    """Return the tools that need nobody for the rest of the run, each with the arguments if only for some."""
    return (*state.allowed, *(tool_line(each.tool, each.only) for each in state.allowances))


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


def pending_call(entry: OpenCall) -> PendingCall:
    """Return what a person has to know of a call to decide on it."""
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
