"""A blob store that waits a while for a store that is down, instead of failing at once.

A restart of the store, or a minute of network trouble, then costs a run nothing: no attempt of a tool, no attempt of a
model call that has been paid for, no pause. The activity heartbeats meanwhile, and a cancel ends the waiting.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import structlog

from core.errors import StoreUnavailable
from core.ports import BlobInfo, BlobStore

PATIENCE = timedelta(seconds=45)
"""How long one operation is tried again."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")


class PatientBlobStore:
    """Passes on to another store, and repeats what failed with `StoreUnavailable`: all operations are idempotent."""

    def __init__(self, inner: BlobStore, patience: timedelta = PATIENCE) -> None:
        self._inner = inner
        self._patience = patience

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store bytes, as the inner store does."""
        await self._patiently(lambda: self._inner.put(key, body, sha256=sha256, metadata=metadata))

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file, as the inner store does."""
        await self._patiently(lambda: self._inner.put_file(key, path, sha256=sha256, metadata=metadata))

    async def get(self, key: str) -> bytes:
        """Return the whole object, as the inner store does."""
        return await self._patiently(lambda: self._inner.get(key))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object's bytes; a stream that breaks in its middle goes on where it was: an object never changes.

        Patience is counted anew from each chunk on.
        """
        sent_bytes = 0
        chunks = self._inner.stream(key)

        async def next_chunk() -> bytes | None:
            nonlocal chunks
            try:
                return await anext(chunks, None)
            except StoreUnavailable:
                chunks = _from(self._inner.stream(key), sent_bytes)
                raise

        while (chunk := await self._patiently(next_chunk)) is not None:
            yield chunk
            sent_bytes += len(chunk)

    async def head(self, key: str) -> BlobInfo | None:
        """Return what is known of an object, as the inner store does."""
        return await self._patiently(lambda: self._inner.head(key))

    async def list(self, prefix: str, limit: int = 1000) -> list[BlobInfo]:
        """List objects, as the inner store does."""
        return await self._patiently(lambda: self._inner.list(prefix, limit))

    async def _patiently(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        deadline = time.monotonic() + self._patience.total_seconds()
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await operation()
            except StoreUnavailable as error:
                if time.monotonic() + pause_seconds > deadline:
                    raise
                log.warning("blob store is down; trying again", seconds=round(pause_seconds, 1), error=str(error)[:300])
            # Jitter spreads the workers that all wait for the same store; it decides nothing.
            await asyncio.sleep(pause_seconds * random.uniform(0.5, 1))  # noqa: S311
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)


async def _from(chunks: AsyncIterator[bytes], first_byte: int) -> AsyncIterator[bytes]:
    """Leave out the bytes before `first_byte`."""
    async for chunk in chunks:
        if len(chunk) > first_byte:
            yield chunk[first_byte:]
        first_byte = max(first_byte - len(chunk), 0)
