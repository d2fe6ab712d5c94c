"""The rows of a benchmark, and the table of them."""

from collections.abc import Iterable, Sequence
from statistics import median, quantiles
from typing import Literal

from core.frozen import Frozen

Contender = Literal["floor", "perdure", "whole-conversation"]


class Row(Frozen):
    """One contender at one size: medians and means over all turns of all its runs.

    A turn lasts from one model call's schedule to the next one's, by the server's clock. `p50_first_ms` and
    `p50_last_ms` are of the first and the last tenth of a run: equal when the length does not matter. CPU and memory
    are those of the process, which is worker and client of all contenders; S3 bytes are bodies, both ways.
    """

    contender: Contender
    turns: int
    """Turns of each run with a tool call."""
    tool_bytes: int
    """Bytes of each tool output; in a row of the floor, which has none, those of the rows that it is measured with."""
    runs: int
    at_once: int = 1
    """How many of the runs went on at the same time."""
    turns_done: int
    """Of all runs; fewer than `runs * turns` when it died."""
    died: str = ""
    """Why it could not go on."""
    p50_ms: float
    p99_ms: float
    p50_first_ms: float
    p50_last_ms: float
    ratio_to_floor_p50: float | None = None
    turns_per_second: float
    ratio_to_floor_turns_per_second: float | None = None
    history_bytes_per_turn: float
    events_per_turn: float
    s3_bytes_per_turn: float = 0
    s3_requests_per_turn: float = 0
    worker_cpu_seconds: float
    worker_cpu_ms_per_turn: float
    worker_rss_bytes: int

    def beside(self, floor: "Row") -> "Row":
        """Return the row with its ratios to a floor."""
        return self.model_copy(
            update={
                "ratio_to_floor_p50": round(self.p50_ms / floor.p50_ms, 3),
                "ratio_to_floor_turns_per_second": round(self.turns_per_second / floor.turns_per_second, 3),
            }
        )


class Report(Frozen):
    """What `.local/bench.json` holds."""

    rows: tuple[Row, ...]


def p50(values: Sequence[float]) -> float:
    """The median; 0 of nothing."""
    return round(median(values), 2) if values else 0.0


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; the largest of fewer than two."""
    return round(quantiles(values, n=100, method="inclusive")[98], 2) if len(values) > 1 else p50(values)


COLUMNS = (
    "contender", "turns", "tool out", "runs", "p50 ms", "p99 ms", "first", "last", "x floor", "turns/s", "x floor",
    "B/turn", "events", "S3 B", "S3 req", "CPU ms", "RSS MB", "",
)  # fmt: skip


def table(rows: Iterable[Row]) -> str:
    """Write the rows for people."""
    lines = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number in {0, len(widths) - 1} else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.contender,
        f"{row.turns:,}",
        "" if row.contender == "floor" else f"{row.tool_bytes:,}",
        f"{row.runs}" if row.at_once == 1 else f"{row.runs} at once",
        f"{row.p50_ms:.1f}",
        f"{row.p99_ms:.1f}",
        f"{row.p50_first_ms:.1f}",
        f"{row.p50_last_ms:.1f}",
        _ratio(row.ratio_to_floor_p50),
        f"{row.turns_per_second:.1f}",
        _ratio(row.ratio_to_floor_turns_per_second),
        f"{row.history_bytes_per_turn:,.0f}",
        f"{row.events_per_turn:.1f}",
        f"{row.s3_bytes_per_turn:,.0f}",
        f"{row.s3_requests_per_turn:.2f}",
        f"{row.worker_cpu_ms_per_turn:.1f}",
        f"{row.worker_rss_bytes / 1e6:.0f}",
        row.died,
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
