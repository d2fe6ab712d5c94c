"""What kind of bytes a file holds: its first bytes decide, its name only refines what they allow."""

import codecs
import mimetypes
import re
import struct
from pathlib import PurePath

BINARY = "application/octet-stream"

_BY_SUFFIX = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".tab": "text/tab-separated-values",
    ".json": "application/json",
    ".geojson": "application/geo+json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".log": "text/plain",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

_BY_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
)

_TEXTUAL = re.compile(
    r"^text/|[+/](json|xml|yaml|toml|x-ndjson|javascript|x-javascript|sql|x-sh|x-python|x-tex|x-csh|rtf)$"
)
_WELL_FORMED = re.compile(r"^[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*$")
_CONTROL = bytes(sorted(set(range(32)) - set(b"\b\t\n\f\r\x1b"))) + b"\x7f"
_CONTROL_HIGH = bytes(range(0x80, 0xA0))

# The built-in table only: what the machine's own mime.types says must not change what an artifact is.
_KNOWN = mimetypes.MimeTypes()


def encoding_of(head: bytes) -> str | None:
    """Return how the text that begins so is encoded (a Python codec), or None when it is no text.

    `utf-8-sig` and `utf-16` where a byte order mark says so, else `utf-8`, else `latin-1`.
    """
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head or _share(head, _CONTROL) > 0.05:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "latin-1" if _share(head, _CONTROL + _CONTROL_HIGH) <= 0.05 else None
    return "utf-8"


def media_type_of(name: str, head: bytes, declared: str | None = None) -> str:
    """Return the media type of a file: the declared one if it is well-formed, else what bytes and name agree on."""
    if declared is not None and len(declared) <= 120 and _WELL_FORMED.match(declared.lower()):
        return declared.lower()
    named = _media_type_of_name(name)
    if encoding_of(head) is not None and not head.startswith(b"%PDF-"):
        return named if named is not None and is_textual(named) else "text/plain"
    magic = next((media_type for start, media_type in _BY_MAGIC if head.startswith(start)), None)
    if magic == "application/zip" and named is not None and not is_textual(named):
        return named  # office documents and the like are zip archives
    if magic is not None:
        return magic
    return named if named is not None and not is_textual(named) else BINARY


def is_textual(media_type: str) -> bool:
    """Say whether the bytes of this type are text."""
    return _TEXTUAL.search(media_type) is not None


def pixels(head: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF or JPEG from its first bytes, or None."""
    if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR" and len(head) >= 24:
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if head.startswith(b"GIF8") and len(head) >= 10:
        width, height = struct.unpack("<HH", head[6:10])
        return width, height
    return _jpeg_pixels(head) if head.startswith(b"\xff\xd8\xff") else None


def _jpeg_pixels(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", head[at + 2 : at + 4])[0])
    return None


def _media_type_of_name(name: str) -> str | None:
    suffix = PurePath(name.lower()).suffix
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    guessed, compression = _KNOWN.guess_type("file" + suffix, strict=False)
    return guessed if compression is None else None


def _share(data: bytes, of: bytes) -> float:
    return 1 - len(data.translate(None, of)) / len(data) if data else 0.0
