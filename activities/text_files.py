"""Reading text files of any size in constant memory, in pages that fit under the inline limit.

Every page says how to read on. A page that was longer than the limit would become an artifact itself, which the model
would have to page through, and so on for ever.
"""

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.content import clean, cut
from core.errors import Failed
from core.media import encoding_of
from core.previews import printable

PAGE_BYTES = 3500
"""Longest page, without the line below it that says how to read on; far enough below the inline limit."""

LINE_BYTES = 1000
"""Longest line that is shown whole."""

PIECE_CHARACTERS = 64 * 1024
"""A line is read in pieces of this length, so that a file of a single line needs no more memory than any other."""

_HEAD_BYTES = 64 * 1024


Line = tuple[int, str]
"""A line's number, from 1, and its text; of a very long line one piece of it."""


class TextFile:
    """A text file.

    Raises:
        Failed: it is no text; the message names the cure.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        with path.open("rb") as file:
            encoding = encoding_of(file.read(_HEAD_BYTES))
        if encoding is None:
            raise Failed(f"{name} is no text; read_artifact with first_byte shows its bytes")
        self.encoding = encoding

    def pieces(self) -> Iterator[Line]:
        """Yield all of the file by lines; of very long lines one piece after the other, under one number."""
        number = 1
        with self.path.open(encoding=self.encoding, errors="replace", newline="\n") as file:
            while piece := file.readline(PIECE_CHARACTERS):
                yield number, piece.rstrip("\r\n")
                number += piece.endswith("\n")

    def lines(self) -> Iterator[Line]:
        """Yield the lines; of a very long one only its beginning."""
        last = 0
        for number, text in self.pieces():
            if number != last:
                yield number, text
            last = number

    def count(self) -> int:
        """Return how many lines the file has."""
        if self.encoding == "utf-16":
            return sum(1 for _ in self.lines())
        ends, last = 0, b"\n"
        with self.path.open("rb") as file:
            while chunk := file.read(1024 * 1024):
                ends, last = ends + chunk.count(b"\n"), chunk[-1:]
        return ends + (last != b"\n")

    def page(self, first_line: int, lines: int) -> str:
        """Return numbered lines (`12: text`) from `first_line` on, as many as asked for and fit, and how to read on.

        Raises:
            Failed: the file has no such line.
        """
        if first_line < 1 or lines < 1:
            raise Failed("first_line and lines count from 1")
        page = Page()
        total = self.count()
        if total == 0:
            return f"({self.name} is empty)"
        if first_line > total:
            raise Failed(f"{self.name} has {total:,} lines; first_line {first_line:,} is behind its end")
        shown = first_line - 1
        for number, text in self.lines():
            if number < first_line:
                continue
            if number >= first_line + lines or not page.add(f"{number}: {shortened(text, LINE_BYTES)}"):
                break
            shown = number
        end = "the end" if shown == total else f"go on with first_line={shown + 1}"
        return page.text(f"(lines {first_line:,} to {shown:,} of {total:,} of {self.name}; {end})")


class Page:
    """Lines as far as they fit. Once one did not fit, no later one does: a page has no holes."""

    def __init__(self, limit_bytes: int = PAGE_BYTES) -> None:
        self._left_bytes = limit_bytes
        self._lines: list[str] = []
        self.full = False

    def add(self, line: str) -> bool:
        """Add a line; say whether it fitted. The first one always does, cut."""
        shown = cut(printable(line), self._left_bytes if not self._lines else PAGE_BYTES)
        size_bytes = len(shown.encode()) + 1
        if self.full or (self._lines and size_bytes > self._left_bytes):
            self.full = True
            return False
        self._lines.append(shown)
        self._left_bytes -= size_bytes
        return True

    def text(self, last: str) -> str:
        """Return the lines, and below them the line that says what this is and how to get more."""
        return "\n".join([*self._lines, cut(last, 400)])


def shortened(line: str, limit_bytes: int) -> str:
    """Cut a line, saying that it goes on."""
    if len(line) <= limit_bytes and len(line.encode(errors="replace")) <= limit_bytes:
        return line
    return f"{cut(line, limit_bytes)} (the line goes on; read_artifact with first_byte reads any part)"


def byte_page(path: Path, name: str, first_byte: int, byte_count: int) -> str:
    """Return bytes of any file, counted from 0: as text where they are text, else in hexadecimal.

    Raises:
        Failed: the file has no such byte.
    """
    size_bytes = path.stat().st_size
    if first_byte < 0 or byte_count < 1:
        raise Failed("first_byte counts from 0, bytes from 1")
    if first_byte >= size_bytes:
        raise Failed(f"{name} has {size_bytes:,} bytes; first_byte {first_byte:,} is behind its end")
    with path.open("rb") as file:
        encoding = encoding_of(file.read(_HEAD_BYTES))
        file.seek(first_byte)
        data = file.read(min(byte_count, PAGE_BYTES))
    text, used = _hexadecimal(data, first_byte) if encoding in {None, "utf-16"} else _as_text(data, encoding or "")
    last = first_byte + used
    end = "the end" if last >= size_bytes else f"go on with first_byte={last}"
    return f"{text}\n(bytes {first_byte:,} to {last - 1:,} of {size_bytes:,} of {name}; {end})"


def _as_text(data: bytes, encoding: str) -> tuple[str, int]:
    """Decode, leaving a character that is cut at the end for the next page; say how many bytes were shown."""
    if encoding == "latin-1":
        data = data[: PAGE_BYTES // 2]
        return printable(data.decode("latin-1")), len(data)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = printable(clean(decoder.decode(data)))
    left = len(decoder.getstate()[0])
    if left and left == len(data):
        return "\ufffd", len(data)
    while len(text.encode()) > PAGE_BYTES:  # broken bytes take three bytes each as replacement characters
        return _as_text(data[: len(data) // 3], encoding)
    return text, len(data) - left


def _hexadecimal(data: bytes, first_byte: int) -> tuple[str, int]:
    data = data[:640]
    rows = (data[at : at + 16] for at in range(0, len(data), 16))
    return "\n".join(_hex_rows(rows, first_byte)), len(data)


def _hex_rows(rows: Iterable[bytes], first_byte: int) -> Iterator[str]:
    for number, row in enumerate(rows):
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{first_byte + number * 16:08x}  {row.hex(' '):<47}  |{shown}|"
