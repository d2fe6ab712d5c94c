"""Artifacts are named by their hash: written once, and only what that hash says."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from core.artifacts import Artifacts
from core.errors import InputError
from tests.fakes import MemoryBlobStore


class LateBlobStore(MemoryBlobStore):
    """A store during whose uploads somebody writes to the file."""

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file that was surveyed before it changed."""
        path.write_bytes(b"other bytes")
        await super().put_file(key, path, sha256=sha256, metadata=metadata)


async def test_a_file_that_changes_while_it_is_stored_is_told_and_not_stored(tmp_path: Path) -> None:
    """It is the caller's to mend, whose file it is; the store is not to blame, and keeps nothing."""
    blobs = LateBlobStore()
    path = tmp_path / "growing.log"
    path.write_bytes(b"some bytes" * 200_000)
    with pytest.raises(InputError, match=r"growing\.log changed while it was stored"):
        await Artifacts(blobs, "a run").store_file(path, "growing.log")
    assert blobs.blobs == {}


async def test_storing_the_same_large_file_again_costs_one_look(tmp_path: Path) -> None:
    """Nothing is sent that is there already, under whatever name."""
    blobs = MemoryBlobStore()
    artifacts = Artifacts(blobs, "a run")
    path = tmp_path / "a.txt"
    path.write_bytes(b"some bytes" * 200_000)
    first = await artifacts.store_file(path, "a.txt")
    second = await artifacts.store_file(path, "b.txt")
    assert (first.sha256, blobs.puts, blobs.heads) == (second.sha256, 1, 2)
