"""A blob store that counts what is asked of it."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from core.ports import BlobInfo, BlobStore


class CountingBlobStore:
    """Passes on to another store; `requests` and the bytes of bodies, both ways, are added up."""

    def __init__(self, inner: BlobStore) -> None:
        self.inner = inner
        self.requests = 0
        self.body_bytes = 0

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store bytes."""
        self._count(len(body))
        await self.inner.put(key, body, sha256=sha256, metadata=metadata)

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file; one of 8 MiB or more takes more requests than the one that is counted."""
        self._count(path.stat().st_size)
        await self.inner.put_file(key, path, sha256=sha256, metadata=metadata)

    async def get(self, key: str) -> bytes:
        """Return an object."""
        body = await self.inner.get(key)
        self._count(len(body))
        return body

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield an object."""
        self._count(0)
        async for chunk in self.inner.stream(key):
            self.body_bytes += len(chunk)
            yield chunk

    async def head(self, key: str) -> BlobInfo | None:
        """Return what is known of an object."""
        self._count(0)
        return await self.inner.head(key)

    async def list(self, prefix: str, limit: int = 1000) -> list[BlobInfo]:
        """List objects."""
        self._count(0)
        return await self.inner.list(prefix, limit)

    def _count(self, body_bytes: int) -> None:
        self.requests += 1
        self.body_bytes += body_bytes
