"""What a file is and looks like, found in one pass and constant memory: its hash, size, media type and a preview.

A preview fits its type (the columns of a CSV, the shape of a JSON, head and tail of a text) and is safe to send and to
show. Nothing here raises on odd bytes: a CSV that is none is shown as the text that it is.
"""

import codecs
import hashlib
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from core.content import PREVIEW_BYTES, clean, cut
from core.frozen import Frozen
from core.media import encoding_of, media_type_of, pixels
from core.shapes import Shape, delimiter_of, json_shape, jsonl_shape, table_shape, text_shape

CHUNK_BYTES = 1024 * 1024
"""Read at a time; also how much of a file's beginning is looked at for its type, columns and shape."""

TAIL_BYTES = 4096
_DIRECTIONS = dict.fromkeys([0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
"""Invisible characters that turn the direction of the text around them: a preview must look like what it is."""

_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(0x7F, 0xA0)])
_TABLES = {"text/csv", "text/tab-separated-values"}

_QUOTED = re.compile(rb'(?<=[,;\t|\n\r"])"[^"]*"')
_OPENED = re.compile(rb'(?<=[,;\t|\n\r"])"')


class Survey(Frozen):
    """What one pass over some bytes found. `preview` is at most PREVIEW_BYTES of clean UTF-8."""

    sha256: str
    size_bytes: int
    media_type: str
    detail: str
    preview: str


def survey_file(path: Path, name: str, media_type: str | None = None) -> Survey:
    """Survey a file of any size. Raises only the OSError of a file that can't be read."""
    with path.open("rb") as file:
        return _survey(iter(lambda: file.read(CHUNK_BYTES), b""), name, media_type)


def survey_bytes(data: bytes, name: str, media_type: str | None = None) -> Survey:
    """Survey bytes that are in memory."""
    return _survey((data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)), name, media_type)


def _survey(chunks: Iterator[bytes], name: str, declared: str | None) -> Survey:
    head = next(chunks, b"")
    encoding = encoding_of(head)
    media_type = media_type_of(name, head, declared)
    text = None if encoding is None else _Text(encoding, table=media_type in _TABLES)
    digest = hashlib.sha256()
    size_bytes = 0
    for chunk in chain([head] if head else [], chunks):
        digest.update(chunk)
        size_bytes += len(chunk)
        if text is not None:
            text.feed(chunk)
    shape = _binary_shape(head, media_type) if text is None else _text_shape(text, media_type)
    return Survey(
        sha256=digest.hexdigest(),
        size_bytes=size_bytes,
        media_type=media_type,
        detail=cut(printable(shape.detail), 120),
        preview=cut(printable(shape.preview), PREVIEW_BYTES).rstrip() or "(nothing that can be shown)",
    )


def printable(text: str) -> str:
    """Return a text without what can't be shown: no control characters but tab and newline, no lone surrogates."""
    return clean(text.translate(_CONTROLS).translate(_DIRECTIONS))


class _Text:
    """The text of a file as it streams by: its beginning, its end, how many lines and records it has."""

    def __init__(self, encoding: str, *, table: bool) -> None:
        self.whole = True
        self.head = ""
        self.lines = 0
        self._encoding = "latin-1" if encoding == "latin-1" else "utf-8"
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding == "utf-16" else None
        self._tail = b""
        self._table = table
        self._records = 0
        self._quoted = False
        self._before = b"\n"

    @property
    def tail(self) -> str:
        return self._tail.decode(self._encoding, errors="replace").lstrip("\ufffd")

    @property
    def records(self) -> int:
        """Return how many records a CSV has: lines, where line ends within quotes do not count."""
        return self.lines if self._quoted else self._records

    def feed(self, chunk: bytes) -> None:
        first = not self._tail
        if self._decoder is not None:
            chunk = self._decoder.decode(chunk).encode(errors="replace")
        if first:
            decoder = codecs.getincrementaldecoder(self._encoding)("replace")
            self.head = decoder.decode(chunk).removeprefix("\ufeff")
        else:
            self.whole = False
        if not chunk:
            return
        ended_before = not self._tail or self._tail.endswith(b"\n")
        self.lines += chunk.count(b"\n") + (not chunk.endswith(b"\n")) - (not ended_before)
        if self._table:
            self._count_records(chunk, ended_before=ended_before)
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _count_records(self, chunk: bytes, *, ended_before: bool) -> None:
        """Count line ends outside quotes. A quote opens only where a field begins: `5" pipe` opens none."""
        rest = self._before + chunk
        if self._quoted:
            _, quote, rest = chunk.partition(b'"')
            rest = quote + rest
            self._quoted = not quote
        unquoted = _QUOTED.sub(b"", rest)
        opened = _OPENED.search(unquoted)
        if opened is not None:
            self._quoted = True
            unquoted = unquoted[: opened.start()]
        self._records += unquoted[1:].count(b"\n") + (not chunk.endswith(b"\n")) - (not ended_before)
        self._before = chunk[-1:]


def _text_shape(text: _Text, media_type: str) -> Shape:
    shape = None
    if not text.head.strip():
        return Shape(detail="empty" if not text.lines else "blank", preview="(empty)" if not text.lines else "(blank)")
    if media_type in _TABLES:
        delimiter = "\t" if media_type.startswith("text/tab") else delimiter_of(text.head)
        shape = table_shape(text.head, delimiter, text.records) if delimiter else None
    elif media_type == "application/x-ndjson":
        shape = jsonl_shape(text.head, text.lines)
    elif media_type.endswith(("/json", "+json")):
        shape = json_shape(text.head, whole=text.whole)
    return shape or text_shape(text.head, text.tail, text.lines)


def _binary_shape(head: bytes, media_type: str) -> Shape:
    size = pixels(head)
    first = head[:32]
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in first)
    kind = "Parquet table: columns and rows can be queried" if media_type.endswith(".parquet") else "binary"
    return Shape(
        detail=f"{size[0]} x {size[1]} pixels" if size else "",
        preview=f"{kind}; begins with {first.hex(' ')} |{shown}|",
    )
