"""The client's side of blob storage: the store opened and proven, and artifacts put where a person wants them."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from core.artifacts import HANDLE, Artifacts
from core.content import ArtifactRef, Content, clean, label
from core.errors import InputError
from core.storage import Storage
from infra.settings import Settings

SILENCE = timedelta(seconds=3)
"""After how long a person is told that the store does not answer yet."""


class ArtifactNotFound(InputError):
    """The run has no such artifact, or there is no such run."""


@asynccontextmanager
async def opened_storage(settings: Settings, tell: Callable[[str], None] | None = None) -> AsyncIterator[Storage]:
    """Open the store that the settings name, after a proof that it takes our requests.

    `tell` is told when the store lets that proof wait.

    Raises:
        StoreUnavailable: it does not answer.
        StoreRefused: wrong credentials, no such bucket.
    """
    # boto3 is a fifth of a command's start-up, and most need no store.
    from infra.s3 import READ_TIMEOUT_SECONDS, S3BlobStore

    blobs = S3BlobStore.from_settings(settings)
    said = f"the store does not answer yet, trying for {READ_TIMEOUT_SECONDS} s"
    telling = asyncio.get_running_loop().call_later(SILENCE.total_seconds(), tell or _nobody, said)
    try:
        await blobs.check()
        telling.cancel()
        yield Storage(blobs)
    finally:
        telling.cancel()
        await blobs.close()


async def find_artifact(artifacts: Artifacts, run: str, handle: str) -> ArtifactRef:
    """Return what a handle names among the artifacts of a run.

    Raises:
        InputError: it is no handle.
        ArtifactNotFound: nothing or several things bear it in this run.
    """
    try:
        return await artifacts.find(handle)
    except InputError as error:
        if HANDLE.match(handle.strip().lower()) is None:
            raise
        raise ArtifactNotFound(f"run {run!r}: {error}") from None


async def save(artifacts: Artifacts, ref: ArtifactRef, target: Path) -> Path:
    """Write an artifact, verified, to a file, or under its own name into a folder; return the file's path.

    Raises:
        InputError: the file can't be written.
        StorageError: by its own verdict; an existing file is left as it was.
    """
    try:
        path = await asyncio.to_thread(_inside, target, ref)
        await artifacts.download(ref, path)
    except OSError as error:
        raise _unwritable(target, error) from error
    return path


async def copy(artifacts: Artifacts, ref: ArtifactRef, stream: BinaryIO) -> None:
    """Write an artifact to a stream: verified before its first byte is out."""
    with tempfile.TemporaryDirectory() as folder:
        path = await save(artifacts, ref, Path(folder) / "artifact")
        with path.open("rb") as file:
            shutil.copyfileobj(file, stream)


def save_text(text: str, target: Path) -> Path:
    """Write a text to a file.

    Raises:
        InputError: the file can't be written.
    """
    try:
        target.write_text(clean(text), encoding="utf-8")
    except OSError as error:
        raise _unwritable(target, error) from error
    return target


async def whole_text(settings: Settings, scope: str, content: Content) -> str:
    """Return a content's text in full, whatever its length; the store is opened only when it is an artifact."""
    if content.artifact is None:
        return content.text or ""
    async with opened_storage(settings) as storage:
        with tempfile.TemporaryDirectory() as folder:
            path = await save(storage.artifacts(scope), content.artifact, Path(folder) / "text")
            return path.read_bytes().decode(errors="replace")


def _nobody(_said: str) -> None:
    pass


def _inside(target: Path, ref: ArtifactRef) -> Path:
    return target / label(ref.name) if target.is_dir() else target


def _unwritable(path: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"{clean(str(path))!r} can't be written ({reason}); name another file with -o")
