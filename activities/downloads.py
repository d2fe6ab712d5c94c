"""Local copies of artifacts, named by their hash: downloaded once per worker, verified, bounded.

A copy is sealed: read only, its modification time derived from its hash. Whoever writes to it, through whatever link,
breaks the seal, and it is downloaded again. Users get hard links, so that throwing a copy out never takes a file away
from a tool that reads it.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import time
import uuid
from pathlib import Path
from weakref import WeakValueDictionary

from core.artifacts import Artifacts
from core.content import ArtifactRef


class Downloads:
    """A cache of artifacts in a folder, at most `limit_bytes` large; the least recently used are thrown out.

    Several workers may share the folder: files appear by rename, whole.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()
        """By artifact and event loop: async tools have a loop of their own, and a lock belongs to one."""

    async def place(self, artifacts: Artifacts, ref: ArtifactRef, target: Path) -> None:
        """Put a verified copy at `target`, in place of what is there. Safe to repeat.

        Raises:
            StorageError: by its own verdict.
        """
        lock = self._locks.setdefault((ref.sha256, id(asyncio.get_running_loop())), asyncio.Lock())
        async with lock:
            if await asyncio.to_thread(self._link, ref, target):
                return
            cached = self._folder / ref.sha256
            part = cached.with_name(f"{ref.sha256}.{uuid.uuid4().hex}.new")
            await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
            try:
                await artifacts.download(ref, part)
                await asyncio.to_thread(seal, part, ref)
                await asyncio.to_thread(link, part, target)
                await asyncio.to_thread(part.replace, cached)
            finally:
                part.unlink(missing_ok=True)
        await asyncio.to_thread(self._evict)

    def _link(self, ref: ArtifactRef, target: Path) -> bool:
        cached = self._folder / ref.sha256
        if not sealed(cached, ref):
            return False
        try:
            link(cached, target)
        except FileNotFoundError:  # thrown out in this moment
            return False
        touch(cached)
        return sealed(target, ref)

    def _evict(self) -> None:
        """Throw out the least recently used copies beyond the limit, and what a dead worker left half done."""
        files = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    files.append((status, path))
                elif status.st_mtime < time.time() - 24 * 3600:  # of a download whose worker died
                    shutil.rmtree(path, ignore_errors=True)
        files.sort(key=lambda file: file[0].st_atime_ns, reverse=True)
        kept_bytes = 0
        for status, path in files:
            unfinished = path.name.endswith((".new", ".part"))
            kept_bytes += 0 if unfinished else status.st_size
            stale = unfinished and status.st_atime < time.time() - 24 * 3600  # a seal sets the other time
            if stale or (kept_bytes > self._limit_bytes and not unfinished):
                path.unlink(missing_ok=True)


def seal(path: Path, ref: ArtifactRef) -> None:
    """Mark a verified file as the artifact: any later write shows."""
    path.chmod(0o444)
    os.utime(path, ns=(time.time_ns(), _seal_ns(ref)))


def sealed(path: Path, ref: ArtifactRef) -> bool:
    """Say whether the file is the artifact still: a regular file of its size that nobody wrote to since `seal`."""
    try:
        status = path.lstat()
    except OSError:
        return False
    whole = stat.S_ISREG(status.st_mode) and status.st_size == ref.size_bytes
    return whole and status.st_mtime_ns == _seal_ns(ref)


def touch(path: Path) -> None:
    """Note that a file was used just now; keeps its seal."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def link(source: Path, target: Path) -> None:
    """Give a file a second name, in place of what has it; where the file system knows no links, copy it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{uuid.uuid4().hex}")
    try:
        try:
            os.link(source, part)
        except FileNotFoundError:
            raise
        except OSError:
            shutil.copy2(source, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)  # renaming a link onto another link of the same file leaves both


def _seal_ns(ref: ArtifactRef) -> int:
    """Return a time between 2001 and 2027 that only this artifact has; whole seconds, which all file systems keep."""
    return (1_000_000_000 + int(ref.sha256[:8], 16) % 800_000_000) * 1_000_000_000
