"""Exchanges: a reply with all its results, and what was said until the next reply. Compaction keeps them whole.

Entries have numbers, from 0. An exchange is named by the number of its reply. What comes before the first reply (the
task, early messages) is the opening. Entries are told by their `kind` here: `isinstance` on a pydantic class takes a
microsecond, which is much for a long journal at every turn.
"""

from collections.abc import Sequence

from core.entries import Compacted, Entry, Forked, Started

OPENINGS = frozenset({"started", "forked"})

NOTHING = "nothing to compact"
"""How the `fallback` of a compaction begins that changed nothing."""


def opened_with(entries: Sequence[Entry]) -> Started | Forked | None:
    """Return the last configuration among these entries, None when there is none."""
    for entry in reversed(entries):
        if entry.kind in OPENINGS and isinstance(entry, Started | Forked):
            return entry
    return None


def starts(entries: Sequence[Entry], since: int = 0) -> list[int]:
    """Return the numbers of all exchanges from entry `since` on."""
    return [number for number in range(since, len(entries)) if entries[number].kind == "replied"]


def last_starts(entries: Sequence[Entry], count: int) -> list[int]:
    """Return the numbers of the last exchanges, at most `count`, oldest first; reads no further back than that."""
    found: list[int] = []
    number = len(entries)
    while number and len(found) < count:
        number -= 1
        if entries[number].kind == "replied":
            found.append(number)
    return found[::-1]


def exchange_of(entries: Sequence[Entry], number: int) -> int:
    """Return the number of the exchange that an entry belongs to; 0 when that is the opening."""
    number = min(number, len(entries) - 1)
    while number > 0 and entries[number].kind != "replied":
        number -= 1
    return max(number, 0)


def last_compaction(entries: Sequence[Entry], *, summed: bool = False) -> Compacted | None:
    """Return the compaction that holds now; with `summed`, the last one that a model's summary came of."""
    for entry in reversed(entries):
        if entry.kind != "compacted" or entry.fallback.startswith(NOTHING):
            continue
        if not (summed and entry.fallback):
            return entry
    return None


def attempts(entries: Sequence[Entry]) -> int:
    """Return how many compactions there were since the last reply: those that did not help."""
    last = exchange_of(entries, len(entries))
    return sum(entry.kind == "compacted" for entry in entries[last:])
