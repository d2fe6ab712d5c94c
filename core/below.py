"""Runs below a run: what they wait for is shown above, and what people decide there is passed on. Pure rules.

Each run knows only the one above it and those right below. An id of a call has its way in it: `a.t3c1/t1c2` is the
call `t1c2` of the run `a.t3c1`, which lies below. What is passed on is decided where it waits, by the rules of there.
"""

import json
from datetime import datetime

from core.acts import Act, ActName
from core.content import Content, fits_inline, one_line
from core.entries import Entry, Forwarded, Paused, Refused, Resumed
from core.pending import PendingCall, WaitingRun
from core.runs import RunSpec
from core.state import RunState
from core.waiting import pending_below, pending_call

TOLD_BYTES = 32 * 1024
"""Longest list of calls that a run tells the one above."""
RUNS_BELOW = 100
"""So many runs below are known to wait."""
OF_RUNS = frozenset({"message", "pause", "resume", "raise_budget"})
"""Acts on a run below itself: its id ends with a /."""


def told(spec: RunSpec, state: RunState) -> WaitingRun:
    """Return what the run above is told of this one, and of those below it."""
    pending: list[PendingCall] = []
    size, count = 0, 0
    for call in (*map(pending_call, state.pending), *pending_below(state)):
        count += 1
        mine = call if call.of else call.model_copy(update={"of": spec.run, "agent": spec.agent})
        size += len(mine.model_dump_json())
        if size <= TOLD_BYTES or not pending:
            pending.append(mine)
    paused = state.paused.why if state.paused is not None else ""
    more = count - len(pending) + sum(run.more for run in state.below)
    return WaitingRun(
        run=spec.run,
        agent=spec.agent,
        pending=tuple(pending),
        more=more,
        paused=one_line(paused, 500),
        ended=state.outcome is not None,
    )


def waits(run: WaitingRun) -> bool:
    """Say whether there is anything to tell."""
    return bool(run.pending or run.paused)


def heard(state: RunState, run: WaitingRun) -> RunState:
    """Return the state after a run below has told what it waits for."""
    others = tuple(each for each in state.below if each.run.workflow_id != run.run.workflow_id)
    if run.ended or not waits(run):
        return state.model_copy(update={"below": others})
    return state.model_copy(update={"below": (*others, run)[-RUNS_BELOW:]})


def gone(state: RunState, workflow_id: str) -> RunState:
    """Return the state in which a run below waits for nothing: it has ended, or can't be reached."""
    return state.model_copy(update={"below": tuple(run for run in state.below if run.run.workflow_id != workflow_id)})


def forwarded(state: RunState, name: ActName, act: Act, raw: bytes, now: datetime) -> Forwarded | Refused:
    """Return the act as it is passed on, or why it can't be. The id is one with a / in it."""
    run = next((each for each in state.below if act.id.startswith(f"{each.run.workflow_id}/")), None)
    if run is None:
        known = ", ".join(each.run.workflow_id for each in state.below) or "none"
        return _refused(state, name, f"no run below waits as {one_line(act.id, 200)!r}; waiting: {known}", now)
    target = act.id.removeprefix(f"{run.run.workflow_id}/")
    waiting = [call.id for call in run.pending]
    if target not in waiting and not (name in OF_RUNS and (not target or target.endswith("/"))) and not run.more:
        known = ", ".join(waiting) or "none"
        why = f"{one_line(target, 200)!r} does not wait in {run.run.workflow_id}; waiting: {known}"
        return _refused(state, name, why, now)
    said = json.dumps(_without_way(raw, target), ensure_ascii=False)
    if not fits_inline(said):
        why = f"it is too long to be passed on; send it to {run.run.workflow_id} itself"
        return _refused(state, name, why, now)
    to = run.run.workflow_id
    return Forwarded(at=now, turn=state.turn, act=name, to=to, target=target, by=act.by, said=Content(text=said))


def passed_on(state: RunState, entry: Entry) -> tuple[Forwarded, ...]:
    """Return what the runs right below get of an entry: an act that is for one; a pause, or its end, for all."""
    if isinstance(entry, Forwarded):
        return (entry,)
    if not (isinstance(entry, Resumed) or (isinstance(entry, Paused) and entry.cause == "person")):
        return ()
    act: ActName = "resume" if isinstance(entry, Resumed) else "pause"
    said = Content(text=json.dumps({"by": entry.by}))
    return tuple(
        Forwarded(at=entry.at, turn=entry.turn, act=act, to=open_call.child.to, by=entry.by, said=said)
        for open_call in state.running
        if open_call.child is not None
    )


def _without_way(raw: bytes, target: str) -> dict[str, object]:
    """Return what was sent, for the run that is meant: the version that the sender saw was this run's."""
    value = json.loads(raw)
    sent = {"id": value} if isinstance(value, str) else dict(value)
    sent.pop("expected_version", None)
    return {**sent, "id": target} if target else {key: each for key, each in sent.items() if key != "id"}


def _refused(state: RunState, name: str, why: str, now: datetime) -> Refused:
    return Refused(at=now, turn=state.turn, act=one_line(name, 60), why=one_line(why, 500))
