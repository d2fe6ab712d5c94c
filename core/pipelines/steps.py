"""What a run of a pipeline does next: `next_steps(plan, spec, state, now)`, pure. The workflow carries it out."""

from collections.abc import Iterator
from datetime import datetime

from core.content import one_line
from core.entries import Outcome
from core.frozen import Frozen
from core.pipelines import calls
from core.pipelines.calls import Begin, Record, Verify
from core.pipelines.entries import Ended, Ending
from core.pipelines.file import AgentStep, ForEachStep, Group, ParallelStep, ToolStep
from core.pipelines.plan import Plan, indices_of, step_of
from core.pipelines.state import AGENT, BEFORE_WORK, RUNS, PipelineState, StepState
from core.requests import wake_at
from core.runs import RunSpec
from core.state import RunState

TAIL_BYTES = 16 * 1024
TAIL_ENTRIES = 32
"""Past these the newest entries are written to the record."""


class Prepare(Frozen):
    """Find out what a step is given, or its undo: evaluate what it selects."""

    key: str
    undo: bool = False


class Stop(Frozen):
    """Tell a step's agent to stop: the run comes to its end."""

    key: str


class Commit(Frozen):
    """Write the tail to the record."""


class Wait(Frozen):
    """Nothing to do until something ends, a person acts, or it is `until`."""

    until: datetime | None = None


class Finish(Frozen):
    """Write the end."""

    outcome: Outcome
    reason: str = ""


Do = Prepare | Begin | Verify | Record | Stop | Commit | Wait | Finish


def next_steps(plan: Plan, spec: RunSpec, state: PipelineState, now: datetime) -> tuple[Do, ...]:
    """Return what to do now, never nothing. A paused run begins nothing, but takes in what still goes on.

    A `Record` stands alone: what comes next depends on it.
    """
    if state.paused is None and (state.tail_bytes > TAIL_BYTES or len(state.tail) > TAIL_ENTRIES):
        return (Commit(),)
    if state.paused is not None:
        overdue = next((due for key in state.runs if (due := calls.overdue(plan, spec, state, key, now))), None)
        return (overdue or Wait(until=wake_at(_waiting_calls(state))),)
    todo = _settle(plan, spec, state, now) if state.ending is not None else _proceed(plan, spec, state, now)
    found: list[Do] = []
    for do in todo:
        if isinstance(do, Record | Finish):
            return (*found, do) if not found else tuple(found)
        found.append(do)
    return tuple(found) or (Wait(until=wakes_at(state)),)


def _waiting_calls(state: PipelineState) -> RunState:
    return RunState(open_calls=state.pending)


def wakes_at(state: PipelineState) -> datetime | None:
    """Return when time alone changes something."""
    again = [run.retry_at for run in state.runs.values() if run.retry_at is not None]
    return min((at for at in (wake_at(_waiting_calls(state)), *again) if at is not None), default=None)


def _proceed(plan: Plan, spec: RunSpec, state: PipelineState, now: datetime) -> Iterator[Do]:
    """Go through the plan from the top: what is open, and what may begin."""
    yield from _members(plan, spec, state, "", (), now=now, room=RUNS)
    if all(_is_over(state, plan.key(name, ())) for name in plan.members[""]):
        yield Finish(outcome="completed")


def _members(  # noqa: PLR0913 - each is a part of where it stands
    plan: Plan, spec: RunSpec, state: PipelineState, group: str, indices: tuple[str, ...], *, now: datetime, room: int
) -> Iterator[Do]:
    """Go through the steps of a list, for one item; at most `room` of them go on at the same time."""
    keys = [".".join((name, *indices)) for name in plan.members[group]]
    active = sum(key in state.runs and not state.runs[key].ended for key in keys)
    for name, key in zip(plan.members[group], keys, strict=True):
        run = state.runs.get(key)
        if run is not None and not run.ended:
            yield from _open(plan, spec, state, key, now)
        elif run is None:
            needs = [".".join((needed, *indices)) for needed in plan.places[name].needs]
            begins = _may_begin(state, key, needs, now)
            if isinstance(begins, Record) or (begins is not None and active < room):
                active += 1
                yield begins


def _may_begin(state: PipelineState, key: str, needs: list[str], now: datetime) -> Prepare | Record | None:
    """Say whether a step may begin; one that needs what a person rejected never does."""
    if not all(_is_over(state, needed) for needed in needs):
        return None
    bad = next((needed for needed in needs if state.runs[needed].status in {"rejected", "blocked", "cancelled"}), None)
    if bad is not None:
        return Record(entry=Ended(at=now, step=key, status="blocked", error=f"{bad} was {state.runs[bad].status}"))
    if len(state.runs) >= RUNS:
        return Record(entry=_fails(key, f"there are more than {RUNS} runs of steps; give it fewer items", now))
    return Prepare(key=key)


def _is_over(state: PipelineState, key: str) -> bool:
    return key in state.runs and state.runs[key].ended


def _open(plan: Plan, spec: RunSpec, state: PipelineState, key: str, now: datetime) -> Iterator[Do]:
    """Go on with a step that has come up."""
    step, run = plan.step(key), state.runs[key]
    if run.status == "group" and isinstance(step, Group):
        yield from _group(plan, spec, state, key, now)
    elif run.status == "retrying":
        if run.retry_at is not None and now >= run.retry_at:
            yield Begin(key=key)
    elif run.status == "open":
        yield from calls.go_on(plan, spec, state, key, now)


def _group(plan: Plan, spec: RunSpec, state: PipelineState, key: str, now: datetime) -> Iterator[Do]:
    step = plan.step(key)
    name, indices = step_of(key), indices_of(key)
    if isinstance(step, ParallelStep):
        yield from _members(plan, spec, state, name, indices, now=now, room=step.at_once)
        if all(_is_over(state, ".".join((inner, *indices))) for inner in plan.members[name]):
            yield Record(entry=Ended(at=now, step=key, status="done"))
    if isinstance(step, ForEachStep):
        active = 0
        for number in range(state.runs[key].items or 0):
            here = (*indices, str(number))
            if all(_is_over(state, ".".join((inner, *here))) for inner in plan.members[name]):
                continue
            active += 1
            if active > step.at_once:
                return
            yield from _members(plan, spec, state, name, here, now=now, room=RUNS)
        if active == 0:
            yield Record(entry=Ended(at=now, step=key, status="done"))


def _fails(key: str, why: str, now: datetime) -> Ended:
    return Ended(at=now, step=key, status="failed", error=why)


def _settle(plan: Plan, spec: RunSpec, state: PipelineState, now: datetime) -> Iterator[Do]:
    """Bring a run to its end that was decided on: nothing is begun, what goes on ends, then all is undone."""
    still = False
    for key, run in state.runs.items():
        if run.ended:
            continue
        if _never_began(run):
            yield Record(entry=_cancelled(run, key, now))
        if run.status == "group":
            continue
        still = True
        if run.open is not None and run.open.call.name == AGENT:
            if not run.stopping:
                yield Stop(key=key)
        elif run.status == "open":
            yield from calls.go_on(plan, spec, state, key, now)
    if still:
        return
    for key, run in state.runs.items():
        if run.status == "group":
            yield Record(entry=_cancelled(run, key, now))
    if state.ending is None:
        return
    left = [key for key in state.runs if _to_undo(plan, state, key)] if state.ending.compensate else []
    if left or any(_is_undone_now(run) for run in state.runs.values()):
        yield from _undo(plan, spec, state, left, now)
    else:
        yield Finish(outcome=state.ending.outcome, reason=state.ending.reason)


def _never_began(run: StepState) -> bool:
    """Say whether a step waits for leave, or for its next attempt: then it is over at once."""
    if run.status == "retrying":
        return True
    return run.status == "open" and run.open is not None and run.open.status in BEFORE_WORK | {"again"}


def _cancelled(run: StepState, key: str, now: datetime) -> Ended:
    failed = run.status == "retrying"
    return Ended(at=now, step=key, status="failed" if failed else "cancelled", error=run.error or "the run ended")


def _is_undone_now(run: StepState) -> bool:
    return run.undo in {"preparing", "open", "retrying"}


def _undo(plan: Plan, spec: RunSpec, state: PipelineState, left: list[str], now: datetime) -> Iterator[Do]:
    """Take back what was done, one after the other, what ended last first."""
    for key, run in state.runs.items():
        if run.undo == "retrying" and run.retry_at is not None and now >= run.retry_at:
            yield Begin(key=key, undo=True)
        elif run.undo == "open":
            yield from calls.go_on(plan, spec, state, key, now)
        if _is_undone_now(run):
            return
    yield Prepare(key=max(left, key=lambda key: state.runs[key].order), undo=True)


def _to_undo(plan: Plan, state: PipelineState, key: str) -> bool:
    """Say whether a step is to be taken back: it began, whether or not it came to a good end."""
    step, run = plan.step(key), state.runs[key]
    return isinstance(step, AgentStep | ToolStep) and step.undo is not None and run.attempts > 0 and not run.undo


def after(plan: Plan, state: PipelineState, ended: Ended) -> Ending | None:
    """Return what the end of a step makes of the whole run; None: it goes on."""
    if state.ending is not None or ended.status not in {"failed", "rejected"}:
        return None
    policy = plan.on_failure(ended.step)
    if policy == "continue":
        return None
    rejected = ended.status == "rejected"
    said = f"{ended.step} {'was rejected' if rejected else 'failed'}"
    return Ending(
        at=ended.at,
        outcome="cancelled" if rejected else "failed",
        reason=one_line(f"{said}: {ended.error}" if ended.error else said, 1000),
        compensate=policy == "compensate",
        rejected=rejected,
    )
