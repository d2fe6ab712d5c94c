"""Facts about the demo that its own run does not show: what it is given, how it ends, and how it is interrupted."""

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from core.content import ArtifactRef
from infra.demo.show import main, report_name, scheduled
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Reply, calls, says, worker_for

LIST = ("list_files", "{}")


@pytest.mark.parametrize(
    ("replies", "during"),
    [
        ([], None),  # the model refuses, as with a wrong key: the run pauses
        ([says("There is nothing to query.")], None),
        ([calls(("write_report", '{"title": "T", "markdown": "M"}'))], None),  # waits for a person
        ([calls(LIST), calls(LIST), says("Done.")], "ask_model"),
        ([calls(("query_artifact", '{"sql": "SELECT 1", "artifacts": []}')), says("Done.")], "query_artifact"),
    ],
)
async def test_the_moment_of_the_kill_is_found_or_known_not_to_come(
    client: Client, settings: Settings, tmp_path: Path, replies: list[Reply], during: str | None
) -> None:
    """A run that pauses, waits for a person or ends before it queries anything does not hang the demo."""
    own = settings.model_copy(update={"data_dir": tmp_path})
    blobs = S3BlobStore.from_settings(settings)
    async with worker_for(client, own, blobs, FakeModel(replies)) as running:
        handle = await running.start(tools=["list_files", "query_artifact", "write_report"])
        assert await scheduled(client, handle.id, "query_artifact") == during
        with suppress(RPCError):  # it may have ended by itself
            await handle.terminate()
    await blobs.close()


def test_a_file_that_is_not_there_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, before any server is started."""
    assert main(["--file", "no/such.csv"]) == 2
    assert "no/such.csv is no file: make demo FILE=" in capsys.readouterr().out


def test_a_wrong_setting_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, before any server is started."""
    monkeypatch.setenv("PERDURE_BOGUS", "1")
    assert main([]) == 2
    assert "PERDURE_BOGUS='1'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [(1, "a-report.md", "demo-1.md"), (2, "../../etc/x.csv", "demo-1-2.csv"), (1, "a b", "demo-1.txt")],
)
def test_a_kept_report_is_named_after_its_run(number: int, name: str, expected: str) -> None:
    """A model made up the artifact's name: it leads to no other folder and over no other file."""
    ref = ArtifactRef(sha256="0" * 64, size_bytes=1, media_type="text/plain", name=name)
    assert report_name("demo-1", number, ref) == expected


@pytest.mark.parametrize("how", ["command line", "environment"])
@pytest.mark.parametrize(
    "task",
    ["What does `id` say?", 'It\'s "so" \\ so', "$5, $(HOME), $${x}, $(shell id)", "-x", "a\nb  c", "* # ;"],
)
def test_make_hands_over_file_and_task_as_they_are(task: str, how: str, tmp_path: Path) -> None:
    """No backtick, quote or dollar is read by make or by a shell."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.write(repr(sys.argv[1:]))\n")
    python.chmod(0o700)
    (tmp_path / "installed").touch()
    given = [f"FILE=it's $1/{task}.csv", f"TASK={task}"]
    # What a make around this test says to its like is not for this one.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    said = subprocess.run(
        ["make", "demo", f"BIN={tmp_path}", f"INSTALLED={tmp_path / 'installed'}"]
        + (given if how == "command line" else []),
        env=clean | dict(setting.split("=", 1) for setting in given if how == "environment"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == repr(["-m", "infra.demo", f"--file=it's $1/{task}.csv", f"--task={task}"])


@asynccontextmanager
async def running(*command: str, data_dir: Path) -> AsyncIterator[Process]:
    """A program with a data directory of its own, killed at the latest when the test ends."""
    environment = {**os.environ, "PERDURE_DATA_DIR": str(data_dir), "TEMPORAL_CONFIG_FILE": os.devnull}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.parametrize(("module", "code"), [("infra.demo", 130), ("infra.local", 0)])
async def test_ctrl_c_in_the_first_moment_ends_in_silence(module: str, code: int, tmp_path: Path) -> None:
    """While modules are still being imported: no traceback, and nothing was started."""
    async with running("-X", "importtime", "-m", module, data_dir=tmp_path) as process:
        assert process.stderr is not None
        while b"pydantic" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
    assert (process.returncode, output) == (code, b"")
    assert [line for line in errors.decode().splitlines() if not line.startswith("import time:")] == []
    assert list(tmp_path.iterdir()) == []


async def test_ctrl_c_in_the_middle_of_the_demo_stops_all_it_started(tmp_path: Path) -> None:
    """In order, however often it is pressed; exit code 130, and no child is left."""
    async with running("-m", "infra.demo", data_dir=tmp_path) as process:
        assert process.stdout is not None
        while b"$ starter.py start" not in await process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        while b"stopping" not in (said := await process.stdout.readline()):
            assert said
        process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
    assert process.returncode == 130
    assert output.decode().splitlines()[-1] == "interrupted; servers and worker are stopped"
    assert errors == b""
    assert (tmp_path / "demo" / "processes.json").read_text() == "{}"
