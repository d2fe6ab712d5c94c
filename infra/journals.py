"""Finding the journal of a run: by its id alone in the blob store, and for an open one by asking the run itself.

A closed run has a manifest, below its own id or, for one that lives in the scope of another (a fork), where a signpost
below its own id points to. So Temporal may be down, or may have forgotten the run. What has no manifest is asked for
its position; when nobody answers, the nodes in the store tell what was written so far.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import ValidationError

from core.entries import Entry, Forked, RunRef, Started
from core.errors import BlobCorrupt, BlobMissing, PerdureError
from core.frozen import Frozen
from core.journal import Commit, Head, Node
from core.migrations import read_stored
from core.runs import Manifest, Position
from core.scopes import scope_prefix
from core.storage import Storage
from infra.runs import RunInfo, RunNotFound, Runs, check_run_id
from infra.settings import Settings
from infra.temporal import connect

OBJECTS = 100_000
"""Most objects of a kind that are looked through in a scope."""
AT_ONCE = 16
CLOSED_PROPERLY = frozenset({"completed", "failed", "cancelled"})
"""A run that ended so wrote its manifest, if it had a journal at all."""


class Found(Frozen):
    """Where a run's journal is: up to `head` in the store, the `tail` still in the run.

    `manifest` is that of a run that closed its journal, `open` says that more may come. Where nobody answered, the
    head is the newest that the store has, and `note` says so to people.
    """

    run: RunRef
    head: Head
    tail: tuple[Entry, ...] = ()
    manifest: Manifest | None = None
    open: bool = False
    note: str = ""


class Stored(Frozen):
    """What the store knows under a run's id: manifests, the newest first, and where else its bytes are."""

    manifests: tuple[Manifest, ...]
    elsewhere: tuple[RunRef, ...]
    damaged: str = ""


class _Server(Frozen):
    """What Temporal and a worker say of a run; `why` is set where one of them does not answer."""

    info: RunInfo | None = None
    position: Position | None = None
    open: bool = False
    why: str = ""


async def find_journal(
    settings: Settings, storage: Storage, run: str, run_id: str = "", *, search: bool = True
) -> Found:
    """Find a run's journal; `run_id` chooses one of several runs that had the id, else it is the newest.

    `search` looks through the nodes of the store when nobody answers for an open run.

    Raises:
        RunNotFound: no such run, or one without a journal.
        PerdureError: it may be that the run exists, but neither Temporal nor the store can tell.
    """
    stored = await stored_runs(storage, check_run_id(run))
    if run_id and (chosen := next((each for each in stored.manifests if each.run.run_id == run_id), None)):
        return closed(chosen)
    server, error = await _ask(settings, run)
    if not run_id and (server.info is None or server.info.status in CLOSED_PROPERLY) and stored.manifests:
        return closed(stored.manifests[0], stored.damaged)
    position = server.position
    if position is not None and run_id in {"", position.run.run_id}:
        return Found(run=position.run, head=position.head, tail=position.tail, open=server.open)
    if search and (written := await newest_written(storage, run, run_id, stored.elsewhere)) is not None:
        return written.model_copy(update={"open": server.open, "note": _only_written(server)})
    if run_id:
        known = ", ".join(each.run.run_id for each in stored.manifests) or "none"
        raise error or RunNotFound(f"run {run!r} has no journal of run id {run_id!r}; closed ones: {known}")
    if stored.damaged:
        raise BlobCorrupt(stored.damaged)
    raise error or RunNotFound(f"run {run!r} has no journal: it has not opened, or it ended before it did")


def closed(manifest: Manifest, note: str = "") -> Found:
    """Return where the journal of a closed run is."""
    return Found(run=manifest.run, head=manifest.head, manifest=manifest, note=note)


async def commits_of(storage: Storage, found: Found) -> tuple[Commit, ...]:
    """Read a journal as it was committed; what is not yet written is its last commit.

    Raises:
        BlobMissing, BlobCorrupt: a node is gone or is not what its hash says; it is named.
    """
    commits = await storage.journal(found.run.scope).commits(found.head)
    return (*commits, found.tail) if found.tail else commits


async def entries_of(storage: Storage, found: Found) -> list[Entry]:
    """Read a journal, oldest entry first. Raises as `commits_of`."""
    return [entry for commit in await commits_of(storage, found) for entry in commit]


async def scope_of(storage: Storage, run: str) -> str:
    """Return the scope that owns a run's bytes, from the store alone: its own, unless a signpost names another."""
    elsewhere = await _signposts(storage, check_run_id(run))
    return elsewhere[-1].scope if elsewhere else run


async def stored_runs(storage: Storage, run: str) -> Stored:
    """Return what the store knows under a run's id. A manifest that can't be read hides no other one."""
    elsewhere = await _signposts(storage, run)
    listed = await storage.blobs.list(f"{scope_prefix(run)}/runs/", OBJECTS)
    places = [(run, info.key.rsplit("/", 1)[-1].removesuffix(".json")) for info in listed]
    places += [(ref.scope, ref.run_id) for ref in elsewhere]
    read = [await _manifest(storage, *place) for place in places]
    manifests = [each for each in read if isinstance(each, Manifest) and each.run.workflow_id == run]
    return Stored(
        manifests=tuple(sorted(manifests, key=lambda each: each.closed_at, reverse=True)),
        elsewhere=elsewhere,
        damaged=next((each for each in read if isinstance(each, str)), ""),
    )


async def newest_written(storage: Storage, run: str, run_id: str, elsewhere: Iterable[RunRef]) -> Found | None:
    """Return the newest head of a run that the store holds, or None; reads all nodes of the scope, so ask others first.

    A run that repeated a step may have written the same number twice; then it is one of them.
    """
    best: tuple[datetime, int, Found] | None = None
    for scope in {run, *(ref.scope for ref in elsewhere)}:
        nodes = await _nodes(storage, scope)
        for sha256, seen in nodes.items():
            owner = _owner(nodes, sha256)
            if owner is None or owner.workflow_id != run or run_id not in {"", owner.run_id}:
                continue
            if best is None or (seen.at, seen.head.number) > best[:2]:
                best = (seen.at, seen.head.number, Found(run=owner, head=seen.head))
    return best[2] if best else None


class _Seen(Frozen):
    """What is kept of a node while the newest is looked for."""

    head: Head
    parent: str | None
    opens: RunRef | None
    at: datetime


async def _ask(settings: Settings, run: str) -> tuple[_Server, PerdureError | None]:
    """Ask Temporal and the run; whoever does not answer is an error to raise only when nobody else knows."""
    info = None
    try:
        runs = Runs(await connect(settings))
        info = await runs.info(run)
        if info.status in CLOSED_PROPERLY:
            return _Server(info=info), None
        return _Server(info=info, open=info.status == "running", position=await runs.position(run)), None
    except RunNotFound as error:
        return _Server(why="Temporal does not know it any more"), error
    except PerdureError as error:
        return _Server(info=info, open=info is None or info.status == "running", why=str(error)), error


def _only_written(server: _Server) -> str:
    whose = f"the run is {server.info.status}" if server.info else "the run has no manifest"
    why = f" ({server.why})" if server.why else ""
    return f"{whose}{why}: these are the entries found in the store, the newest may be missing"


async def _signposts(storage: Storage, run: str) -> tuple[RunRef, ...]:
    listed = await storage.blobs.list(f"{scope_prefix(run)}/elsewhere/", OBJECTS)
    bodies = [await storage.blobs.get(info.key) for info in listed]
    try:
        return tuple(RunRef.model_validate_json(body) for body in bodies)
    except ValidationError as error:
        raise BlobCorrupt(f"a signpost of run {run!r} can't be read; restore it from a backup") from error


async def _manifest(storage: Storage, scope: str, run_id: str) -> Manifest | str | None:
    """Return a manifest, what is wrong with it, or None when the run is not closed."""
    try:
        return await storage.manifest(scope, run_id)
    except BlobMissing:
        return None
    except BlobCorrupt as error:
        return str(error)


async def _nodes(storage: Storage, scope: str) -> dict[str, _Seen]:
    listed = await storage.blobs.list(f"{scope_prefix(scope)}/journal/", OBJECTS)
    found: dict[str, _Seen] = {}
    for start in range(0, len(listed), AT_ONCE):
        keys = [info.key for info in listed[start : start + AT_ONCE]]
        for seen in await asyncio.gather(*(_node(storage, key) for key in keys)):
            if seen is not None:
                found[seen.head.sha256] = seen
    return found


async def _node(storage: Storage, key: str) -> _Seen | None:
    """Read one node; one that is damaged is left out: here it is only about finding the newest."""
    sha256 = key.rsplit("/", 1)[-1]
    try:
        body = await storage.blobs.get(key)
        node = read_stored("node", Node, body)
    except (BlobMissing, BlobCorrupt):
        return None
    entries: Sequence[Entry] = [entry for commit in node.commits for entry in commit]
    if hashlib.sha256(body).hexdigest() != sha256 or not entries:
        return None
    opening = next((entry.run for entry in reversed(entries) if isinstance(entry, Started | Forked)), None)
    return _Seen(head=Head(number=node.n, sha256=sha256), parent=node.parent, opens=opening, at=entries[-1].at)


def _owner(nodes: dict[str, _Seen], sha256: str | None) -> RunRef | None:
    """Return the run that a node belongs to: the last that was opened in its chain."""
    while sha256 is not None and (seen := nodes.get(sha256)) is not None:
        if seen.opens is not None:
            return seen.opens
        sha256 = seen.parent
    return None
