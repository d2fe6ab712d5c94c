"""Proving a run's bytes: every node of its hash chain and every artifact that its entries name are hashed anew."""

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from typing import Literal, TypeVar

from core.audit import artifacts_of
from core.content import ArtifactRef
from core.entries import Closed, Entry, RunRef
from core.errors import BlobCorrupt, BlobMissing, StoreUnavailable
from core.frozen import Frozen
from core.journal import Head, Node, parent_number
from core.prompt import configuration_of
from core.scopes import artifact_key, scope_prefix
from core.storage import Storage
from infra.journals import Found

AT_ONCE = 4
Read = TypeVar("Read")

FaultKind = Literal["missing", "altered", "unreadable", "inconsistent"]


class Fault(Frozen):
    """One thing that is not as the journal says; `why` names it."""

    kind: FaultKind
    what: str
    why: str


class Verification(Frozen):
    """What was read and hashed, and what of it is wrong. Without faults, `head` fixes every byte."""

    run: RunRef
    head: Head
    closed: bool
    nodes: int
    entries: int
    artifacts: int
    size_bytes: int
    faults: tuple[Fault, ...] = ()
    note: str = ""


async def verify(storage: Storage, found: Found) -> Verification:
    """Read and hash all bytes of a run, in constant memory but for the entries; go on after a fault.

    Below a node that is missing or altered the chain can't be followed: what came before it is not proven.

    Raises:
        StoreUnavailable, StoreRefused: the store as such does not answer.
    """
    nodes, faults, size_bytes = await _chain(storage, found)
    whole = not faults
    entries = [entry for node in reversed(nodes) for commit in node.commits for entry in commit]
    entries += found.tail
    if whole:
        faults += _inconsistencies(found, entries)
    refs = artifacts_of(entries)
    limit = asyncio.Semaphore(AT_ONCE)
    checked = await asyncio.gather(*(_artifact(storage, found.run.scope, ref, limit) for ref in refs))
    faults += [fault for fault in checked if fault is not None]
    return Verification(
        run=found.run,
        head=found.head,
        closed=found.manifest is not None,
        nodes=len(nodes),
        entries=len(entries),
        artifacts=len(refs),
        size_bytes=size_bytes + sum(ref.size_bytes for ref in refs),
        faults=tuple(faults),
        note=found.note,
    )


async def _chain(storage: Storage, found: Found) -> tuple[list[Node], list[Fault], int]:
    """Walk from the head to the root; the nodes, newest first, what broke the walk, and the bytes that were read."""
    journal = storage.journal(found.run.scope)
    nodes: list[Node] = []
    size_bytes = 0
    at: Head | None = found.head
    while at is not None:
        what = f"journal node {at.number} ({at.sha256[:12]})"
        read = await _read(storage, found.run.scope, what, journal.node(at.number, at.sha256))
        if isinstance(read, Fault):
            before = f"; commits 1 to {at.number} can't be proven" if at.number > 1 else ""
            return nodes, [read.model_copy(update={"why": read.why + before})], size_bytes
        node, node_bytes = read
        nodes.append(node)
        size_bytes += node_bytes
        at = Head(number=parent_number(node.n), sha256=node.parent) if node.parent else None
    return nodes, [], size_bytes


def _inconsistencies(found: Found, entries: Sequence[Entry]) -> list[Fault]:
    """Compare the manifest, which no hash fixes, with the journal."""
    wrong = []
    if (opened := configuration_of(entries).run) != found.run:
        wrong.append(f"its journal is that of run {opened.workflow_id} ({opened.run_id})")
    if found.manifest is not None:
        last = entries[-1]
        if not isinstance(last, Closed):
            wrong.append("the run is closed, but its journal does not end so: the manifest names an older head")
        elif last.outcome != found.manifest.result.outcome:
            wrong.append(f"the manifest says {found.manifest.result.outcome}, the journal {last.outcome}")
    return [Fault(kind="inconsistent", what=f"manifest of {found.run.run_id}", why=why) for why in wrong]


async def _artifact(storage: Storage, scope: str, ref: ArtifactRef, limit: asyncio.Semaphore) -> Fault | None:
    async with limit:
        fault = await _read(storage, scope, ref.described(), _hashed(storage, scope, ref))
    return fault if isinstance(fault, Fault) else None


async def _hashed(storage: Storage, scope: str, ref: ArtifactRef) -> None:
    digest, size_bytes = hashlib.sha256(), 0
    async for chunk in storage.blobs.stream(artifact_key(scope, ref.sha256)):
        digest.update(chunk)
        size_bytes += len(chunk)
    if digest.hexdigest() != ref.sha256:
        raise BlobCorrupt(f"its {size_bytes} bytes hash to {digest.hexdigest()[:12]}; restore it from a backup")


async def _read(storage: Storage, scope: str, what: str, reading: Awaitable[Read]) -> Read | Fault:
    """Read an object, or return what is wrong with it. A store that fails on this one only can't read it."""
    try:
        return await reading
    except BlobMissing as error:
        return Fault(kind="missing", what=what, why=str(error))
    except BlobCorrupt as error:
        return Fault(kind="altered", what=what, why=str(error))
    except StoreUnavailable as error:
        await storage.blobs.list(scope_prefix(scope), 1)
        return Fault(kind="unreadable", what=what, why=str(error))
