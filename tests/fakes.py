"""Fakes at the ports, in plain code: what tests put in place of the outside.

`MemoryBlobStore` keeps the contract of `BlobStore` (the same tests run over it and over S3), `BrokenBlobStore` breaks
it on purpose.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from core.errors import BlobCorrupt, BlobMissing, StoreRefused, StoreUnavailable
from core.ports import BlobInfo, BlobStore

CHUNK_BYTES = 1024 * 1024
METADATA_LIMIT_BYTES = 2048

Operation = Literal["put", "put_file", "get", "stream", "head", "list"]
Fault = Literal["missing", "truncated", "altered", "slow", "unavailable", "refused"]


@dataclass(frozen=True)
class StoredBlob:
    """What `MemoryBlobStore` holds under one key."""

    body: bytes
    metadata: Mapping[str, str]


class MemoryBlobStore:
    """A `BlobStore` in a dictionary, with the error contract of S3; `gets` and `puts` count what was asked of it."""

    def __init__(self) -> None:
        self.blobs: dict[str, StoredBlob] = {}
        self.puts = 0
        self.gets = 0
        self.heads = 0

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store `body`; BlobCorrupt when `sha256` is not its hash, StoreRefused for metadata that S3 would not take."""
        self.puts += 1
        kept = _as_s3_keeps_it(key, metadata or {})
        if hashlib.sha256(body).hexdigest() != sha256.lower():
            raise BlobCorrupt(f"{key!r}: the bytes do not have the SHA-256 {sha256!r}; hash them again")
        self.blobs[key] = StoredBlob(bytes(body), kept)

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file as `put` does, read whole: fakes are small."""
        await self.put(key, await asyncio.to_thread(path.read_bytes), sha256=sha256, metadata=metadata)

    async def get(self, key: str) -> bytes:
        """Return the whole object; BlobMissing when there is none."""
        self.gets += 1
        return self._blob(key).body

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object in chunks of 1 MiB; BlobMissing on the first when there is none."""
        self.gets += 1
        body = self._blob(key).body
        for start in range(0, len(body), CHUNK_BYTES):
            yield body[start : start + CHUNK_BYTES]

    async def head(self, key: str) -> BlobInfo | None:
        """Return what is known of an object, None when there is none."""
        self.heads += 1
        blob = self.blobs.get(key)
        return BlobInfo(key=key, size_bytes=len(blob.body), metadata=blob.metadata) if blob else None

    async def list(self, prefix: str, limit: int = 1000) -> list[BlobInfo]:
        """Return the first `limit` objects under `prefix`, sorted by key."""
        keys = sorted(key for key in self.blobs if key.startswith(prefix))
        return [BlobInfo(key=key, size_bytes=len(self.blobs[key].body)) for key in keys[: max(limit, 0)]]

    def _blob(self, key: str) -> StoredBlob:
        if key not in self.blobs:
            raise BlobMissing(f"there is no object {key!r} in memory")
        return self.blobs[key]


class BrokenBlobStore:
    """A `BlobStore` that passes on to another one, except for the operations that a test has broken.

    ```
    fault        put, put_file                get, stream               head             list
    missing      acknowledged, not stored     BlobMissing               None             empty
    truncated    half of it is stored         the first half            half the size    the first half
    altered      stored with one bit flipped  the first bit flipped     no metadata      as it is
    slow         done as it should be, but only after heal(), on all
    unavailable  StoreUnavailable, on all
    refused      StoreRefused, on all
    ```
    """

    def __init__(self, inner: BlobStore) -> None:
        self.inner = inner
        self.struck: Counter[Operation] = Counter()
        self._faults: dict[Operation, tuple[Fault, int | None, str]] = {}
        self._healed = asyncio.Event()

    def fail(self, operation: Operation, fault: Fault, *, times: int | None = None, prefix: str = "") -> None:
        """Break an operation on keys that start with `prefix`, for the next `times` calls; None means until healed."""
        self._faults[operation] = (fault, times, prefix)
        self._healed.clear()

    def heal(self) -> None:
        """Pass everything on again."""
        self._faults.clear()
        self._healed.set()

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store `body`, or what the fault makes of it."""
        await self._put(await self._strike("put", key), key, body, sha256, metadata)

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file, or what the fault makes of it."""
        body = await asyncio.to_thread(path.read_bytes)
        await self._put(await self._strike("put_file", key), key, body, sha256, metadata)

    async def get(self, key: str) -> bytes:
        """Return the object, or what the fault makes of it."""
        fault = await self._strike("get", key)
        return _damaged(fault, key, await self.inner.get(key))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object, or what the fault makes of it."""
        fault = await self._strike("stream", key)
        body = _damaged(fault, key, b"".join([chunk async for chunk in self.inner.stream(key)]))
        for start in range(0, len(body), CHUNK_BYTES):
            yield body[start : start + CHUNK_BYTES]

    async def head(self, key: str) -> BlobInfo | None:
        """Return what is known of an object, or what the fault makes of it."""
        fault = await self._strike("head", key)
        info = await self.inner.head(key)
        if info is None or fault == "missing":
            return None
        if fault == "truncated":
            return info.model_copy(update={"size_bytes": info.size_bytes // 2})
        return info.model_copy(update={"metadata": {}}) if fault == "altered" else info

    async def list(self, prefix: str, limit: int = 1000) -> list[BlobInfo]:
        """Return the objects under `prefix`, or what the fault makes of them."""
        fault = await self._strike("list", prefix)
        found = await self.inner.list(prefix, limit)
        kept = {"missing": 0, "truncated": len(found) // 2}.get(fault or "", len(found))
        return found[:kept]

    async def _put(
        self, fault: Fault | None, key: str, body: bytes, sha256: str, metadata: Mapping[str, str] | None
    ) -> None:
        if fault == "missing":
            return
        if fault is not None:
            body = _damaged(fault, key, body)
            sha256 = hashlib.sha256(body).hexdigest()
        await self.inner.put(key, body, sha256=sha256, metadata=metadata)

    async def _strike(self, operation: Operation, key: str) -> Fault | None:
        """Return the fault that hits this call, or None; raise it if it is one of the errors."""
        fault, times, prefix = self._faults.get(operation, (None, None, ""))
        if fault is None or times == 0 or not key.startswith(prefix):
            return None
        if times is not None:
            self._faults[operation] = (fault, times - 1, prefix)
        self.struck[operation] += 1
        if fault == "unavailable":
            raise StoreUnavailable(f"{operation} of {key!r}: a test has made the store unavailable; heal() it")
        if fault == "slow":
            await self._healed.wait()
            return None
        if fault == "refused":
            raise StoreRefused(f"{operation} of {key!r}: a test has made the store refuse; heal() it")
        return fault


def _damaged(fault: Fault | None, key: str, body: bytes) -> bytes:
    if fault == "missing":
        raise BlobMissing(f"there is no object {key!r}: a test has made it disappear")
    if fault == "truncated":
        return body[: len(body) // 2]
    if fault == "altered" and body:
        return bytes([body[0] ^ 1]) + body[1:]
    return body


def _as_s3_keeps_it(key: str, metadata: Mapping[str, str]) -> dict[str, str]:
    encoded = {name: quote(value, safe="/;=,:+", errors="replace") for name, value in metadata.items() if value}
    if not all(re.fullmatch(r"[a-z0-9-]+", name) for name in encoded):
        raise StoreRefused(f"{key!r}: metadata names {list(encoded)}; use lower-case letters, digits and hyphens")
    if sum(len(name) + len(value) for name, value in encoded.items()) > METADATA_LIMIT_BYTES:
        raise StoreRefused(f"{key!r}: the metadata is over {METADATA_LIMIT_BYTES:,} bytes; shorten it")
    return {name: unquote(value) for name, value in encoded.items()}
