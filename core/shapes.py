"""Previews of texts by their type: the columns of a table, the keys of a JSON, the head and tail of the rest."""

import csv
import json
from collections.abc import Iterable

from core.content import PREVIEW_BYTES, cut, one_line
from core.frozen import Frozen

SAMPLE_CHARACTERS = 64 * 1024
"""How much of a table's beginning is parsed to find its delimiter and columns."""

_HEAD_BYTES = 400
_TAIL_BYTES = 240
_LINE_BYTES = 160
_ROWS = 5
_DELIMITERS = (",", ";", "\t", "|")


class Shape(Frozen):
    """What a file has (`20,310 rows`) and what it looks like. Not yet cut, nor cleaned."""

    detail: str
    preview: str


def delimiter_of(text: str) -> str | None:
    """Return what separates the columns of the table that begins so, or None when it is no table.

    It is one that gives most rows the width of the first; a table of a single column is told by one short word a line.
    """
    best, widest = None, 1
    for delimiter in _DELIMITERS:
        rows = _rows(text, delimiter)
        width = len(rows[0]) if rows else 0
        if width > widest and sum(len(row) == width for row in rows) >= 0.8 * len(rows):
            best, widest = delimiter, width
    if best is None and all(
        len(line.split()) <= 1 and len(line) <= 200 for line in text[:SAMPLE_CHARACTERS].splitlines()[:20]
    ):
        return ","
    return best


def table_shape(text: str, delimiter: str, records: int) -> Shape | None:
    """Describe a table from its beginning and its number of records, the header being one; None if it is no table."""
    rows = _rows(text, delimiter)
    if not rows or not any(rows[0]):
        return None
    columns = [one_line(name, 60) or "(unnamed)" for name in rows[0]]
    count = max(records - 1, 0)
    detail = f"{counted(count, 'row')}, {counted(len(columns), 'column')}"
    separated = {"\t": "tab"}.get(delimiter, delimiter)
    shown = [f"columns (separated by {separated}): {_listed(columns, 320)}", f"rows: {count:,}; the first:"]
    shown += [cut(" | ".join(one_line(cell, 60) for cell in row), _LINE_BYTES) for row in rows[1 : 1 + _ROWS]]
    return Shape(detail=detail, preview=_fitting(shown, PREVIEW_BYTES))


def json_shape(text: str, *, whole: bool) -> Shape | None:
    """Describe a JSON text; of one that is longer than what is at hand, only the first element of an array."""
    try:
        value = json.loads(text) if whole else [json.JSONDecoder().raw_decode(text.lstrip()[1:].lstrip())[0]]
    except (ValueError, RecursionError):
        return None
    if not whole and not text.lstrip().startswith("["):
        return None
    if isinstance(value, list):
        detail = counted(len(value), "item") if whole else ""
        count = counted(len(value), "item") if whole else "many items"
        first = f"; the first: {_kind(value[0])}\n{_short(value[0])}" if value else ""
        return Shape(detail=detail, preview=f"array of {count}{first}")
    if isinstance(value, dict):
        lines = [f"{one_line(key, 60)}: {_kind(item)}" for key, item in value.items()]
        head = f"object with {counted(len(value), 'key')}:"
        return Shape(detail=counted(len(value), "key"), preview=_fitting([head, *lines], PREVIEW_BYTES))
    return Shape(detail="", preview=f"{_kind(value)}: {_short(value)}")


def jsonl_shape(text: str, records: int) -> Shape | None:
    """Describe lines of JSON from the first ones; None when the first line is no JSON."""
    lines = [line for line in text[:SAMPLE_CHARACTERS].split("\n") if line.strip()]
    try:
        kind = _kind(json.loads(lines[0] if lines else ""))
    except (ValueError, RecursionError):
        return None
    shown = [f"{counted(records, 'record')}; the first: {kind}", *(cut(line, _LINE_BYTES) for line in lines[:_ROWS])]
    return Shape(detail=counted(records, "record"), preview=_fitting(shown, PREVIEW_BYTES))


def text_shape(head: str, tail: str, lines: int) -> Shape:
    """Show a text's beginning and end, and say how much is between."""
    detail = counted(lines, "line")
    if len(head) <= PREVIEW_BYTES and len(head.encode(errors="replace")) <= PREVIEW_BYTES:
        return Shape(detail=detail, preview=head)
    if lines == 1:
        joint = "... one long line, which ends with:"
        return Shape(detail=detail, preview=f"{cut(head, _HEAD_BYTES)}\n{joint}\n{_end(tail)}")
    first = _fitting_lines(head.split("\n"), _HEAD_BYTES)
    last = _fitting_lines(reversed(tail.rstrip("\n").split("\n")[1:]), _TAIL_BYTES)[: max(lines - len(first), 0)]
    between = lines - len(first) - len(last)
    middle = [f"... {counted(between, 'line')} ..."] if between else []
    return Shape(detail=detail, preview="\n".join([*first, *middle, *reversed(last)]))


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Write a number of things: `1 row`, `20,310 rows`; `nouns` where the plural has not only an s more."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """Parse the beginning of a table: up to 20 rows, the last one only if it is whole; empty when it can't be."""
    sample = text[:SAMPLE_CHARACTERS]
    rows: list[list[str]] = []
    try:
        for row in csv.reader(sample.splitlines(keepends=True), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) == 21:
                break
    except csv.Error:
        return []
    cut_off = len(rows) == 21 or len(sample) < len(text)
    return rows[:-1] if cut_off and len(rows) > 1 else rows


def _kind(value: object, depth: int = 0) -> str:
    if isinstance(value, dict):
        keys = [one_line(key, 40) + ("" if depth else f" ({_kind(item, 1)})") for key, item in list(value.items())[:40]]
        return f"object with {counted(len(value), 'key')}" + (f": {_listed(keys, 240)}" if keys and not depth else "")
    if isinstance(value, list):
        return f"array of {len(value):,}"
    names = {str: "text", bool: "true or false", int: "number", float: "number"}
    return names.get(type(value), "null")


def _short(value: object) -> str:
    try:
        return cut(json.dumps(value, ensure_ascii=False), 300)
    except (ValueError, RecursionError):
        return ""


def _end(tail: str) -> str:
    end = tail.rstrip("\n")[-_TAIL_BYTES:]
    return end.encode(errors="replace")[-_TAIL_BYTES:].decode(errors="ignore")


def _listed(names: list[str], limit_bytes: int) -> str:
    """Join names as far as they fit, and say how many more there are."""
    shown: list[str] = []
    for name in names:
        if len(", ".join([*shown, name]).encode(errors="replace")) > limit_bytes:
            break
        shown.append(name)
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "")


def _fitting_lines(lines: Iterable[str], limit_bytes: int, line_bytes: int = _LINE_BYTES) -> list[str]:
    shown: list[str] = []
    left = limit_bytes
    for line in lines:
        short = cut(line.rstrip("\r"), line_bytes)
        left -= len(short.encode(errors="replace")) + 1
        if left < 0:
            break
        shown.append(short)
    return shown


def _fitting(lines: list[str], limit_bytes: int) -> str:
    return "\n".join(_fitting_lines(lines, limit_bytes, _HEAD_BYTES))
