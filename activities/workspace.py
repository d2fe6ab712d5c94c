"""The files of a run as a tool sees them: its attachments by name, and any artifact of its scope, as local files.

Names are labels: an attachment called `../../etc/passwd` is the file `passwd` of the workspace. Nothing is downloaded
before a tool asks for it, nothing is handed out unverified, and no name leads out of the folder.
"""

import asyncio
import difflib
import shutil
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from activities.downloads import Downloads, sealed, touch
from core.artifacts import HANDLE, Artifacts
from core.content import ArtifactRef, cut, label, one_line
from core.errors import InputError
from core.journal import Head, Journal
from core.scopes import scope_prefix

FILE_NAME_BYTES = 200
"""Longest file name: file systems take 255 bytes."""

UNUSED_DAYS = 7
"""A workspace that no tool used for so long is removed; it is made again when one does."""


@dataclass(frozen=True)
class Attachment:
    """One file of the workspace: its name, which no other has, and what it is."""

    name: str
    ref: ArtifactRef


class Workspace:
    """The files of one scope, for one tool call. Everything may be repeated."""

    def __init__(
        self, artifacts: Artifacts, journal: Journal, opening: Head, downloads: Downloads, folders: "WorkspaceFolders"
    ) -> None:
        self._artifacts = artifacts
        self._journal = journal
        self._opening = opening
        self._downloads = downloads
        self._folders = folders

    async def attachments(self) -> tuple[Attachment, ...]:
        """Return the run's attachments under the names that tools use, in their order. Downloads nothing."""
        started = await self._journal.configuration(self._opening)
        names = safe_names([ref.name for ref in started.attachments])
        return tuple(Attachment(name, ref) for name, ref in zip(names, started.attachments, strict=True))

    async def matching(self, pattern: str) -> tuple[Attachment, ...]:
        """Return the attachments whose name fits a pattern such as `*.csv`, upper and lower case alike."""
        folded = _folded(pattern)
        return tuple(file for file in await self.attachments() if fnmatchcase(_folded(file.name), folded))

    async def reference(self, handle_or_name: str) -> ArtifactRef:
        """Return the artifact that an attachment's name or a handle (`a:3f9c21d04b7e`) means.

        Raises:
            InputError: nothing fits, or several artifacts do; the text says what there is.
        """
        attachments = await self.attachments()
        wanted = _folded(handle_or_name.strip())
        for file in attachments:
            if _folded(file.name) == wanted:
                return file.ref
        if HANDLE.match(handle_or_name.strip().lower()):
            return await self._artifacts.find(handle_or_name)
        raise InputError(_unknown(handle_or_name, [file.name for file in attachments]))

    async def local(self, handle_or_name: str) -> Path:
        """Return a verified local copy of an attachment or artifact; do not write to it.

        Raises:
            InputError: as `reference`.
            StorageError: by its own verdict.
        """
        return await self.local_copy(await self.reference(handle_or_name))

    async def local_copy(self, ref: ArtifactRef) -> Path:
        """Return a verified local copy of an artifact of this scope; do not write to it."""
        path = self._folders.own / ref.sha256
        if not await asyncio.to_thread(sealed, path, ref):
            await self._downloads.place(self._artifacts, ref, path)
        return path

    async def folder(self) -> Path:
        """Return a folder that has all attachments under their names; do not write to the files."""
        await self.files()
        return self._folders.shared

    async def files(self) -> list[tuple[Path, ArtifactRef]]:
        """Return the attachments as local files of `folder`, verified."""
        await asyncio.to_thread(self._folders.use)
        placed: list[tuple[Path, ArtifactRef]] = []
        for file in await self.attachments():
            path = self._folders.shared / file.name
            if not await asyncio.to_thread(sealed, path, file.ref):
                await self._downloads.place(self._artifacts, file.ref, path)
            placed.append((path, file.ref))
        return placed


class WorkspaceFolders:
    """Where the files of a scope are on this worker: `shared` by all its calls, `own` for one attempt of one."""

    def __init__(self, workspaces: Path, scope: str, own: Path) -> None:
        self.shared = workspaces / PurePath(scope_prefix(scope)).name
        self.own = own

    def use(self) -> None:
        """Make the shared folder, and note that it is in use."""
        self.shared.mkdir(parents=True, exist_ok=True)
        touch(self.shared)


def sweep(folder: Path, unused_days: float) -> None:
    """Remove the folders below that nobody used for so long; they hold only what can be made again."""
    if not folder.is_dir():
        return
    oldest = time.time() - unused_days * 24 * 3600
    for path in folder.iterdir():
        status = path.lstat()
        if path.is_dir() and not path.is_symlink() and max(status.st_atime, status.st_mtime) < oldest:
            shutil.rmtree(path, ignore_errors=True)


def safe_names(names: Sequence[str]) -> list[str]:
    """Make file names of labels: one path segment each, short enough, no two alike on any file system."""
    taken: set[str] = set()
    safe: list[str] = []
    for name in names:
        first = _short(label(name))
        candidate, number = first, 1
        while _folded(candidate) in taken:
            number += 1
            candidate = f"{PurePath(first).stem}-{number}{PurePath(first).suffix}"
        taken.add(_folded(candidate))
        safe.append(candidate)
    return safe


def _short(name: str) -> str:
    if len(name.encode()) <= FILE_NAME_BYTES:
        return name
    suffix = PurePath(name).suffix if len(PurePath(name).suffix.encode()) <= 20 else ""
    return cut(name.removesuffix(suffix), FILE_NAME_BYTES - len(suffix.encode())) + suffix


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"no file {one_line(name, 80)!r}: nothing is attached to this run"
    near = difflib.get_close_matches(name[:200], known, n=3, cutoff=0.5)
    listed = cut(", ".join(near or known[:20]), 1000)
    more = f" and {len(known) - 20} more" if not near and len(known) > 20 else ""
    return f"no file {one_line(name, 80)!r}; {'did you mean' if near else 'attached are'}: {listed}{more}"
