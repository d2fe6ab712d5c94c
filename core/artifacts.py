"""Artifacts of a scope: immutable bytes in blob storage, named by their SHA-256.

A reference is handed out only after the write succeeded, and bytes only when their hash is the one that names them.
Writing the same large bytes again costs one HEAD. Everything of any size streams through a file in constant memory.
"""

import asyncio
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from core.content import ArtifactRef, Content, clean, fits_inline, label
from core.errors import BlobCorrupt, InputError
from core.ports import BlobInfo, BlobStore
from core.previews import Survey, survey_bytes, survey_file
from core.redaction import NO_SECRETS, Redaction
from core.scopes import artifact_key

HANDLE = re.compile(r"^(?:a:)?([0-9a-f]{12,64})$")
SMALL_BYTES = 1024 * 1024
"""Up to this size bytes are sent without asking whether they are there: the question costs as much."""
TEXT_CACHE_BYTES = 16 * 1024 * 1024
HIDDEN = "(no preview: there is a secret in it)"
FULL_TEXT_BYTES = 2 * 1024 * 1024
"""Longest text that is read whole: more than any model's window takes."""


class Artifacts:
    """The artifacts of one scope. All writes are idempotent; errors are `StorageError`s of `core.errors`.

    With a `redaction`, none of its secrets gets into a name or a preview; what is stored stays as it is.
    """

    def __init__(
        self, blobs: BlobStore, scope: str, texts: "TextCache | None" = None, redaction: Redaction = NO_SECRETS
    ) -> None:
        self._blobs = blobs
        self._scope = scope
        self._texts = texts or TextCache()
        self._redaction = redaction

    async def store_text(self, text: str, name: str, media_type: str = "text/plain") -> Content:
        """Keep a text by the content rule: inline up to 4 KiB, else as an artifact. The text is cleaned first."""
        text = clean(text)
        if fits_inline(text):
            return Content(text=text)
        return Content(artifact=await self.store_bytes(text.encode(), name, media_type))

    async def store_bytes(self, data: bytes, name: str, media_type: str | None = None) -> ArtifactRef:
        """Store bytes that are in memory anyway; for files use `store_file`."""
        name = self._redaction.apply(name)
        survey = _without_secrets(survey_bytes(data, name, media_type), hidden=self._redaction.found_in([data]))
        ref = _reference(survey, name)
        key = artifact_key(self._scope, ref.sha256)
        if len(data) <= SMALL_BYTES or not await self._is_there(key, ref.size_bytes):
            await self._blobs.put(key, data, sha256=ref.sha256, metadata=_metadata(ref))
        return ref

    async def store_file(self, path: Path, name: str, media_type: str | None = None) -> ArtifactRef:
        """Store a file of any size in constant memory.

        Raises:
            InputError: the file changed while it was stored; nothing was stored.
            OSError: the file can't be read.
        """
        if (await asyncio.to_thread(path.stat)).st_size <= SMALL_BYTES:
            return await self.store_bytes(await asyncio.to_thread(path.read_bytes), name, media_type)
        name = self._redaction.apply(name)
        survey = await asyncio.to_thread(survey_file, path, name, media_type)
        hidden = bool(self._redaction) and self._redaction.found_in(await asyncio.to_thread(_ends, path))
        survey = _without_secrets(survey, hidden=hidden)
        ref = _reference(survey, name)
        key = artifact_key(self._scope, ref.sha256)
        if not await self._is_there(key, ref.size_bytes):
            try:
                await self._blobs.put_file(key, path, sha256=ref.sha256, metadata=_metadata(ref))
            except BlobCorrupt as error:
                cure = "store it again when it is at rest"
                raise InputError(f"{label(name)} changed while it was stored; {cure}") from error
        return ref

    async def find(self, handle: str) -> ArtifactRef:
        """Return the artifact that a handle names (`a:` and at least 12 hex digits, as shown); without its preview.

        Raises:
            InputError: no artifact of this scope fits, or several do.
        """
        match = HANDLE.match(handle.strip().lower())
        if match is None:
            raise InputError(f"{handle!r} is no artifact handle; a handle looks like a:3f9c21d04b7e")
        found = await self._blobs.list(artifact_key(self._scope, match[1]), limit=2)
        if not found:
            raise InputError(f"no artifact {handle} in this run; use a handle as it was shown, or list_files")
        if len(found) > 1:
            raise InputError(f"{handle} fits several artifacts; give more digits of the hash")
        info = await self._blobs.head(found[0].key) or found[0]
        return _reference_of(info)

    async def download(self, ref: ArtifactRef, path: Path) -> None:
        """Write the artifact's bytes to a file, verified before the first of them is there.

        A file that is there is replaced as a whole, with its permissions, and is left as it was on an error. A link
        stays and what it names is written; a pipe or a device is written to. Nothing else of the folder is touched.

        Raises:
            BlobMissing: the object is gone.
            BlobCorrupt: its bytes are not those that the reference names.
            OSError: the file can't be written.
        """
        target, replaced = await asyncio.to_thread(_where, path)
        # Where it replaces a file, the part lies on the same file system, under a name that can't be a person's.
        with tempfile.TemporaryDirectory(prefix=".perdure-", dir=target.parent if replaced else None) as folder:
            part = Path(folder) / "part"
            digest = hashlib.sha256()
            with part.open("wb") as file:
                async for chunk in self._blobs.stream(artifact_key(self._scope, ref.sha256)):
                    digest.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
            _verify(ref, digest.hexdigest())
            await asyncio.to_thread(_replace if replaced else _write_into, part, target)

    async def read_text(self, content: Content) -> str:
        """Return a content's whole text: for texts that a model must see in full (its own words, the task).

        Raises:
            InputError: the text is longer than any model reads (2 MiB); attach it as a file instead.
        """
        if content.artifact is None:
            return content.text or ""
        ref = content.artifact
        cached = self._texts.get(ref.sha256)
        if cached is not None:
            return cached
        if ref.size_bytes > FULL_TEXT_BYTES:
            raise InputError(f"{ref.described()} is too long to be read whole; attach it as a file instead")
        data = await self._blobs.get(artifact_key(self._scope, ref.sha256))
        _verify(ref, hashlib.sha256(data).hexdigest())
        text = data.decode(errors="replace")
        self._texts.put(ref.sha256, text)
        return text

    async def _is_there(self, key: str, size_bytes: int) -> bool:
        info = await self._blobs.head(key)
        return info is not None and info.size_bytes == size_bytes


class TextCache:
    """Texts by hash, the least recently used thrown out: a worker reads an instruction once, not every turn."""

    def __init__(self, limit_bytes: int = TEXT_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()  # async tools have an event loop, and a thread, of their own

    def get(self, sha256: str) -> str | None:
        """Return the text, or None when it is not kept."""
        with self._lock:
            if sha256 in self._texts:
                self._texts.move_to_end(sha256)
            return self._texts.get(sha256)

    def put(self, sha256: str, text: str) -> None:
        """Keep the text, unless it alone is larger than the cache."""
        with self._lock:
            if sha256 in self._texts or len(text) > self._limit_bytes:
                return
            self._texts[sha256] = text
            self._size_bytes += len(text)
            while self._size_bytes > self._limit_bytes:
                _, oldest = self._texts.popitem(last=False)
                self._size_bytes -= len(oldest)


def _ends(path: Path) -> list[bytes]:
    """Return the beginning and the end of a file: all that a preview shows some of."""
    with path.open("rb") as file:
        beginning = file.read(2 * SMALL_BYTES)
        file.seek(max(len(beginning), path.stat().st_size - SMALL_BYTES))
        return [beginning, file.read(SMALL_BYTES)]


def _without_secrets(survey: Survey, *, hidden: bool) -> Survey:
    """Say less of what has a secret in it: a preview cut in its middle would show a part of it."""
    return survey.model_copy(update={"detail": "", "preview": HIDDEN}) if hidden else survey


def _reference(survey: Survey, name: str) -> ArtifactRef:
    return ArtifactRef(
        sha256=survey.sha256,
        size_bytes=survey.size_bytes,
        media_type=survey.media_type,
        name=label(name),
        detail=survey.detail,
        preview=survey.preview,
    )


def _metadata(ref: ArtifactRef) -> dict[str, str]:
    return {"perdure": json.dumps({"name": ref.name, "media_type": ref.media_type, "detail": ref.detail})}


def _reference_of(info: BlobInfo) -> ArtifactRef:
    about = json.loads(info.metadata.get("perdure", "{}"))
    return ArtifactRef(
        sha256=info.key.rsplit("/", 1)[-1],
        size_bytes=info.size_bytes,
        media_type=about.get("media_type", "application/octet-stream"),
        name=about.get("name", "unnamed"),
        detail=about.get("detail", ""),
    )


def _where(path: Path) -> tuple[Path, bool]:
    """Return what a path leads to, and whether it can be replaced there: a regular file, or none yet."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return path.resolve(), True
    if not stat.S_ISREG(status.st_mode):
        return path, False
    target = path.resolve()
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return target, os.access(target.parent, os.W_OK)


def _replace(part: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, part)
    part.replace(target)


def _write_into(part: Path, target: Path) -> None:
    with part.open("rb") as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


def _verify(ref: ArtifactRef, sha256: str) -> None:
    if sha256 != ref.sha256:
        raise BlobCorrupt(
            f"{ref.described()}: the stored bytes hash to {sha256[:12]}, not to {ref.sha256[:12]}; "
            "restore the object from a backup"
        )
