"""A journal as people read it: who did what and when, what it cost, the state after each entry, where two runs part.

All pure: whoever has the entries can tell the story, without Temporal and without a worker.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from pydantic import AwareDatetime, BaseModel

from core.chat import Usage
from core.content import ArtifactRef, Content, one_line
from core.entries import (
    Answered,
    ApprovalRequested,
    Closed,
    Compacted,
    Decided,
    Delegated,
    Edited,
    Entry,
    Expired,
    Forked,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Reminded,
    Replied,
    Resumed,
    Revoked,
    Settled,
    Started,
    Switched,
    Told,
    ToolFinished,
    Unsettled,
)
from core.errors import InputError
from core.fold import apply
from core.frozen import Frozen
from core.journal import Commit
from core.lines import arguments_line, what
from core.state import Phase, RunState

RULES = "the rules"
"""Who did what neither a person, nor the model, nor a tool did."""
TEXT_CHARACTERS = 300


class Reading(Frozen):
    """One entry as a person reads it. `number` counts the entries of the journal, from 1."""

    number: int
    at: AwareDatetime
    turn: int
    who: str
    what: str
    """In one line."""
    details: tuple[str, ...] = ()
    """Further lines: the calls with their arguments, the artifacts that were made."""
    usage: Usage | None = None
    """What it cost; None where no model was asked."""
    seconds: float | None = None
    """How long the model or the tool took; None for what is neither."""
    text: Content | None = None
    """What was said, in full."""


class Snapshot(Frozen):
    """The state of a run after an entry, without the conversation."""

    phase: Phase
    turn: int
    open_calls: dict[str, str]
    """The status of each call of the turn that has not ended, by id; whether it ran is no entry."""
    paused: str = ""
    usage: Usage
    artifacts: int
    mistakes: int
    grants: int
    waited_seconds: float


class Played(Frozen):
    """One step of a replay."""

    number: int
    entry: Entry
    state: Snapshot


class Parting(Frozen):
    """How much two journals have in common, from their beginning on: entries, and whole commits."""

    entries: int
    commits: int


def readings(entries: Sequence[Entry], turn: int | None = None) -> list[Reading]:
    """Return the entries as people read them; those of one turn when it is named.

    Raises:
        InputError: there is nothing of that turn.
    """
    found = [reading(number, entry) for number, entry in enumerate(entries, 1) if turn is None or entry.turn == turn]
    if turn is not None and not found:
        last = max((entry.turn for entry in entries), default=0)
        raise InputError(f"the journal has nothing of turn {turn}: it has turns 0 (the task) to {last}")
    return found


def reading(number: int, entry: Entry) -> Reading:
    """Return one entry as a person reads it."""
    return Reading(
        number=number,
        at=entry.at,
        turn=entry.turn,
        who=who(entry),
        what=one_line(what(entry), TEXT_CHARACTERS),
        details=_details(entry),
        usage=entry.usage if isinstance(entry, Replied | Compacted) else None,
        seconds=entry.seconds if isinstance(entry, Replied | ToolFinished) else None,
        text=_text(entry),
    )


def who(entry: Entry) -> str:
    """Say whose doing an entry is: a person, the model, a tool, or the rules."""
    match entry:
        case (
            Started()
            | Forked()
            | Messaged()
            | Edited()
            | Decided()
            | Revoked()
            | Forwarded()
            | Settled()
            | Resumed()
            | Raised()
        ):
            return entry.by or "somebody"
        case Replied():
            return entry.model or "the model"
        case ToolFinished():
            return entry.tool
        case Paused() | Answered():
            return entry.by or RULES
        case (
            Compacted()
            | ApprovalRequested()
            | Reminded()
            | Expired()
            | Unsettled()
            | Refused()
            | Told()
            | Closed()
            | Delegated()
            | Switched()
        ):
            return RULES


def play(entries: Iterable[Entry]) -> Iterator[Played]:
    """Step through a journal: yield each entry with the state after it."""
    state = RunState()
    for number, entry in enumerate(entries, 1):
        state = apply(state, entry).model_copy(update={"tail": (), "tail_bytes": 0})
        yield Played(number=number, entry=entry, state=snapshot(state))


def snapshot(state: RunState) -> Snapshot:
    """Return what of a state fits a line."""
    return Snapshot(
        phase=state.phase,
        turn=state.turn,
        open_calls={each.call.id: each.status for each in state.open_calls if each.result is None},
        paused=state.paused.why if state.paused else "",
        usage=state.usage,
        artifacts=len(state.artifacts),
        mistakes=state.mistakes,
        grants=state.grants,
        waited_seconds=state.waited_seconds,
    )


def parting(left: Sequence[Commit], right: Sequence[Commit]) -> Parting:
    """Compare two journals from their beginning, entry by entry and commit by commit, by the hashes of both."""
    return Parting(
        entries=_common(_digests(left), _digests(right)),
        commits=_common(
            [tuple(map(digest, commit)) for commit in left], [tuple(map(digest, commit)) for commit in right]
        ),
    )


def digest(entry: Entry) -> str:
    """Return the SHA-256 (hex) of an entry: two are the same when it is."""
    return hashlib.sha256(entry.model_dump_json().encode()).hexdigest()


def artifacts_of(entries: Iterable[Entry]) -> list[ArtifactRef]:
    """Return every artifact that entries refer to, each once, in the order of its first mention."""
    return list({ref.sha256: ref for entry in entries for ref in _references(entry)}.values())


def made_by_tools(entries: Iterable[Entry]) -> list[ArtifactRef]:
    """Return the artifacts that tools made on purpose: a run's results."""
    made = (ref for entry in entries if isinstance(entry, ToolFinished) for ref in entry.artifacts)
    return list({ref.sha256: ref for ref in made}.values())


def _references(value: object) -> Iterator[ArtifactRef]:
    """Find references wherever they stand, so that a new field of an entry is not forgotten."""
    if isinstance(value, ArtifactRef):
        yield value
    elif isinstance(value, BaseModel):
        for field in type(value).model_fields:
            yield from _references(getattr(value, field))
    elif isinstance(value, tuple):
        for item in value:
            yield from _references(item)


def _details(entry: Entry) -> tuple[str, ...]:
    match entry:
        case Started() | Forked():
            tools = ", ".join(tool.policy.name for tool in entry.tools) or "none"
            task = f"task: {one_line(entry.task.shown(), TEXT_CHARACTERS)}"
            return (task, f"tools: {tools}", *(ref.described() for ref in entry.attachments))
        case Replied():
            return tuple(f"calls {call.name} ({call.id}): {arguments_line(call)}" for call in entry.calls)
        case ToolFinished():
            return tuple(ref.described() for ref in entry.artifacts)
        case _:
            return ()


def _text(entry: Entry) -> Content | None:
    match entry:
        case Started() | Forked():
            return entry.task
        case Messaged() | Replied() | Answered():
            return entry.text
        case Edited():
            return entry.arguments
        case Decided():
            return entry.call.arguments if entry.call else None
        case ToolFinished() | Settled():
            return entry.content
        case Compacted():
            return entry.summary
        case _:
            return None


def _digests(commits: Sequence[Commit]) -> list[str]:
    return [digest(entry) for commit in commits for entry in commit]


def _common(left: Sequence[object], right: Sequence[object]) -> int:
    differing = (number for number, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
    return next(differing, min(len(left), len(right)))
