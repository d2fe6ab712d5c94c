"""Odd standard streams: closed ones, and one that takes nothing; and a store that never answers."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.settings import Settings
from tests.starter.commands import ROOT, Finished, Starter
from tests.starter.test_errors import s3_variables


async def run(
    starter: Starter, *arguments: str, stdout: int = asyncio.subprocess.PIPE, before: Callable[[], None] | None = None
) -> Finished:
    """Run a command whose process does something first, as a shell does for `>&-`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "starter.py"),
        *arguments,
        cwd=ROOT,
        env={**os.environ, **starter.environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=before,
    )
    out, err = await process.communicate()
    return Finished(process.returncode or 0, (out or b"").decode(), err.decode())


async def test_a_task_from_a_closed_standard_input_is_told(starter: Starter) -> None:
    """`<&-` in a script is no crash."""
    ended = await run(starter, "start", "publisher", "-", "--json", before=lambda: os.close(0))
    assert (ended.code, ended.out) == (2, "")
    assert "the task can't be read from standard input (it is closed)" in ended.error()["message"]


@pytest.mark.parametrize("closed", [1, 2])
async def test_a_closed_output_is_nobody_who_reads(starter: Starter, closed: int) -> None:
    """The command does its work all the same, and what it opens does not get the number of the stream."""
    ended = await run(starter, "agents", "--json", before=lambda: os.close(closed))
    assert (ended.code, ended.err) == (0, "")
    assert ("publisher" in ended.out) == (closed == 2)


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_output_that_can_not_be_written_is_a_failure_in_one_line(
    starter: Starter, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """As on a full disk, for which a file that takes nothing stands in: whoever reads it must learn of it."""
    (tmp_path / "out").touch()
    with (tmp_path / "out").open("rb") as file:
        ended = await run(starter, "config", *options, stdout=file.fileno())
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1
    assert "the output can't be written (Bad file descriptor)" in ended.err


async def test_a_store_that_does_not_answer_is_told_after_a_while(starter: Starter, settings: Settings) -> None:
    """A start that waits for it says so long before it gives up."""
    silent = await asyncio.start_server(_say_nothing, "127.0.0.1")
    address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    there = starter.having(**s3_variables(settings, PERDURE_S3_ENDPOINT_URL=address))
    process = await there.begin("start", "publisher", "Do it.")
    assert process.stderr is not None
    said = await process.stderr.readline()
    assert said == b"the store does not answer yet, trying for 60 s\n"
    process.kill()
    await process.communicate()
    silent.close()
    await silent.wait_closed()


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1000):
        pass
    writer.close()
