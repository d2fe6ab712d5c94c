"""The benchmark runs, and its rows are complete. It asserts no time: machines differ."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.benchmarks.artifact import measure_artifact
from tests.benchmarks.measure import SMALL, Bench
from tests.benchmarks.rows import Row, p50, p99, table


@pytest.fixture
async def blobs(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The store of the local stack."""
    store = S3BlobStore.from_settings(settings)
    yield store
    await store.close()


async def test_every_contender_is_measured_in_every_way(
    client: Client, settings: Settings, blobs: S3BlobStore, tmp_path: Path
) -> None:
    """The small form: a row for each contender and size, with nothing left out."""
    own = settings.model_copy(update={"tools": ("tests.tools",), "data_dir": tmp_path})
    rows = [row async for row in Bench(client, own, blobs).rows(SMALL)]
    named = [(row.contender, row.turns, row.tool_bytes, row.at_once) for row in rows]
    assert named == [
        (contender, cell.turns, cell.tool_bytes, cell.at_once)
        for cell in SMALL
        for contender in ("floor", "perdure", "whole-conversation")
        if cell.whole or contender != "whole-conversation"
    ]
    assert all(row.turns_done == row.runs * row.turns and not row.died for row in rows)
    assert all(row.p99_ms >= row.p50_ms > 0 and row.turns_per_second > 0 for row in rows)
    assert min(row.events_per_turn for row in rows) == 12
    assert all(row.ratio_to_floor_p50 for row in rows if row.contender != "floor")
    assert all((row.s3_bytes_per_turn > row.tool_bytes) == (row.contender == "perdure") for row in rows)
    assert all(len(line) > 40 for line in table(rows).splitlines())


async def test_an_artifact_is_measured(blobs: S3BlobStore) -> None:
    """Stored and downloaded, both verified."""
    report = await measure_artifact(blobs, megabytes=9)
    assert report.size_bytes == 9 * 1024 * 1024
    assert report.store_seconds > 0


def test_percentiles_of_little_are_what_there_is() -> None:
    """Nothing is 0, one value is itself."""
    assert (p50([]), p99([]), p50([3.0]), p99([3.0])) == (0.0, 0.0, 3.0, 3.0)
    assert p99([1.0] * 99 + [100.0]) < 100


def test_a_ratio_compares_two_rows() -> None:
    """Half as fast is 2.0 times the latency and half the turns a second."""
    row = Row(
        contender="floor", turns=1, tool_bytes=1, runs=1, turns_done=1, p50_ms=10, p99_ms=10, p50_first_ms=10,
        p50_last_ms=10, turns_per_second=100, history_bytes_per_turn=1, events_per_turn=12, worker_cpu_seconds=1,
        worker_cpu_ms_per_turn=1, worker_rss_bytes=1,
    )  # fmt: skip
    slow = row.model_copy(update={"contender": "perdure", "p50_ms": 20, "turns_per_second": 50}).beside(row)
    assert (slow.ratio_to_floor_p50, slow.ratio_to_floor_turns_per_second) == (2.0, 0.5)
