"""The journal: a run's entries, append-only, hash-chained, in blob storage.

Entries are written in commits. Commit n stores node n, which holds the entries of commits (n & (n-1), n] and names its
parent, node n & (n-1), by hash. So the chain from any head to the root has at most log2(n) + 1 nodes: a cold worker
reads a conversation of 1,000 commits in at most 10 GETs, and all bytes once. The price is write amplification of about
log2(n) / 2 + 1. Nodes are named by the SHA-256 of their bytes, so a head fixes the whole history, forks share what came
before, and a commit that is retried leaves at most an orphan node behind.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from core.entries import Entry, Forked, Started
from core.errors import BlobCorrupt
from core.frozen import Frozen
from core.migrations import read_stored
from core.ports import BlobStore
from core.scopes import node_key

Commit = tuple[Entry, ...]
JOURNAL_CACHE_BYTES = 64 * 1024 * 1024
CONFIGURATIONS_KEPT = 64


class Head(Frozen):
    """The last node of a journal: its number (from 1) and the SHA-256 (hex) of its bytes. Fixes all before it."""

    number: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Node(Frozen):
    """One stored node. `parent` is the hash of node `n & (n-1)`, None when that is 0."""

    format: Literal[1] = 1
    n: int = Field(ge=1)
    parent: str | None
    commits: tuple[Commit, ...]


def parent_number(n: int) -> int:
    """Return the number of node n's parent; 0 when it has none."""
    return n & (n - 1)


class Loaded(Frozen):
    """A decoded journal: its commits, the nodes of its chain (newest first), and its size in bytes of JSON."""

    commits: tuple[Commit, ...] = ()
    chain: tuple[Head, ...] = ()
    size_bytes: int = 0


class JournalCache:
    """Decoded journals by head, bounded in bytes of their JSON: what makes a warm worker read nothing."""

    def __init__(self, limit_bytes: int = JOURNAL_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._journals: OrderedDict[str, Loaded] = OrderedDict()
        self._size_bytes = 0
        self._configurations: OrderedDict[str, Started | Forked] = OrderedDict()

    def get(self, sha256: str) -> Loaded | None:
        """Return the journal up to this head, or None."""
        if sha256 in self._journals:
            self._journals.move_to_end(sha256)
        return self._journals.get(sha256)

    def put(self, sha256: str, journal: Loaded) -> None:
        """Keep a journal, unless it alone is larger than the cache; the least recently used ones go."""
        if sha256 in self._journals or journal.size_bytes > self._limit_bytes:
            return
        self._journals[sha256] = journal
        self._size_bytes += journal.size_bytes
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= self._journals.popitem(last=False)[1].size_bytes

    def configuration(self, sha256: str) -> Started | Forked | None:
        """Return what the run of this opening was started with, or None when it is not kept."""
        return self._configurations.get(sha256)

    def keep_configuration(self, sha256: str, configuration: Started | Forked) -> None:
        """Keep what a run was started with: every tool call asks for it. The oldest goes when there are too many."""
        self._configurations[sha256] = configuration
        while len(self._configurations) > CONFIGURATIONS_KEPT:
            self._configurations.popitem(last=False)

    def drop(self, sha256: str) -> None:
        """Let a journal go that has grown: its run goes on from the new head."""
        if sha256 in self._journals:
            self._size_bytes -= self._journals.pop(sha256).size_bytes


class Journal:
    """The journals of one scope. Reading and writing are idempotent; errors are `StorageError`s of `core.errors`."""

    def __init__(self, blobs: BlobStore, scope: str, cache: JournalCache) -> None:
        self._blobs = blobs
        self._scope = scope
        self._cache = cache

    async def entries(self, head: Head) -> list[Entry]:
        """Return all entries up to a head, oldest first.

        Raises:
            BlobMissing: a node of the chain is gone.
            BlobCorrupt: a node is not what its hash says, or not of a format that this code reads.
        """
        journal = await self._load(head)
        return [entry for commit in journal.commits for entry in commit]

    async def append(self, head: Head | None, entries: Sequence[Entry]) -> Head:
        """Commit entries behind a head (None: a new journal) and return the new head. A retry gives the same head."""
        before = await self._load(head) if head else Loaded()
        n = len(before.commits) + 1
        ancestors = tuple(node for node in before.chain if node.number <= parent_number(n))
        commits = (*before.commits, tuple(entries))
        node = Node(n=n, parent=ancestors[0].sha256 if ancestors else None, commits=commits[parent_number(n) :])
        body = node.model_dump_json().encode()
        new = Head(number=n, sha256=hashlib.sha256(body).hexdigest())
        await self._blobs.put(node_key(self._scope, new.sha256), body, sha256=new.sha256)
        added = sum(len(entry.model_dump_json()) for entry in entries)
        grown = Loaded.model_construct(commits=commits, chain=(new, *ancestors), size_bytes=before.size_bytes + added)
        self._cache.put(new.sha256, grown)
        opening = next((entry for entry in entries if isinstance(entry, Started | Forked)), None)
        if opening is not None:
            self._cache.keep_configuration(new.sha256, opening)
        if head is not None:
            self._cache.drop(head.sha256)
        return new

    async def commits(self, head: Head) -> tuple[Commit, ...]:
        """Return the entries up to a head as they were committed. Raises as `entries`."""
        return (await self._load(head)).commits

    async def rewound(self, head: Head, number: int) -> Head:
        """Return the head of an earlier commit of the same journal.

        Its nodes were written when the journal grew; one that is missing, or that this version would write otherwise,
        is written now. Safe to repeat. Raises as `entries`.
        """
        commits = (await self._load(head)).commits[:number]
        chain = [number]
        while parent_number(chain[-1]):
            chain.append(parent_number(chain[-1]))
        earlier: Head | None = None
        for n in reversed(chain):
            node = Node(n=n, parent=earlier.sha256 if earlier else None, commits=commits[parent_number(n) : n])
            body = node.model_dump_json().encode()
            earlier = Head(number=n, sha256=hashlib.sha256(body).hexdigest())
            key = node_key(self._scope, earlier.sha256)
            if await self._blobs.head(key) is None:
                await self._blobs.put(key, body, sha256=earlier.sha256)
        if earlier is None:
            raise ValueError("a journal has no commit 0")
        return earlier

    async def configuration(self, opening: Head) -> Started | Forked:
        """Return what a run opened with, from the head that it opened with: one node, which never changes.

        Raises:
            BlobMissing, BlobCorrupt: as `entries`.
        """
        known = self._cache.configuration(opening.sha256)
        if known is not None:
            return known
        node, _ = await self.node(opening.number, opening.sha256)
        found = next((entry for entry in reversed(node.commits[-1]) if isinstance(entry, Started | Forked)), None)
        if found is None:
            raise BlobCorrupt(f"journal node {opening.number} ({opening.sha256[:12]}) opens no run")
        self._cache.keep_configuration(opening.sha256, found)
        return found

    async def _load(self, head: Head) -> Loaded:
        cached = self._cache.get(head.sha256)
        if cached is not None:
            return cached
        nodes: list[Node] = []
        chain: list[Head] = []
        size_bytes = 0
        at: Head | None = head
        while at is not None:
            node, node_bytes = await self.node(at.number, at.sha256)
            nodes.append(node)
            chain.append(at)
            size_bytes += node_bytes
            at = Head(number=parent_number(node.n), sha256=node.parent) if node.parent else None
        commits = tuple(commit for node in reversed(nodes) for commit in node.commits)
        loaded = Loaded.model_construct(commits=commits, chain=tuple(chain), size_bytes=size_bytes)
        self._cache.put(head.sha256, loaded)
        return loaded

    async def node(self, number: int, sha256: str) -> tuple[Node, int]:
        """Return one node of a chain, verified, and its size in bytes. Raises as `entries`."""
        body = await self._blobs.get(node_key(self._scope, sha256))
        if hashlib.sha256(body).hexdigest() != sha256:
            raise BlobCorrupt(f"journal node {number} ({sha256[:12]}) was altered; restore it from a backup")
        try:
            node = read_stored("node", Node, body)
        except BlobCorrupt as error:
            raise BlobCorrupt(f"journal node {number} ({sha256[:12]}): {error}") from error
        if node.n != number or len(node.commits) != number - parent_number(number):
            raise BlobCorrupt(
                f"journal node {sha256[:12]} is not the node {number} that its place in the chain asks for"
            )
        return node, len(body)
