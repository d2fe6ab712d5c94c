"""The one rule for everything that can be big: up to 4 KiB travels inline, the rest is an artifact with a preview.

It holds for tool outputs, tool arguments, model texts, tasks and results, so that no payload of a run grows with
what a tool or a model returns.
"""

import json
import unicodedata
from typing import Self

from pydantic import Field, model_validator

from core.frozen import Frozen, Sparse

INLINE_BYTES = 4096
"""Longest UTF-8 text that travels inline."""

INLINE_JSON_BYTES = 2 * INLINE_BYTES
"""Longest inline text as a payload holds it: a control character takes six bytes there, a quote or a line end two."""

PREVIEW_BYTES = 768
"""Longest preview of an artifact."""

NAME_CHARACTERS = 120
"""Longest name of an artifact; names are labels for people, never keys or paths."""


class ArtifactRef(Sparse):
    """A reference to immutable bytes in blob storage, named by their SHA-256 (hex)."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)
    media_type: str = Field(max_length=120)
    name: str = Field(max_length=NAME_CHARACTERS)
    detail: str = Field(default="", max_length=120)
    preview: str = ""

    @property
    def handle(self) -> str:
        """How people and models call it: `a:` and 12 hex digits."""
        return f"a:{self.sha256[:12]}"

    def described(self) -> str:
        """Say what it is in one line, without the preview."""
        facts = [f"artifact {self.handle}", self.name, self.media_type, readable_bytes(self.size_bytes)]
        return ", ".join([*facts, self.detail] if self.detail else facts)


class Content(Frozen):
    """Text of any size: inline, or an artifact with a preview. Exactly one of the two."""

    text: str | None = None
    artifact: ArtifactRef | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.text is None) == (self.artifact is None):
            raise ValueError("content is either text or an artifact")
        if self.text is not None and len(self.text.encode(errors="replace")) > INLINE_BYTES:
            raise ValueError(f"inline text is at most {INLINE_BYTES} bytes: store it as an artifact")
        return self

    def shown(self) -> str:
        """Return what a person or a model reads in its place: the text, or what the artifact is and its preview."""
        if self.artifact is None:
            return self.text or ""
        return f"{self.artifact.described()}\n{self.artifact.preview}".rstrip()


def fits_inline(text: str) -> bool:
    """Say whether the text may travel inline."""
    if len(text) > INLINE_BYTES or len(text.encode(errors="replace")) > INLINE_BYTES:
        return False
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) <= INLINE_JSON_BYTES + len('""')


def inline(text: str) -> Content:
    """Make inline content, cut to the limit where it must be: for texts that are ours, not data."""
    return Content(text=cut(text, INLINE_BYTES))


def clean(text: str) -> str:
    """Replace what can't be sent or shown: lone surrogates become U+FFFD, NUL becomes U+2400."""
    return text.encode("utf-8", errors="surrogatepass").decode("utf-8", errors="replace").replace("\0", "\u2400")


def cut(text: str, limit_bytes: int) -> str:
    """Shorten to at most `limit_bytes` of UTF-8, with an ellipsis at the end where something is missing."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit_bytes:
        return text
    return encoded[: limit_bytes - 3].decode(errors="ignore") + "…"


def one_line(text: str, limit_characters: int = 120) -> str:
    """Fold white space and control characters into single spaces and cut: for summaries and lists."""
    visible = text[: 4 * limit_characters]
    if not visible.isprintable():
        visible = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in visible)
    folded = " ".join(visible.split())
    return folded if len(folded) <= limit_characters else folded[: limit_characters - 1] + "…"


def label(name: str) -> str:
    """Make a name that is safe to show: the last path segment, printable, at most 120 characters; never empty."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return one_line(clean(last), NAME_CHARACTERS).strip(". ") or "unnamed"


def readable_bytes(size_bytes: int) -> str:
    """Write a size as people do: `812 bytes`, `1.2 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    size = float(size_bytes)
    for unit in ("KB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
