"""The journal: chained by hash, read in few requests, verified, harmless to retry."""

import hashlib
import json
from math import log2

import pytest

from core.entries import Entry, Told
from core.errors import BlobCorrupt, BlobMissing
from core.journal import Head, Journal, JournalCache, parent_number
from core.scopes import node_key
from tests.entries import NOW, started
from tests.fakes import MemoryBlobStore, StoredBlob


def told(number: int) -> Entry:
    """An entry that can be told from others."""
    return Told(at=NOW, turn=number, text=f"entry {number}")


async def written(journal: Journal, commits: int) -> Head:
    """Write a journal of so many commits, the first of which opens the run."""
    head = await journal.append(None, [started()])
    for number in range(2, commits + 1):
        head = await journal.append(head, [told(number)])
    return head


def journal_in(blobs: MemoryBlobStore, cache_bytes: int = 10**9) -> Journal:
    """Return a journal with a cache of its own, as a new worker has it."""
    return Journal(blobs, "run-1", JournalCache(cache_bytes))


@pytest.mark.parametrize("commits", [1, 2, 3, 4, 7, 8, 64, 100, 127])
async def test_a_cold_read_takes_at_most_log2_n_plus_1_gets(commits: int) -> None:
    """A worker that knows nothing reads n commits in few requests, and all entries in order."""
    blobs = MemoryBlobStore()
    head = await written(journal_in(blobs), commits)
    blobs.gets = 0
    entries = await journal_in(blobs).entries(head)
    assert [entry.turn for entry in entries] == [0, *range(2, commits + 1)]
    assert blobs.gets <= log2(commits) + 1


async def test_a_warm_worker_reads_nothing() -> None:
    """The worker that wrote the journal has it in memory."""
    blobs = MemoryBlobStore()
    journal = journal_in(blobs)
    head = await written(journal, 50)
    assert len(await journal.entries(head)) == 50
    assert blobs.gets == 0


async def test_a_commit_after_a_cold_start_chains_to_the_same_parent() -> None:
    """What another worker appends is what this one would have appended."""
    blobs = MemoryBlobStore()
    warm = journal_in(blobs)
    head = await written(warm, 21)
    cold = await journal_in(blobs).append(head, [told(22)])
    assert cold == await warm.append(head, [told(22)])


async def test_a_retried_commit_gives_the_same_head() -> None:
    """An activity that is run again writes the same node."""
    journal = journal_in(MemoryBlobStore())
    head = await written(journal, 5)
    assert await journal.append(head, [told(6)]) == await journal.append(head, [told(6)])


async def test_two_branches_share_what_came_before() -> None:
    """From one head two journals can go on, and neither sees the other."""
    journal = journal_in(MemoryBlobStore())
    head = await written(journal, 5)
    left, right = await journal.append(head, [told(61)]), await journal.append(head, [told(62)])
    assert [entry.turn for entry in await journal.entries(left)] == [0, 2, 3, 4, 5, 61]
    assert [entry.turn for entry in await journal.entries(right)] == [0, 2, 3, 4, 5, 62]


async def test_a_node_that_was_altered_is_refused() -> None:
    """Bytes that do not hash to their name are no journal."""
    blobs = MemoryBlobStore()
    head = await written(journal_in(blobs), 3)
    key = node_key("run-1", head.sha256)
    blobs.blobs[key] = StoredBlob(blobs.blobs[key].body.replace(b"entry 3", b"entry 4"), {})
    with pytest.raises(BlobCorrupt, match=f"journal node 3 .{head.sha256[:12]}. was altered"):
        await journal_in(blobs).entries(head)


async def test_a_missing_ancestor_is_named() -> None:
    """A hole in the chain is an error, never a shorter conversation."""
    blobs = MemoryBlobStore()
    journal = journal_in(blobs)
    before = await written(journal, 2)
    head = await journal.append(before, [told(3)])
    del blobs.blobs[node_key("run-1", before.sha256)]
    with pytest.raises(BlobMissing, match=before.sha256):
        await journal_in(blobs).entries(head)


async def test_a_node_of_a_newer_version_says_so() -> None:
    """A journal that newer code wrote is refused with the cure, not misread."""
    blobs = MemoryBlobStore()
    body = json.dumps({"format": 99, "n": 1, "parent": None, "commits": []}).encode()
    sha256 = hashlib.sha256(body).hexdigest()
    await blobs.put(node_key("run-1", sha256), body, sha256=sha256)
    with pytest.raises(BlobCorrupt, match="use the version that wrote it or a newer one"):
        await journal_in(blobs).entries(Head(number=1, sha256=sha256))


async def test_the_cache_is_bounded_in_bytes() -> None:
    """A worker with a small cache reads again instead of growing."""
    blobs = MemoryBlobStore()
    journal = journal_in(blobs, cache_bytes=100)
    head = await written(journal, 8)
    assert len(await journal.entries(head)) == 8
    assert blobs.gets > 0


def test_a_parent_is_the_number_without_its_lowest_bit() -> None:
    """The shape of the chain."""
    assert [parent_number(n) for n in (1, 2, 3, 4, 6, 7, 12, 1000)] == [0, 0, 2, 0, 4, 6, 8, 992]
