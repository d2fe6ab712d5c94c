"""Artifacts are named by their hash: written once, and only what that hash says."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.artifacts import Artifacts
from core.content import ArtifactRef
from core.errors import BlobCorrupt, InputError
from core.scopes import artifact_key
from tests.fakes import MemoryBlobStore, StoredBlob


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


async def kept(blobs: MemoryBlobStore) -> tuple[Artifacts, ArtifactRef]:
    """Return artifacts, and one of them."""
    artifacts = Artifacts(blobs, "a run")
    return artifacts, await artifacts.store_bytes(b"new bytes", "a.txt")


async def test_a_download_replaces_a_file_with_its_permissions_and_touches_no_other(tmp_path: Path) -> None:
    """A file that happens to be called like a part of it is a person's."""
    artifacts, ref = await kept(MemoryBlobStore())
    path, neighbour = tmp_path / "FILE", tmp_path / "FILE.part"
    path.write_bytes(b"old")
    path.chmod(0o640)
    neighbour.write_bytes(b"mine")
    await artifacts.download(ref, path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new bytes", 0o640)
    assert neighbour.read_bytes() == b"mine"
    assert sorted(tmp_path.iterdir()) == [path, neighbour]


async def test_a_download_writes_through_links(tmp_path: Path) -> None:
    """The link stays, and what it names gets the bytes, whether it was there or not."""
    artifacts, ref = await kept(MemoryBlobStore())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "there").write_bytes(b"old")
    for name in ("there", "new"):
        link = tmp_path / name
        link.symlink_to(Path("other") / name)
        await artifacts.download(ref, link)
        assert link.is_symlink()
        assert (tmp_path / "other" / name).read_bytes() == b"new bytes"


async def test_a_download_into_a_pipe_leaves_a_pipe(tmp_path: Path) -> None:
    """So it is for every file that is no regular one: a device is no place for a rename."""
    artifacts, ref = await kept(MemoryBlobStore())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        await artifacts.download(ref, pipe)
        assert os.read(reader, 100) == b"new bytes"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


async def test_the_longest_name_that_a_file_can_have_is_good_enough(tmp_path: Path) -> None:
    """What is written meanwhile has a short name of its own."""
    artifacts, ref = await kept(MemoryBlobStore())
    path = tmp_path / ("n" * 255)
    await artifacts.download(ref, path)
    assert path.read_bytes() == b"new bytes"


async def test_bytes_that_are_not_the_named_ones_reach_no_file(tmp_path: Path) -> None:
    """An existing file is as it was, and nothing else is there."""
    blobs = MemoryBlobStore()
    artifacts, ref = await kept(blobs)
    path = tmp_path / "FILE"
    path.write_bytes(b"old")
    blobs.blobs[artifact_key("a run", ref.sha256)] = StoredBlob(b"bad bytes", {})
    with pytest.raises(BlobCorrupt):
        await artifacts.download(ref, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
