"""One SQL query over files, in a process of its own: a query can't take the worker's memory, time or secrets.

Started as a script by `activities.tables`, which kills it when its time is over; it ends by itself when the worker
does: standard input is its lifeline. In: the path of a JSON file. Out: a JSON file, which appears by rename.

The files are loaded into a database on disk first. Then it is opened again, read only and with everything outside of
it locked: no other file, no network, no extension, no setting that could be changed back.
"""

import contextlib
import json
import os
import sys
import threading
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import duckdb

KINDS = {"SELECT", "EXPLAIN"}
"""What WITH, FROM, VALUES, DESCRIBE, SUMMARIZE and SHOW are to the parser, too."""

MEMORY = "512MB"
ADDRESS_SPACE_BYTES = 4 * 1024**3
COUNTED_ROWS = 100_000
CELL_CHARACTERS = 200
"""Longest cell, unless the result is so small that there is room for more."""

ROOM_CHARACTERS = 2400
LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "max_temp_directory_size": "8GB",
    "memory_limit": MEMORY,
    "python_enable_replacements": False,
    "threads": 2,
}


class Refused(Exception):
    """The query can't be run, or went wrong; the text is for the model."""


def main() -> int:
    """Answer the request that the file of the first argument holds."""
    request = json.loads(Path(sys.argv[1]).read_text())
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    _limit_memory()
    try:
        reply = answer(request)
    except Refused as error:
        reply = {"error": str(error)}
    except MemoryError:
        reply = {"error": "the query took too much memory; filter or aggregate earlier, and select fewer columns"}
    part = Path(request["reply"] + ".part")
    part.write_text(json.dumps(reply))
    part.replace(request["reply"])
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Load the tables, run the query, return columns, the first rows as text, and how many rows there are."""
    check(request["sql"])
    database = str(Path(request["folder"]) / "tables.db")
    with duckdb.connect(database, config=LOCKED) as connection:
        for table in request["tables"]:
            _load(connection, table)
    locked = {**LOCKED, "enable_external_access": False, "lock_configuration": True}
    with duckdb.connect(database, read_only=True, config=locked) as connection:
        try:
            return _rows(connection.execute(request["sql"]), request["rows"])
        except (duckdb.Error, RuntimeError) as error:
            raise Refused(f"{error}\n\nThe tables are:\n{_tables(connection, request['tables'])}") from None


def check(sql: str) -> None:
    """Let one statement through that only reads.

    Raises:
        Refused: it is none, several, or of another kind; the text says which are meant.
    """
    with duckdb.connect(config=LOCKED) as connection:
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as error:
            raise Refused(str(error)) from None
    kinds = [statement.type.name for statement in statements]
    if len(kinds) != 1:
        raise Refused(f"the SQL has {len(kinds)} statements; give exactly one")
    if kinds[0] not in KINDS:
        hint = " (PIVOT needs its values: ON column IN ('a', 'b'))" if kinds[0] == "MULTI" else ""
        raise Refused(f"a statement of kind {kinds[0]} is not allowed{hint}; only SELECT, WITH, DESCRIBE, SUMMARIZE, "
                      "SHOW and EXPLAIN are")  # fmt: skip


def _load(connection: duckdb.DuckDBPyConnection, table: dict[str, Any]) -> None:
    name, path = table["table"], table["path"]
    readers = {
        "csv": f"read_csv($1, encoding='{table['encoding']}')",
        "json": "read_json($1)",
        "parquet": "read_parquet($1)",
    }
    # The sample of a CSV may show integers where a word follows later: then the types are found from all of it.
    attempts = [readers[table["reader"]]]
    if table["reader"] == "csv":
        attempts.append(attempts[0].replace(")", ", sample_size=-1)"))
    for number, reader in enumerate(attempts, start=1):
        try:
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {reader}", [path])  # noqa: S608 - ours
            break
        except (duckdb.Error, RuntimeError) as error:
            if number == len(attempts):
                text = str(error).replace(path, table["name"])
                raise Refused(f"{table['name']} can't be read as {table['reader'].upper()}: {text}") from None
    width = len(connection.execute(f"DESCRIBE {name}").fetchall())
    rows = connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]  # noqa: S608 - ours
    if width < table["least_columns"] or rows < table["least_rows"]:
        raise Refused(f"{table['name']} is no table: no delimiter parts its lines into columns")


def _rows(result: duckdb.DuckDBPyConnection, limit: int) -> dict[str, Any]:
    columns = [str(column[0]) for column in result.description or []]
    first: list[Any] = []
    total = 0
    while total < COUNTED_ROWS and (batch := result.fetchmany(2048)):
        first += batch[: max(limit - total, 0)]
        total += len(batch)
    longest = max(CELL_CHARACTERS, ROOM_CHARACTERS // max(len(first) * len(columns), 1))
    rows = [[cell(value, longest) for value in row] for row in first]
    return {"columns": columns, "rows": rows, "total": total, "more": total >= COUNTED_ROWS}


def cell(value: object, longest: int = CELL_CHARACTERS) -> str:
    """Write a value as people read it in a table; NULL is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, bytes | bytearray):
        value = value[:longest].hex()
    text = str(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _tables(connection: duckdb.DuckDBPyConnection, tables: list[dict[str, Any]]) -> str:
    lines = []
    for table in tables:
        columns = connection.execute(f"DESCRIBE {table['table']}").fetchall()
        listed = ", ".join(f"{column[0]} {column[1]}" for column in columns[:40])
        more = f" and {len(columns) - 40} more" if len(columns) > 40 else ""
        lines.append(f"{table['table']} ({table['name']}): {listed}{more}")
    return "\n".join(lines)


def _limit_memory() -> None:
    """Bound what a query can allocate outside of DuckDB's own memory limit, where the system can do that."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


def _end_with_the_worker() -> None:
    """End at once when the worker has gone: its end of the pipe closes, however it died."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the lifeline's thread still reads
