"""The rules of the analyst: profile each data file, query what fits the task, say what the numbers say.

Every number in a sentence was returned by a query that stands in the report; what is computed here are shares of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from infra.offline.columns import (
    PROFILE,
    Choice,
    Column,
    choose,
    grain_of,
    is_text_of_numbers,
    period_of,
    read_columns,
)
from infra.offline.conversation import Conversation, File, Result, Wanted, wanted
from infra.offline.study import Ask, Section, Study, ask_for
from infra.offline.tables import Table, counted, join_words, number, percent, read_table, spell

MAX_FILES: Final = 4
DATA_EXTENSIONS: Final = frozenset({"csv", "tsv", "json", "jsonl", "ndjson", "parquet"})
_DATA_TYPES: Final = ("text/csv", "text/tab-separated-values", "application/json", "application/x-ndjson", "parquet")

_ROWS: Final = "SELECT count(*) AS row_count FROM t1"
_MEAN_WORDS: Final = frozenset({"average", "mean", "typical", "typically"})
_COUNT_WORDS: Final = frozenset({"common", "frequent", "often", "frequently", "count", "popular"})
_LEAST_WORDS: Final = frozenset({"least", "lowest", "fewest", "smallest", "cheapest", "minimum", "bottom", "rarest"})


@dataclass(frozen=True)
class Query:
    """One question to one file. `explain` turns the answer into a sentence, or nothing."""

    heading: str
    sql: str
    explain: Callable[[Table], str]

    def call(self, file: File) -> Wanted:
        """The tool call that answers it."""
        return query(file, self.sql)


def is_data(file: File) -> bool:
    """Say whether a file can be queried."""
    return file.extension in DATA_EXTENSIONS or file.media_type.endswith(_DATA_TYPES)


def query(file: File, sql: str) -> Wanted:
    """Name a query of one file; the file is `t1`."""
    return wanted("query_artifact", sql=sql, artifacts=[file.handle])


def analyse(seen: Conversation, files: Sequence[File]) -> Ask | Study:
    """Return the queries that are still wanted, or what they found. Pure."""
    files = files[:MAX_FILES]
    profiles = [call for file in files for call in (query(file, PROFILE), query(file, _ROWS))]
    if ask := ask_for(seen, "I profile the data files: columns, types, distinct values, rows.", profiles):
        return ask
    readable = {file: profile for file in files if (profile := _profile(seen, file)) is not None}
    queries = _queries(readable, seen.words)
    calls = [item.call(file) for file, items in queries.items() for item in items]
    if ask := ask_for(seen, "I query totals, rankings, periods and missing values.", calls):
        return ask
    found = _overview(readable)
    for file, items in queries.items():
        for item in items:
            found += _answer(seen, file, item)
    return found + Study(problems=tuple(_unreadable(seen, file) for file in files if file not in readable))


def _profile(seen: Conversation, file: File) -> tuple[tuple[Column, ...], int] | None:
    """Return columns and row count of a file; None when it could not be read."""
    columns = _table(seen.results[query(file, PROFILE)])
    rows = _table(seen.results[query(file, _ROWS)])
    if columns is None or rows is None or not columns.rows or not rows.rows:
        return None
    return read_columns(columns), int(number(rows.rows[0][0]) or 0)


def _queries(
    profiles: dict[File, tuple[tuple[Column, ...], int]], words: Sequence[str]
) -> dict[File, tuple[Query, ...]]:
    """Ask most of the file that fits the task's words best, and little of the others."""
    chosen = {file: choose(columns, rows, words) for file, (columns, rows) in profiles.items()}
    main = max(chosen, key=lambda file: chosen[file].score, default=None)
    queries = {}
    for file, choice in chosen.items():
        columns, rows = profiles[file]
        kept = choice
        if file != main:
            kept = Choice(choice.measures[:1], choice.dimensions[:1], choice.time, choice.score)
        queries[file] = (
            *(_totals(measure) for measure in kept.measures),
            *_rankings(kept, words, rows),
            *_timeline(kept),
            _missing(columns, rows),
        )
    return queries


def _totals(measure: Column) -> Query:
    column = measure.quoted
    sql = (
        f"SELECT count({column}) AS filled, round(sum({column}), 3) AS total, round(avg({column}), 3) AS mean, "  # noqa: S608 - the name is quoted
        f"round(median({column}), 3) AS median, min({column}) AS lowest, max({column}) AS highest FROM t1"
    )

    def explain(table: Table) -> str:
        if not table.rows or len(table.rows[0]) != 6:
            return ""
        rows = counted(number(table.rows[0][0]), "filled row")
        total, mean, median, lowest, highest = (spell(number(cell)) for cell in table.rows[0][1:])
        return (
            f"`{measure.name}` adds up to {total} over {rows}; mean {mean}, median {median}, "
            f"from {lowest} to {highest}."
        )

    return Query(f"Total of {measure.name}", sql, explain)


def _rankings(choice: Choice, words: Sequence[str], row_count: int) -> tuple[Query, ...]:
    if not choice.measures:
        return tuple(_frequency(dimension, words, row_count) for dimension in choice.dimensions)
    pairs = [(dimension, choice.measures[0]) for dimension in choice.dimensions]
    pairs += [(choice.dimensions[0], measure) for measure in choice.measures[1:]] if choice.dimensions else []
    return tuple(_ranking(dimension, measure, words) for dimension, measure in pairs)


def _ranking(dimension: Column, measure: Column, words: Sequence[str]) -> Query:
    order, what = 3, "total"
    if not _MEAN_WORDS.isdisjoint(words):
        order, what = 4, "mean"
    elif not _COUNT_WORDS.isdisjoint(words):
        order, what = 2, "number of rows"
    least = not _LEAST_WORDS.isdisjoint(words)
    column, group = measure.quoted, dimension.quoted
    sql = (
        f"SELECT coalesce(CAST({group} AS VARCHAR), '(empty)') AS {group}, count(*) AS row_count, "  # noqa: S608 - the names are quoted
        f"round(sum({column}), 3) AS total, round(avg({column}), 3) AS mean, "
        f"round(100 * sum({column}) / (SELECT nullif(sum({column}), 0) FROM t1), 2) AS percent_of_total FROM t1 "
        f"GROUP BY 1 ORDER BY {order} {'ASC' if least else 'DESC'} NULLS LAST, 1 LIMIT 10"
    )

    def explain(table: Table) -> str:
        return _leaders(table, order - 1, dimension, f"{'lowest' if least else 'highest'} {what}", measure)

    return Query(f"{measure.name} by {dimension.name}", sql, explain)


def _leaders(table: Table, index: int, dimension: Column, rank: str, measure: Column) -> str:
    if not table.rows:
        return ""
    first, others = table.rows[0], table.rows[1:3]
    share = f" ({spell(number(first[4]))} % of the total)" if number(first[4]) is not None else ""
    total = "" if index == 2 else f"; its total is {spell(number(first[2]))}"
    sentence = (
        f"By `{dimension.name}`, **{first[0]}** has the {rank} of `{measure.name}`: {spell(number(first[index]))}"
        f"{total}{share} over {counted(number(first[1]), 'row')}."
    )
    if others:
        then = join_words([f"{row[0]} ({spell(number(row[index]))})" for row in others])
        sentence += f" Then {'come' if len(others) > 1 else 'comes'} {then}."
    return sentence


def _frequency(dimension: Column, words: Sequence[str], row_count: int) -> Query:
    order = "ASC" if not _LEAST_WORDS.isdisjoint(words) else "DESC"
    group = dimension.quoted
    sql = (
        f"SELECT coalesce(CAST({group} AS VARCHAR), '(empty)') AS {group}, count(*) AS row_count FROM t1 "  # noqa: S608 - the name is quoted
        f"GROUP BY 1 ORDER BY 2 {order}, 1 LIMIT 10"
    )

    def explain(table: Table) -> str:
        if not table.rows or not row_count:
            return ""
        count = number(table.rows[0][1]) or 0.0
        rank = "rarest" if order == "ASC" else "most frequent"
        share = percent(count, row_count)
        return f"The {rank} `{dimension.name}` is **{table.rows[0][0]}**: {counted(count, 'row')} ({share})."

    return Query(f"Rows by {dimension.name}", sql, explain)


def _timeline(choice: Choice) -> tuple[Query, ...]:
    if choice.time is None:
        return ()
    time, measure = choice.time, choice.measures[0] if choice.measures else None
    total = f", round(sum({measure.quoted}), 3) AS total" if measure else ""
    sql = (
        f"SELECT * FROM (SELECT {period_of(time)} AS period, count(*) AS row_count{total} FROM t1 "  # noqa: S608 - the names are quoted
        f"WHERE {time.quoted} IS NOT NULL GROUP BY 1 ORDER BY 1 DESC LIMIT 48) ORDER BY 1"
    )
    span = (
        f" The data run from {time.first[:10]} to {time.last[:10]}: outer periods may be incomplete."
        if time.first
        else ""
    )
    subject = f"total of `{measure.name}`" if measure else "number of rows"

    def explain(table: Table) -> str:
        values = [(row[0], value) for row in table.rows if (value := number(row[-1])) is not None]
        if len(values) < 2:
            return ""
        peak, low = max(values, key=lambda item: item[1]), min(values, key=lambda item: item[1])
        (start, before), (end, after) = values[0], values[-1]
        change = f" ({100 * (after - before) / before:+.1f} %)" if before > 0 else ""
        return (
            f"Over time (`{time.name}`), the {subject} goes from {spell(before)} in {start} to {spell(after)} in "
            f"{end}{change}; highest in {peak[0]} ({spell(peak[1])}), lowest in {low[0]} ({spell(low[1])}).{span}"
        )

    grain = {"%Y-%m-%d": "day", "%Y-%m": "month"}.get(grain_of(time), "year")
    return (Query(f"{measure.name if measure else 'Rows'} by {grain}", sql, explain),)


def _missing(columns: Sequence[Column], row_count: int) -> Query:
    looked_at = [column for column in columns if column.null_percent > 0 or len(columns) <= 30][:60]
    branches = " UNION ALL ".join(
        f"SELECT '{column.name.replace(chr(39), chr(39) * 2)}' AS column_name, "  # noqa: S608 - the names are quoted
        f"count(*) - count({column.quoted}) AS missing FROM t1"
        for column in looked_at or columns[:1]
    )
    sql = f"SELECT * FROM ({branches}) WHERE missing > 0 ORDER BY missing DESC, column_name LIMIT 15"  # noqa: S608 - as above

    def explain(table: Table) -> str:
        if not table.rows:
            return "No value is missing."
        name, missing = table.rows[0][0], number(table.rows[0][1]) or 0.0
        share = f" ({percent(missing, row_count)})" if row_count else ""
        also = f"; columns with gaps: {len(table.rows)}" if len(table.rows) > 1 else ""
        return f"`{name}` is empty in {spell(missing)} of {counted(row_count, 'row')}{share}{also}."

    return Query("Missing values", sql, explain)


def _answer(seen: Conversation, file: File, item: Query) -> Study:
    result = seen.results[item.call(file)]
    table = _table(result)
    if table is None:
        return Study(problems=(f"{file.name}, {item.heading}: {result.reason}",))
    sentence = item.explain(table)
    body = "\n\n".join(filter(None, [sentence, table.markdown if table.rows else ""]))
    heading = f"{item.heading} ({file.name})"
    return Study(
        findings=(sentence,) if sentence else (),
        sections=(Section(heading, body or "No rows."),),
        method=(f"-- {heading}\n{item.sql};",),
    )


def _overview(profiles: dict[File, tuple[tuple[Column, ...], int]]) -> Study:
    if not profiles:
        return Study()
    files = [(file.name, spell(rows), spell(len(columns))) for file, (columns, rows) in profiles.items()]
    sizes = [
        f"`{file.name}` has {counted(rows, 'row')} and {counted(len(columns), 'column')}."
        for file, (columns, rows) in profiles.items()
    ]
    unread = [_unread(file, column) for file, (columns, _) in profiles.items() for column in columns]
    return Study(
        findings=(*sizes, *filter(None, unread)),
        sections=(Section("Data", Table(("file", "rows", "columns"), tuple(files)).markdown),),
    )


def _unread(file: File, column: Column) -> str:
    """Say that a column holds numbers which were not read as such; nothing of any other column."""
    if not is_text_of_numbers(column):
        return ""
    return (
        f"The column `{column.name}` of `{file.name}` could not be read as numbers (it has values such as "
        f"`{column.first or column.last}`), so nothing was added up or averaged from it: write them like `1234.50`, "
        "and ask again."
    )


def _unreadable(seen: Conversation, file: File) -> str:
    results = [seen.results[query(file, sql)] for sql in (PROFILE, _ROWS)]
    worst = next((result for result in results if result.failed), results[0])
    return f"{file.name} could not be read as data: {worst.reason}"


def _table(result: Result) -> Table | None:
    return None if result.failed else read_table(result.text)
