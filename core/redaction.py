"""Secrets in texts: found in the forms that they take there, and replaced by their names.

This is for what happens by accident: an output, an error or a log line that quotes a token. Found is the value as it
is, as JSON and Python escape it, as a URL has it, and in Base64, also inside of something longer (`Authorization:
Basic`); of a value of several lines also each long line. What a tool makes of a secret on purpose (reversed,
encrypted, cut in two) is not found.
"""

import base64
import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, quote_plus

from core.content import clean

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""What a secret may be called; for `fullmatch`."""
SHORTEST_CHARACTERS = 4
"""A shorter value stands in texts by chance: hiding it would hide everything."""
LINE_CHARACTERS = 16
"""From this length on, a line of a value of several lines (a private key, a service account) is hidden by itself."""
INNER_CHARACTERS = 8
"""Shorter pieces of Base64 stand in texts by chance."""
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "latin-1")


@dataclass(frozen=True)
class Redaction:
    """Replaces secrets by `[secret NAME]`. `forms` are what to look for, and the name that stands for each."""

    forms: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> "Redaction":
        """Return the redaction of these values, by name.

        Raises:
            ValueError: a value is too short (`too_short`); names it, and does not repeat the value.
        """
        named: dict[str, str] = {}
        for name, value in secrets.items():
            if too_short(value):
                raise ValueError(f"secret {name} has fewer than {SHORTEST_CHARACTERS} characters")
            for form in _forms(value):
                named.setdefault(form, name)
        return cls(tuple(named.items()))

    def __bool__(self) -> bool:
        """Say whether there is anything to hide."""
        return bool(self.forms)

    def apply(self, text: str) -> str:
        """Return the text with `[secret NAME]` for each secret in it; what overlaps is replaced as one."""
        spans = sorted(
            ((start, start + len(form), name) for form, name in self.forms for start in _places(form, text)),
            key=lambda span: (span[0], -span[1]),
        )
        parts: list[str] = []
        at = 0
        for start, end, name in spans:
            if start >= at:
                parts += [text[at:start], f"[secret {name}]"]
            at = max(at, end)
        return "".join([*parts, text[at:]])

    def found_in(self, chunks: Iterable[bytes]) -> bool:
        """Say whether a secret stands in bytes that come in chunks, in any encoding that previews read."""
        before = b""
        for chunk in chunks if self.forms else ():
            window = before + chunk
            if any(needle in window for needle in self._needles):
                return True
            before = window[1 - max(map(len, self._needles)) :]
        return False

    @cached_property
    def _needles(self) -> frozenset[bytes]:
        needles: set[bytes] = set()
        for form, _ in self.forms:
            for encoding in _ENCODINGS:
                with contextlib.suppress(UnicodeEncodeError):
                    needles.add(form.encode(encoding))
        return frozenset(needles)


NO_SECRETS = Redaction()


def too_short(value: str) -> bool:
    """Say whether a value is too short to be a secret; white space around it does not count."""
    return len(value.strip()) < SHORTEST_CHARACTERS


def _places(form: str, text: str) -> Iterator[int]:
    at = text.find(form)
    while at >= 0:
        yield at
        at = text.find(form, at + 1)


def _forms(value: str) -> set[str]:
    """Return what the value looks like in texts; errors and log lines escape it once or twice."""
    lines = [line.strip() for line in value.splitlines()]
    plain = {value, *(line for line in lines if len(line) >= LINE_CHARACTERS)}
    cleaned = {clean(text) for text in plain}
    once = {form for text in plain | cleaned for form in _escaped(text)}
    twice = {form for text in once for form in _escaped(text)}
    data = value.encode(errors="replace")
    ways = (quote, quote_plus, lambda text, errors: quote(text, safe="", errors=errors))
    quoted = {way(value, errors="replace") for way in ways}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda escape: escape[0].lower(), text) for text in quoted}
    return plain | cleaned | once | twice | quoted | lower | set(_base64(data))


def _escaped(text: str) -> tuple[str, ...]:
    as_json, ascii_json = json.dumps(text, ensure_ascii=False), json.dumps(text)
    return text, as_json[1:-1], ascii_json[1:-1], repr(text)[1:-1], text.replace('"', '""')


def _base64(data: bytes) -> Iterator[str]:
    """Yield the Base64 of the bytes, and what of it is the same wherever they stand in something longer."""
    whole = base64.b64encode(data).decode()
    found = [whole, whole.rstrip("=")]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        inner = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        found += [inner] if len(inner) >= INNER_CHARACTERS else []
    for text in found:
        yield text
        yield text.replace("+", "-").replace("/", "_")
