"""The record of a pipeline's run: its entries, append-only, hash-chained, in blob storage.

Each node holds the entries of one commit and names the one before it by hash, so that a head fixes all of it. A run has
at most some hundred commits; a commit that is retried writes the same node again.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError

from core.errors import BlobCorrupt
from core.frozen import Frozen
from core.journal import Head
from core.pipelines.entries import PipelineEntry
from core.pipelines.runs import PipelineManifest
from core.ports import BlobStore
from core.scopes import scope_prefix


class RecordNode(Frozen):
    """One commit. `parent` is the hash of node `n - 1`."""

    format: Literal[1] = 1
    n: int = Field(ge=1)
    parent: str | None
    entries: tuple[PipelineEntry, ...]


class Record:
    """The records of one scope. Writing is idempotent; errors are `StorageError`s of `core.errors`."""

    def __init__(self, blobs: BlobStore, scope: str) -> None:
        self._blobs = blobs
        self._scope = scope

    async def append(self, head: Head | None, entries: Sequence[PipelineEntry]) -> Head:
        """Write entries behind a head (None: a new record) and return the new head."""
        n = head.number + 1 if head else 1
        body = RecordNode(n=n, parent=head.sha256 if head else None, entries=tuple(entries)).model_dump_json().encode()
        new = Head(number=n, sha256=hashlib.sha256(body).hexdigest())
        await self._blobs.put(record_key(self._scope, new.sha256), body, sha256=new.sha256)
        return new

    async def entries(self, head: Head) -> list[PipelineEntry]:
        """Return all entries up to a head, oldest first.

        Raises:
            BlobMissing: a node is gone.
            BlobCorrupt: a node is not what its hash says, or not of a form that this code reads.
        """
        found: list[tuple[PipelineEntry, ...]] = []
        at: Head | None = head
        while at is not None:
            node = await self._node(at)
            found.append(node.entries)
            at = Head(number=node.n - 1, sha256=node.parent) if node.parent else None
        return [entry for entries in reversed(found) for entry in entries]

    async def _node(self, head: Head) -> RecordNode:
        body = await self._blobs.get(record_key(self._scope, head.sha256))
        named = f"node {head.number} ({head.sha256[:12]}) of a pipeline's record"
        if hashlib.sha256(body).hexdigest() != head.sha256:
            raise BlobCorrupt(f"{named} was altered; restore it from a backup")
        try:
            node = RecordNode.model_validate_json(body)
        except ValidationError as error:
            raise BlobCorrupt(f"{named} is of another version; use the one that wrote it") from error
        if node.n != head.number:
            raise BlobCorrupt(f"{named} is not at its place in the chain; restore it from a backup")
        return node

    async def close(self, manifest: PipelineManifest) -> None:
        """Write what the run has come to."""
        body = manifest.model_dump_json().encode()
        key = pipeline_manifest_key(self._scope, manifest.run.run_id)
        await self._blobs.put(key, body, sha256=hashlib.sha256(body).hexdigest())

    async def manifest(self, run_id: str) -> PipelineManifest:
        """Return what a closed run has come to, without Temporal.

        Raises:
            BlobMissing: the run is not closed, or unknown.
            BlobCorrupt: it can't be read.
        """
        body = await self._blobs.get(pipeline_manifest_key(self._scope, run_id))
        try:
            return PipelineManifest.model_validate_json(body)
        except ValidationError as error:
            raise BlobCorrupt(f"the manifest of {run_id} is of another version; use the one that wrote it") from error


def pipeline_manifest_key(scope: str, run_id: str) -> str:
    """Return where the manifest of a closed run of a pipeline is."""
    return f"{scope_prefix(scope)}/pipelines/{run_id}.json"


def record_key(scope: str, sha256: str) -> str:
    """Return where a node of a pipeline's record is."""
    return f"{scope_prefix(scope)}/records/{sha256}"
