"""A run as people see it: the answers to the queries `state` and `progress`."""

from datetime import datetime

from core.chat import Usage
from core.content import ArtifactRef
from core.entries import Outcome, RunRef
from core.frozen import Frozen
from core.journal import Head
from core.lines import summary, tool_line
from core.pending import PendingCall, WaitingRun
from core.requests import is_revocable
from core.runs import RunSpec
from core.state import OpenCall, Phase, RunState, TakenAct
from core.switching import model_of
from core.waiting import pending_below, pending_call


class StateView(Frozen):
    """Answer to query `state`: all but the conversation, which is in the journal."""

    agent: str
    model: str
    run: RunRef | None = None
    """Which run it is, also when it went on in other Temporal runs; None until it has opened."""
    phase: Phase
    turn: int
    pending: tuple[PendingCall, ...]
    below: tuple[WaitingRun, ...] = ()
    """The runs below that wait for people; their calls are among `pending`, too."""
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
        model=model_of(spec, state) if spec else "",
        run=spec.run if spec else None,
        phase=state.phase,
        turn=state.turn,
        pending=(*(pending_call(entry) for entry in state.pending), *pending_below(state)),
        below=state.below,
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
