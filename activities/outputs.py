"""From what a tool returned to what the model reads: text up to 4 KiB inline, everything else an artifact.

Bytes, files, `ToolOutput` and artifact references are results made on purpose: they are artifacts of any size, and
listed as the run's. A text that is merely too long for the history becomes an artifact that is not listed.
"""

import dataclasses
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from activities.secrets import redacted
from activities.tool_context import ToolOutput
from core.artifacts import SMALL_BYTES, Artifacts
from core.content import PREVIEW_BYTES, ArtifactRef, Content, clean, cut, fits_inline, inline, label

NOTHING = "(nothing returned)"
EMPTY = "(empty)"
MADE = 20
"""Most artifacts that one call makes on purpose."""


@dataclass(frozen=True)
class Spooled:
    """Bytes that wait in a file to become an artifact; `made` says whether on purpose."""

    path: Path
    name: str
    media_type: str | None
    made: bool = True


@dataclass(frozen=True)
class Held:
    """Bytes in memory that wait to become an artifact: what is small takes no way over the disk."""

    data: bytes
    name: str
    media_type: str | None
    made: bool = True


Prepared = str | tuple[Held | Spooled | ArtifactRef, ...]


def prepare(value: object, name: str, folder: Path) -> Prepared:
    """Turn a tool's return value into a short text, or files to store. Runs in a thread: it draws from iterators.

    `name` names what has no name of its own; files are spooled into `folder`.

    Raises:
        TypeError: the value is nothing that a tool may return.
    """
    made = _made(value, name, folder)
    if made is not None:
        return (made,)
    if isinstance(value, list | tuple) and value and all(isinstance(item, _ON_PURPOSE) for item in value):
        if len(value) > MADE:
            raise TypeError(f"{len(value)} artifacts in one result; at most {MADE}: return an archive")
        several = (_made(item, f"{name}-{number}", folder) for number, item in enumerate(value, start=1))
        return tuple(item for item in several if item is not None)
    text, suffix, media_type = _as_text(value)
    text = redacted(text)
    if fits_inline(text):
        return text or EMPTY
    data = text.encode()
    if len(data) <= SMALL_BYTES:
        return (Held(data, name + suffix, media_type, made=False),)
    path = _new_file(folder)
    path.write_bytes(data)
    return (Spooled(path, name + suffix, media_type, made=False),)


async def store(prepared: Prepared, artifacts: Artifacts) -> tuple[Content, tuple[ArtifactRef, ...]]:
    """Store what was prepared; return the content that the model reads, and the artifacts made on purpose.

    Raises:
        InputError: a file changed while it was stored.
        StorageError: by its own verdict.
    """
    if isinstance(prepared, str):
        return Content(text=prepared), ()
    refs = [await _stored(item, artifacts) for item in prepared]
    made = tuple(ref for item, ref in zip(prepared, refs, strict=True) if isinstance(item, ArtifactRef) or item.made)
    if len(refs) == 1:
        return Content(artifact=refs[0]), made
    return inline("\n".join(ref.described() for ref in refs)), made


async def _stored(item: Held | Spooled | ArtifactRef, artifacts: Artifacts) -> ArtifactRef:
    match item:
        case Held():
            return await artifacts.store_bytes(item.data, item.name, item.media_type)
        case Spooled():
            return await artifacts.store_file(item.path, item.name, item.media_type)
        case ArtifactRef():
            return item


_ON_PURPOSE = (bytes, bytearray, memoryview, Path, ToolOutput, ArtifactRef)


def _made(value: object, name: str, folder: Path) -> Spooled | ArtifactRef | None:
    """Return what was made on purpose, ready to be stored; None when the value is a text or data."""
    if isinstance(value, ArtifactRef):
        return _without_secrets(value)
    if isinstance(value, ToolOutput):
        content = redacted(clean(value.content)).encode() if isinstance(value.content, str) else value.content
        inner = _made(content, value.name, folder)
        if not isinstance(inner, Spooled):
            raise TypeError(f"ToolOutput of a {type(value.content).__name__}; use str, bytes, Path or Iterator[bytes]")
        return Spooled(inner.path, value.name, value.media_type and redacted(value.media_type))
    if isinstance(value, Path):
        if not value.is_file():
            raise TypeError(f"returned the path {value.name}, where no file is")
        return Spooled(value, value.name, None)
    if isinstance(value, bytes | bytearray | memoryview):
        value = iter([bytes(value)])
    if isinstance(value, Iterator):
        return Spooled(_spool(value, folder), name, None)
    return None


def _without_secrets(ref: ArtifactRef) -> ArtifactRef:
    """Return a reference as a tool may hand it on; most are as they were made."""
    name, detail, preview = map(redacted, (ref.name, ref.detail, ref.preview))
    if (name, detail, preview) == (ref.name, ref.detail, ref.preview):
        return ref
    shown = {"name": label(name), "detail": cut(detail, 120), "preview": cut(preview, PREVIEW_BYTES)}
    return ref.model_copy(update=shown)


def _spool(chunks: Iterator[object], folder: Path) -> Path:
    path = _new_file(folder)
    with path.open("wb") as file:
        for chunk in chunks:
            if not isinstance(chunk, bytes | bytearray | memoryview):
                raise TypeError(f"an iterator gave a {type(chunk).__name__}; give bytes")
            file.write(chunk)
    return path


def _as_text(value: object) -> tuple[str, str, str]:
    """Return the value as clean text, the suffix of a file of it, and its media type."""
    if value is None:
        return NOTHING, ".txt", "text/plain"
    if isinstance(value, str):
        return clean(value), ".txt", "text/plain"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value), ".txt", "text/plain"
    if not (isinstance(value, bool | dict | list | tuple | set | frozenset | BaseModel) or _is_dataclass(value)):
        raise TypeError(
            f"returned a value of type {type(value).__name__}; return str, a number, a dict, a list, a pydantic model, "
            "a dataclass, bytes, a Path, an iterator of bytes, ToolOutput or None"
        )
    data: Any = to_jsonable_python(_plain(value), fallback=str, bytes_mode="base64")
    return clean(json.dumps(data, ensure_ascii=False)), ".json", "application/json"


def _plain(value: Any) -> Any:
    """Return the value as plain data that JSON can say: strings cleaned, numbers finite."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, BaseModel):
        return _plain(value.model_dump())
    if _is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _new_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"output-{uuid.uuid4().hex}"
