"""Where a fork begins: which entries of a journal are those up to the end of a turn."""

from collections.abc import Sequence

from core.entries import Closed, Entry, Forked, Replied
from core.errors import InputError
from core.journal import Commit
from core.state import RunState


def entries_through(entries: Sequence[Entry], turn: int) -> int:
    """Return how many entries of a journal belong to the time up to the end of a turn; turn 0 is the task alone.

    Raises:
        InputError: the run has no such turn.
    """
    turns = [entry.turn for entry in entries if isinstance(entry, Replied)]
    last = max(turns, default=0)
    if turn != 0 and turn not in turns:
        raise InputError(f"the run has no turn {turn}: it has turns 0 (the task alone) to {last}")
    ends = (
        number
        for number, entry in enumerate(entries)
        if isinstance(entry, Closed) or (isinstance(entry, Replied) and entry.turn > turn)
    )
    return next(ends, len(entries))


def whole_commits(commits: Sequence[Commit], count: int) -> tuple[int, list[Entry]]:
    """Return how many commits lie wholly within the first `count` entries, and the entries of these that follow."""
    number, length = 0, 0
    while number < len(commits) and length + len(commits[number]) <= count:
        length += len(commits[number])
        number += 1
    rest = [entry for commit in commits[number:] for entry in commit]
    return number, rest[: count - length]


def inherited(state: RunState, entry: Forked) -> RunState:
    """Go on elsewhere: what the origin waited for, and what people decided there, is not inherited."""
    return RunState(
        started_at=entry.at,
        turn=state.turn,
        usage=state.usage,
        calls=state.calls,
        artifacts=state.artifacts,
        grants=state.grants,
        tainted=state.tainted,
        context_tokens=state.context_tokens,
    )
