"""Where forks begin: any cut gives exactly the prefix, under the hashes that the origin gave it, and copies nothing."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.entries import Closed, Entry, Told
from core.errors import InputError
from core.forks import entries_through, whole_commits
from core.journal import Commit, Head, Journal, JournalCache
from core.scopes import node_key
from tests.entries import NOW, RUN, call, finished, reply, started
from tests.fakes import MemoryBlobStore

COMMITS = st.lists(st.integers(min_value=1, max_value=3), min_size=1, max_size=40)
"""How many entries each commit of a journal has."""


def journal_of(sizes: Sequence[int]) -> list[Commit]:
    """Return a journal with commits of these sizes: a task, then turns with a call each."""
    entries: list[Entry] = [started()]
    turn = 0
    while len(entries) < sum(sizes):
        turn += 1
        entries += [reply(turn, call(f"t{turn}c1")), finished(f"t{turn}c1").model_copy(update={"turn": turn})]
    commits, at = [], 0
    for size in sizes:
        commits.append(tuple(entries[at : at + size]))
        at += size
    return commits


async def written(journal: Journal, commits: Sequence[Commit]) -> list[Head]:
    """Write a journal and return the head after each commit."""
    heads: list[Head] = []
    for commit in commits:
        heads.append(await journal.append(heads[-1] if heads else None, commit))
    return heads


@given(COMMITS, st.data())
def test_a_cut_is_exactly_the_prefix(sizes: list[int], data: st.DataObject) -> None:
    """Whole commits and the entries behind them together are the entries up to the cut, none more or less."""
    commits = journal_of(sizes)
    count = data.draw(st.integers(min_value=0, max_value=sum(sizes)))
    number, rest = whole_commits(commits, count)
    flat = [entry for commit in commits for entry in commit]
    assert [entry for commit in commits[:number] for entry in commit] + rest == flat[:count]
    assert len(rest) < (len(commits[number]) if number < len(commits) else 1)


@given(COMMITS, st.data())
def test_an_earlier_head_is_the_one_that_the_origin_had(sizes: list[int], data: st.DataObject) -> None:
    """Rewound to any commit, by any worker, the hash is the same, and no node is written again."""
    commits = journal_of(sizes)
    number = data.draw(st.integers(min_value=1, max_value=len(commits)))

    async def check() -> None:
        blobs = MemoryBlobStore()
        heads = await written(Journal(blobs, RUN.scope, JournalCache()), commits)
        puts = blobs.puts
        other = Journal(blobs, RUN.scope, JournalCache())
        assert await other.rewound(heads[-1], number) == heads[number - 1]
        assert blobs.puts == puts
        assert await other.commits(heads[number - 1]) == tuple(commits[:number])

    asyncio.run(check())


@given(COMMITS, st.data())
def test_both_branches_read_as_they_were_written(sizes: list[int], data: st.DataObject) -> None:
    """What a fork writes behind a cut changes nothing of its origin, and it has the origin's prefix."""
    commits = journal_of(sizes)
    number = data.draw(st.integers(min_value=1, max_value=len(commits)))
    own = data.draw(st.integers(min_value=1, max_value=9))

    async def check() -> None:
        blobs = MemoryBlobStore()
        journal = Journal(blobs, RUN.scope, JournalCache())
        end = (await written(journal, commits))[-1]
        head = await journal.rewound(end, number)
        told = [(Told(at=NOW, turn=0, text=f"own {count}"),) for count in range(own)]
        for commit in told:
            head = await journal.append(head, commit)
        cold = Journal(blobs, RUN.scope, JournalCache())
        assert await cold.commits(end) == tuple(commits)
        assert await cold.commits(head) == (*commits[:number], *told)

    asyncio.run(check())


async def test_a_node_that_is_gone_is_written_again() -> None:
    """Only what the origin's own chain does not need may be missing: it is made anew from the entries."""
    blobs = MemoryBlobStore()
    heads = await written(Journal(blobs, RUN.scope, JournalCache()), journal_of([1] * 8))
    del blobs.blobs[node_key(RUN.scope, heads[2].sha256)]
    journal = Journal(blobs, RUN.scope, JournalCache())
    assert await journal.rewound(heads[-1], 3) == heads[2]
    assert node_key(RUN.scope, heads[2].sha256) in blobs.blobs


@given(st.integers(min_value=0, max_value=20), st.integers(min_value=0, max_value=20))
def test_a_turn_ends_where_the_next_one_begins(turns: int, turn: int) -> None:
    """Turn 0 is the task alone, the last turn ends before the end of the run, and others are refused."""
    flat = [entry for commit in journal_of([1 + 2 * turns]) for entry in commit]
    closed = [*flat, Closed(at=NOW, turn=turns, outcome="completed")]
    if turn > turns:
        with pytest.raises(InputError, match=f"no turn {turn}: it has turns 0 .the task alone. to {turns}"):
            entries_through(closed, turn)
        return
    assert entries_through(closed, turn) == 1 + 2 * turn
    assert entries_through(flat, turn) == 1 + 2 * turn
