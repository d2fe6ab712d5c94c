"""Which columns answer the task: chosen from their types, their distinct values and the words of the task."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from infra.offline.conversation import singular
from infra.offline.tables import Table, number

_NUMBER: Final = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|REAL|DOUBLE|DECIMAL.*)$")
_LABEL: Final = re.compile(r"^(VARCHAR|BOOLEAN|ENUM.*)$")
_TIME: Final = re.compile(r"^(DATE|TIMESTAMP.*)$")


WRITTEN_NUMBER: Final = r"^\s*[-+]?[€$£]?\s?(\d{1,3}([.,'\x{a0}\x{202f} ]\d{3})+|\d+)([.,]\d+)?\s?[€$£%]?\s*$"
"""A number with thousands separators, a decimal comma or a sign of currency, as the regular expression of DuckDB."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Numbers that name something instead of measuring it.
_NAMING: Final = _words(
    "id code zip postcode phone index key year month day hour lat latitude lon lng long longitude number nr no"
)
# Of several columns that fit equally well, the one that sums up the others.
_SUMS: Final = _words("total sum overall all net gross")
_SYNONYMS: Final = (
    _words("cost price amount expense spend spending usd eur dollar expensive cheap costly value fee"),
    _words("revenue sale turnover income earning"),
    _words("where country state city region place location area county"),
    _words("who person customer client employee author owner"),
    _words("kind type category class group"),
    _words("big large size heavy weight mass"),
    _words("duration length delay minute hour"),
)


@dataclass(frozen=True)
class Column:
    """One column as `SUMMARIZE` sees it; `distinct` is approximate.

    `first` and `last` are known for times, and for texts that are written like numbers.
    """

    name: str
    type: str
    distinct: int
    null_percent: float
    first: str = ""
    last: str = ""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The words of the name, in lower case and in the singular."""
        parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", self.name)
        return tuple(singular(part.lower()) for part in parts)

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Choice:
    """What of a file is looked at; `score` says how well its columns fit the task's words."""

    measures: tuple[Column, ...]
    dimensions: tuple[Column, ...]
    time: Column | None
    score: int


def read_columns(profile: Table) -> tuple[Column, ...]:
    """Read the answer to the profile query: name, type, distinct, null percentage, first, last."""
    return tuple(
        Column(row[0], row[1], int(number(row[2]) or 0), number(row[3].rstrip("%")) or 0.0, row[4], row[5])
        for row in profile.rows
        if len(row) == 6
    )


def choose(columns: Sequence[Column], row_count: int, words: Sequence[str]) -> Choice:
    """Choose up to two measures (one, if it sums up the others), up to three dimensions and a time column. Pure.

    Columns that the task names come alone; when it names none, those with few empty values come in the file's order.
    """
    measures = [column for column in columns if _NUMBER.match(column.type) and not _names_something(column)]
    labels = [
        column
        for column in columns
        if _LABEL.match(column.type) and column.distinct >= 1 and not is_text_of_numbers(column)
    ]
    named = [column for column in labels if relevance(column, words)]
    groups = [column for column in labels if 2 <= column.distinct <= max(2, row_count // 2)]
    best_measures = _best(measures, words)[:2]
    if best_measures and not _SUMS.isdisjoint(best_measures[0].tokens):
        best_measures = best_measures[:1]
    # A few groups make a better table than many.
    dimensions = _best(named, words)[:3] or _best(sorted(groups, key=lambda column: column.distinct > 50), words)[:2]
    times = [column for column in columns if _TIME.match(column.type) or _is_year(column)]
    score = sum(relevance(column, words) for column in (*best_measures, *dimensions))
    return Choice(best_measures, dimensions, next(iter(_best(times, words)), None), score)


def _shown(end: str) -> str:
    """Return SQL for an end of a column's range where it is worth to know: of times, and of texts that are numbers."""
    pattern = WRITTEN_NUMBER.replace("'", "''")
    times = "regexp_matches(column_type, '^(DATE|TIMESTAMP)')"
    numbers = f"column_type = 'VARCHAR' AND regexp_matches(CAST(\"{end}\" AS VARCHAR), '{pattern}')"
    return f'CASE WHEN {times} OR ({numbers}) THEN "{end}" END'


PROFILE: Final = (
    "SELECT column_name, column_type, approx_unique, null_percentage, "  # noqa: S608 - nothing of it comes from outside
    f"{_shown('min')} AS first_value, {_shown('max')} AS last_value FROM (SUMMARIZE t1)"
)
"""What `read_columns` reads."""


def is_text_of_numbers(column: Column) -> bool:
    """Say whether a column of texts measures something in numbers that DuckDB does not read, such as `1.234,50`.

    Both ends of its range are written like numbers; or one is, with a sign that no mere code has (`n/a` is the other).
    """
    if column.type != "VARCHAR" or _names_something(column):
        return False
    ends = [end for end in (column.first, column.last) if end]
    return len(ends) == 2 or any(not end.strip("-+").isdigit() for end in ends)


def relevance(column: Column, words: Sequence[str]) -> int:
    """Say how well a column's name fits the words: 3 for a word itself, 2 for a synonym, 1 for the same beginning."""
    return sum(max((_fit(token, word) for word in words), default=0) for token in column.tokens)


def grain_of(time: Column) -> str:
    """Return the `strftime` format that cuts the column's range into a readable number of periods."""
    try:
        days = (date.fromisoformat(time.last[:10]) - date.fromisoformat(time.first[:10])).days
    except ValueError:
        return "%Y"
    return "%Y-%m-%d" if days <= 45 else "%Y-%m" if days <= 1100 else "%Y"


def period_of(time: Column) -> str:
    """Return SQL for the period of a row, as text that sorts by time."""
    if _is_year(time):
        return f"CAST({time.quoted} AS VARCHAR)"
    return f"strftime(CAST({time.quoted} AS TIMESTAMP), '{grain_of(time)}')"


def _best(columns: Sequence[Column], words: Sequence[str]) -> tuple[Column, ...]:
    """Rank the columns that the words name; those named by a word itself leave the others behind. All, if none is."""
    named = [column for column in columns if relevance(column, words)]
    exact = [column for column in named if relevance(column, words) >= 3]
    return tuple(
        sorted(
            exact or named or columns,
            key=lambda column: (-relevance(column, words), _SUMS.isdisjoint(column.tokens), column.null_percent > 50),
        )
    )


def _fit(token: str, word: str) -> int:
    if token == word:
        return 3
    if any(token in group and word in group for group in _SYNONYMS):
        return 2
    shorter, longer = sorted((token, word), key=len)
    return 1 if len(shorter) >= 4 and longer.startswith(shorter) else 0


def _names_something(column: Column) -> bool:
    return not _NAMING.isdisjoint(column.tokens)


def _is_year(column: Column) -> bool:
    return "year" in column.tokens and _NUMBER.match(column.type) is not None
