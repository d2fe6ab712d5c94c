"""What a run does next: `next_step(spec, state, now)`, a pure function. The workflow only carries its answer out."""

from collections import Counter
from datetime import datetime

from core.budgets import limit_reached
from core.content import Content, inline
from core.entries import Entry, Outcome, PauseCause, Paused, Told, ToolFinished
from core.frozen import Frozen
from core.loops import circle, warning
from core.requests import answered, due, is_asked, request, still_holds, wake_at
from core.runs import RunSpec
from core.settlement import result_of_settled
from core.state import TAIL_HARD_BYTES, OpenCall, RunState
from core.tools import Call

TAIL_BYTES = 8 * 1024
"""A tail that has grown past this is written to the journal with the next model call."""

TAIL_ENTRIES = 32

COMPACTIONS = 3
"""Compactions in a row, after which the run pauses: the first sums up, the others drop."""

AGAIN = "resume lets it try again"
GO_ON = "Your reply was cut at the output limit. Go on exactly where it ended, and repeat nothing of it."
AS_JSON = "Answer again: only the JSON, as your instructions say."
MISTAKES = 6
"""Mistakes of the model in a row, after which the run pauses."""


class AskModel(Frozen):
    """Call the model: turn `turn`."""

    turn: int


class RunCalls(Frozen):
    """Start these calls, all at once, in this order."""

    calls: tuple[Call, ...]


class Verify(Frozen):
    """Let the tool find out whether this call took effect."""

    call: Call


class Check(Frozen):
    """Let the arguments be checked with which a person approved this call, instead of its own."""

    call: Call
    arguments: Content


class Record(Frozen):
    """Append this entry: something that the rules alone decide."""

    entry: Entry


class Commit(Frozen):
    """Write the tail to the journal."""


class Compact(Frozen):
    """Make room: let a summary stand for the older exchanges; when that did not help before, drop the oldest."""

    drop: bool = False


class Wait(Frozen):
    """Nothing to do until a call ends, a person acts, or it is `until`, when a request's time is over."""

    until: datetime | None = None


class Finish(Frozen):
    """Close the run."""

    outcome: Outcome
    reason: str = ""


Step = AskModel | RunCalls | Verify | Check | Record | Commit | Compact | Wait | Finish


def next_step(spec: RunSpec, state: RunState, now: datetime) -> Step:
    """Return what to do in this state. A paused run starts nothing, but takes in what still runs."""
    if state.paused is not None:
        return _overdue(spec, state, now) or _check(state) or Wait(until=wake_at(state))
    if state.tail_bytes > TAIL_HARD_BYTES:
        return Commit()
    if state.open_calls:
        return _settle(spec, state, now)
    if state.said is not None:
        return _answered(spec, state, now)
    if (told := warning(state, spec.limits)) is not None:
        about, text = told
        return Record(entry=Told(at=now, turn=state.turn, text=text, about=about))
    if looping := circle(state.seen, spec.limits):
        return _stop(spec, state, now, "loop", f"the model goes round in circles: {looping}", AGAIN)
    if state.mistakes >= MISTAKES:
        last = f"; of the last answer: {state.misfit}" if state.misfit else ""
        return _stop(spec, state, now, "mistakes", f"{state.mistakes} unusable replies in a row{last}", AGAIN)
    reached = limit_reached(spec, state)
    if reached:
        return _stop(spec, state, now, "limit", reached, "resume grants the same again")
    return _compaction(spec, state, now) or AskModel(turn=state.turn + 1)


def _compaction(spec: RunSpec, state: RunState, now: datetime) -> Step | None:
    """Return what makes room when the next prompt would take too much of the window; None when it fits."""
    context = spec.context
    wanted = state.context_tokens + spec.limits.output_tokens + spec.tool_tokens
    if context.policy != "compact" or wanted <= context.share * context.window_tokens:
        return None
    if state.compactions >= COMPACTIONS:
        why = f"the conversation does not fit {context.window_tokens} tokens, even compacted"
        return _stop(spec, state, now, "failure", why, "resume tries once more")
    return Compact(drop=state.compactions > 0)


def _settle(spec: RunSpec, state: RunState, now: datetime) -> Step:
    """Settle the calls of a turn one by one; those that need nobody run meanwhile."""
    for number, open_call in enumerate(state.open_calls, start=1):
        recorded = _recorded(spec, state, open_call, number, now)
        if recorded is not None:
            return Record(entry=recorded)
    doubtful = next((entry.call for entry in state.open_calls if entry.status == "unsettled"), None)
    if doubtful is not None:
        return Verify(call=doubtful)
    if (check := _check(state)) is not None:
        return check
    ready = _ready(spec, state, now)
    return RunCalls(calls=ready) if ready else Wait(until=wake_at(state))


def _check(state: RunState) -> Check | None:
    """Return the check of arguments that a person has changed; it does nothing, so that it needs no unpaused run."""
    paused_by_failure = state.paused is not None and state.paused.cause == "failure"
    for open_call in state.open_calls:
        if open_call.status == "edited" and open_call.edit is not None and not paused_by_failure:
            return Check(call=open_call.call, arguments=open_call.edit.arguments)
    return None


def _overdue(spec: RunSpec, state: RunState, now: datetime) -> Record | None:
    """Return what time alone makes of a request: deadlines do not wait for a run that is paused."""
    for open_call in state.open_calls:
        policy = spec.tool(open_call.call.name)
        entry = due(policy, open_call, now, state.turn) if policy is not None else None
        if entry is not None:
            return Record(entry=entry)
    return None


def _ready(spec: RunSpec, state: RunState, now: datetime) -> tuple[Call, ...]:
    """Return the calls that may start now, in their order: as many as run at once, of the turn and of each group."""
    running = Counter(_group(spec, entry.call) for entry in state.running)
    room = spec.limits.parallel_calls - running.total()
    ready: list[Call] = []
    for entry in state.open_calls:
        if not _may_run(spec, state, entry, now):
            continue
        group, policy = _group(spec, entry.call), spec.tool(entry.call.name)
        at_once = policy.at_once if policy is not None else None
        if len(ready) < room and (at_once is None or running[group] < at_once):
            ready.append(entry.call)
            running[group] += 1
    return tuple(ready)


def _group(spec: RunSpec, call: Call) -> str:
    policy = spec.tool(call.name)
    return policy.shared if policy is not None else call.name


def _recorded(spec: RunSpec, state: RunState, open_call: OpenCall, number: int, now: datetime) -> Entry | None:
    """Return the entry that the rules alone decide for a call: it is refused, or a person is asked."""
    call = open_call.call
    if open_call.status == "rejected" and open_call.decisions:
        last = open_call.decisions[-1]
        by, why = last.by or "a person", last.reason or "no reason given"
        return _refused(state, call, now, f"Not run: rejected by {by}: {why}. Nothing was changed.")
    if open_call.status != "proposed":
        asking = spec.tool(call.name)
        if asking is not None and open_call.status == "approved" and not still_holds(asking, open_call, now):
            return request(spec, asking, call, now, state.turn)
        waits = due(asking, open_call, now, state.turn) if asking is not None else None
        return waits or answered(open_call, now, state.turn) or result_of_settled(open_call, asking, now, state.turn)
    policy = spec.tool(call.name)
    if policy is None:
        known = ", ".join(tool.name for tool in spec.tools) or "none"
        return _refused(state, call, now, f"Not run: there is no tool {call.name!r}. Your tools: {known}.")
    if call.problem is not None:
        return _refused(state, call, now, f"Not run: {call.problem}")
    if number > spec.limits.calls_per_turn:
        return _refused(
            state, call, now, f"Not run: at most {spec.limits.calls_per_turn} calls in one reply; call it again."
        )
    if policy.approval == "deny":
        return _refused(state, call, now, f"Not run: {call.name} is denied by this agent's policy.")
    asks = policy.served_by == "workflow" or is_asked(policy, state, call)
    return request(spec, policy, call, now, state.turn) if asks else None


def _may_run(spec: RunSpec, state: RunState, open_call: OpenCall, now: datetime) -> bool:
    """Say, at dispatch, whether a call may run now: it needs nobody, or what people approved still holds."""
    policy = spec.tool(open_call.call.name)
    if policy is None or policy.approval == "deny":
        return False
    if open_call.status == "again":
        return True
    if open_call.status == "approved":
        return still_holds(policy, open_call, now)
    return open_call.status == "proposed" and not is_asked(policy, state, open_call.call)


def _refused(state: RunState, call: Call, now: datetime, why: str) -> ToolFinished:
    return ToolFinished(at=now, turn=state.turn, call_id=call.id, tool=call.name, content=inline(why), failed=True)


def _answered(spec: RunSpec, state: RunState, now: datetime) -> Step:
    """Take a reply without calls as the answer, unless it is empty, cut or a refusal."""
    text = state.said.shown().strip() if state.said is not None else ""
    if state.stop_reason == "refusal":
        cure = "resume asks it again; resume --model OTHER asks another one"
        return _stop(spec, state, now, "failure", f"the model refused to answer ({text[:200]})", cure)
    if state.stop_reason == "length":
        return _tell(state, now, GO_ON if text else "Your reply was cut before it said anything. Answer, shorter.")
    if state.stop_reason == "other":
        return _tell(state, now, "Your reply ended for an unknown reason and may be incomplete. Answer again.")
    if not text:
        return _tell(state, now, "Your reply was empty. Answer the task, or call a tool.")
    if state.misfit:
        return _tell(state, now, f"Your answer does not fit: {state.misfit}. {AS_JSON}")
    return Finish(outcome="completed")


def _tell(state: RunState, now: datetime, text: str) -> Record:
    return Record(entry=Told(at=now, turn=state.turn, text=text))


def _stop(spec: RunSpec, state: RunState, now: datetime, cause: PauseCause, why: str, cure: str) -> Record | Finish:
    """Pause with the reason and what lets the run go on; or end it, if its agent wants that. At limits it asks."""
    if spec.on_failure == "fail" and cause != "limit":
        return Finish(outcome="failed", reason=why)
    return Record(entry=Paused(at=now, turn=state.turn, cause=cause, why=f"{why}; {cure}"))
