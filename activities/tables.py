"""SQL over artifacts: which file is which table, and the answer as a Markdown table that fits into a page.

The query itself runs in a process of its own (`activities.sql_process`).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activities.text_files import PAGE_BYTES
from core.content import ArtifactRef, clean, cut
from core.errors import Failed
from core.media import encoding_of
from core.previews import printable
from core.shapes import delimiter_of

QUERY_SECONDS = 60.0
"""Longest query, loading included."""

SQL_CHARACTERS = 10_000
TABLES = 10
ROWS = 1000
ERROR_BYTES = 1500
_POLL_SECONDS = 0.05
_PROCESS = Path(__file__).with_name("sql_process.py")  # never imported here: a worker needs no DuckDB in its memory
_HEAD_BYTES = 64 * 1024
_READERS = {
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "text/plain": "csv",
    "application/x-ndjson": "json",
    "application/vnd.apache.parquet": "parquet",
}
# What the process is given of the worker's environment: what a Python needs to start, no settings and no secrets.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "TZ")


@dataclass(frozen=True)
class Source:
    """One artifact to query, and its local copy."""

    ref: ArtifactRef
    path: Path


@dataclass(frozen=True)
class Query:
    """One SQL statement over tables t1, t2, ... in the order of the sources.

    `folder` takes the database and what does not fit into memory; `check` is called often, and raises to stop.
    """

    sql: str
    sources: Sequence[Source]
    folder: Path
    seconds: float = QUERY_SECONDS
    check: Callable[[], None] = lambda: None

    def answer(self) -> str:
        """Run the query and return its rows as a Markdown table.

        Raises:
            Failed: a source is no table, the SQL is wrong or not allowed, or takes too long or too much memory.
        """
        if not self.sql.strip() or len(self.sql) > SQL_CHARACTERS:
            raise Failed(f"give one SQL statement of at most {SQL_CHARACTERS:,} characters")
        if not 1 <= len(self.sources) <= TABLES:
            raise Failed(f"name 1 to {TABLES} artifacts; they are the tables t1, t2, ... in their order")
        reply = self._reply([table_of(number, source) for number, source in enumerate(self.sources, start=1)])
        if "error" in reply:
            raise Failed(cut(printable(str(reply["error"])), ERROR_BYTES))
        return markdown_table(reply["columns"], reply["rows"], reply["total"], more=reply["more"])

    def _reply(self, tables: list[dict[str, Any]]) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="query-"))
        request, reply, errors = folder / "request.json", folder / "reply.json", folder / "errors.txt"
        asked = {"sql": self.sql, "tables": tables, "folder": str(folder), "reply": str(reply), "rows": ROWS}
        request.write_text(json.dumps(asked))
        with errors.open("wb") as stderr, _started(request, stderr.fileno()) as process:
            try:
                self._wait(process)
            finally:
                process.kill()
        if reply.exists():
            answer: dict[str, Any] = json.loads(reply.read_text())
            return answer
        if process.returncode < 0:
            raise Failed(f"the query was ended by signal {-process.returncode}: it took too much memory; ask for less")
        raise RuntimeError(f"the SQL process failed: {errors.read_text(errors='replace')[-500:]}")

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self.seconds
        while process.poll() is None:
            self.check()
            if time.monotonic() > deadline:
                raise Failed(
                    f"the query took longer than {self.seconds:g} seconds and was stopped; filter or aggregate "
                    "earlier, and join on equal columns"
                )
            time.sleep(_POLL_SECONDS)


def table_of(number: int, source: Source) -> dict[str, Any]:
    """Describe a source to the SQL process.

    Raises:
        Failed: it is empty, or nothing that can be a table.
    """
    ref = source.ref
    reader = _READERS.get(ref.media_type, "json" if ref.media_type.endswith(("/json", "+json")) else None)
    with source.path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    encoding = encoding_of(head)
    if reader is None or (encoding is None and reader != "parquet"):
        raise Failed(f"{ref.described()} is no table; CSV, TSV, JSON, JSON lines and Parquet can be queried")
    if not head:
        raise Failed(f"{ref.described()} is empty; there is nothing to query")
    # Where our own look finds no columns, DuckDB may still find them below a preamble: then in most of the lines.
    doubtful = reader == "csv" and delimiter_of(head.decode(encoding or "latin-1", errors="ignore")) is None
    return {
        "table": f"t{number}",
        "path": str(source.path),
        "name": ref.name,
        "reader": reader,
        "encoding": {"latin-1": "latin-1", "utf-16": "utf-16"}.get(encoding or "", "utf-8"),
        "least_columns": 2 if doubtful else 1,
        "least_rows": _line_ends(source.path) // 2 if doubtful else 0,
    }


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int, *, more: bool = False) -> str:
    """Write rows as a Markdown table with as many rows as fit into a page, and how many there are."""
    header = [_row(columns), _row(["---"] * len(columns))]
    left_bytes = PAGE_BYTES - sum(len(line.encode()) + 1 for line in header)
    if left_bytes < 0:
        raise Failed(f"the result has {len(columns)} columns, which do not fit into a page; select fewer")
    shown: list[str] = []
    for row in rows:
        line = _row(row)
        left_bytes -= len(line.encode()) + 1
        if left_bytes < 0:
            break
        shown.append(line)
    count = f"({'more than ' if more else ''}{total:,} {'row' if total == 1 else 'rows'})"
    if len(shown) < total:
        count += (
            f"\nOnly the first {len(shown):,} are shown: the others do not fit. Select fewer columns, aggregate, or "
            "use WHERE, ORDER BY, LIMIT and OFFSET."
        )
    return "\n".join([*header, *shown, count])


def _line_ends(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1024 * 1024), b""))


def _row(cells: Sequence[str]) -> str:
    texts = (" ".join(printable(clean(cell)).split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"


def _started(request: Path, stderr: int) -> "subprocess.Popen[bytes]":
    """Start the process with nothing of the worker's environment that it does not need."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= {"HOME": str(request.parent), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(  # noqa: S603 - our own interpreter and file
        [sys.executable, "-s", "-P", str(_PROCESS), str(request)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd=request.parent,
        env=environment,
        start_new_session=True,
    )
