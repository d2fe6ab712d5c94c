"""Markdown tables: read from tool results, and numbers in them as people write them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_PIPE: Final = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Table:
    """A table of texts; every row is as long as `columns`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def read_table(text: str) -> Table | None:
    """Return the first Markdown table of a text, None when there is none. Rows of another width are left out."""
    lines: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if line.strip().startswith("|"):
            lines.append(_cells(line.strip()))
        elif lines:
            break
    if len(lines) < 2 or not all(re.fullmatch(r":?-+:?", cell) for cell in lines[1]):
        return None
    return Table(lines[0], tuple(row for row in lines[2:] if len(row) == len(lines[0])))


def number(cell: str) -> float | None:
    """Return the number in a cell, None when there is none."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def spell(value: float | None) -> str:
    """Write a number with thousands separators; decimals only where they say something."""
    if value is None:
        return "unknown"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 0.01 else f"{value:.3g}"


def counted(count: float | None, noun: str) -> str:
    """Write a number of things: `1 row`, `20,310 rows`."""
    return f"{spell(count)} {noun}" if count == 1 else f"{spell(count)} {noun}s"


def percent(part: float, whole: float) -> str:
    """Write a share of a whole that is not zero."""
    return f"{100 * part / whole:.1f} %"


def join_words(words: Sequence[str]) -> str:
    """Write an enumeration."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "none"


def _cells(line: str) -> tuple[str, ...]:
    inner = line[1:]
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return tuple(cell.strip().replace("\\|", "|") for cell in _PIPE.split(inner))
