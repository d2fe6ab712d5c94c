"""One large artifact, stored and downloaded: how fast, and by how much that raised this process's peak of memory."""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from core.frozen import Frozen
from core.ports import BlobStore
from core.storage import Storage
from tests.infra.large_file import MEBIBYTE, peak_bytes


class ArtifactReport(Frozen):
    """What one artifact took. The growth is of the peak, from just before the file is stored."""

    size_bytes: int
    store_seconds: float
    download_seconds: float
    peak_growth_bytes: int


async def measure_artifact(blobs: BlobStore, megabytes: int) -> ArtifactReport:
    """Store a file of random bytes as an artifact, and download it again, both verified by hash."""
    artifacts = Storage(blobs).artifacts(f"bench-{uuid4().hex[:8]}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.bin"
        await asyncio.to_thread(_fill, path, megabytes)
        before_bytes = peak_bytes()
        began = time.monotonic()
        ref = await artifacts.store_file(path, path.name)
        stored = time.monotonic()
        await artifacts.download(ref, path.with_name("again"))
        ended = time.monotonic()
    return ArtifactReport(
        size_bytes=ref.size_bytes,
        store_seconds=round(stored - began, 2),
        download_seconds=round(ended - stored, 2),
        peak_growth_bytes=peak_bytes() - before_bytes,
    )


def _fill(path: Path, megabytes: int) -> None:
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(MEBIBYTE))
