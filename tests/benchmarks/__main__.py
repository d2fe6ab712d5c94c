"""`make bench`: measure turns, print a table, and write `.local/bench.json`.

`--small` takes seconds and proves only that it runs. `--artifact-gb 1` measures one large artifact instead of turns.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from infra.logging import configure_logging
from infra.process import leave
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.stack import LocalStack
from infra.temporal import connect
from tests.benchmarks.artifact import measure_artifact
from tests.benchmarks.measure import FULL, SMALL, Bench
from tests.benchmarks.rows import Report, Row, table

LOCAL = Path(".local")


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def measure_turns(settings: Settings, blobs: S3BlobStore, output: Path, *, small: bool) -> None:
    """Measure the contenders; what is measured is written after each row."""
    rows: list[Row] = []
    async for row in Bench(await connect(settings), settings, blobs).rows(SMALL if small else FULL):
        rows.append(row)
        output.write_text(Report(rows=tuple(rows)).model_dump_json(indent=2))
        say(f"{row.contender}, {row.turns} turns, {row.tool_bytes:,} bytes: {row.p50_ms} ms {row.died}")
    say(f"\n{table(rows)}\n\nwritten to {output}")


async def bench(arguments: argparse.Namespace) -> None:
    """Start servers with empty data, measure, and throw them away."""
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with LocalStack(folder / "stack") as stack:
            settings = stack.settings().model_copy(update={"tools": ("tests.tools",), "data_dir": folder / "worker"})
            with (folder / "bench.log").open("w") as log:
                configure_logging(settings, log)  # as a worker logs, but into a file: what it costs is measured, too
                blobs = S3BlobStore.from_settings(settings)
                if arguments.artifact_gb:
                    say((await measure_artifact(blobs, round(1024 * arguments.artifact_gb))).model_dump_json(indent=2))
                else:
                    await measure_turns(settings, blobs, arguments.output, small=arguments.small)
                await blobs.close()


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few turns of each, in seconds")
    parser.add_argument("--artifact-gb", type=float, default=0, help="measure one artifact of so many GiB instead")
    parser.add_argument("--output", type=Path, default=LOCAL / "bench.json", help="where the rows go")
    asyncio.run(bench(parser.parse_args()))
    return 0


if __name__ == "__main__":
    leave(main())
