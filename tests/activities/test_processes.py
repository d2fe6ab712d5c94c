"""Commands that tools run: bounded, without secrets, and nothing of one outlives its call."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Unpack

import pytest
from temporalio.exceptions import ApplicationError, CancelledError

from activities.guarded import GRACE_SECONDS
from activities.processes import Command, Completed, Options
from activities.tool_context import ToolContext
from activities.toolbox import Toolbox, tool
from core.errors import Failed
from tests.activities.calling import Calling
from tests.activities.made import SHORT
from tests.processes import TREE, alive, written
from tests.waiting import wait_until

Run = Callable[..., Completed]
SOON = timedelta(seconds=0.3)


def nothing_to_check() -> None:
    """Go on."""


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, tmp_path: Path, threads: ThreadPoolExecutor) -> Run:
    """Run a command in both ways."""

    def sync(*words: str | Path, **options: Unpack[Options]) -> Completed:
        return Command(words, **options).run(tmp_path, nothing_to_check)

    def on_a_loop(*words: str | Path, **options: Unpack[Options]) -> Completed:
        work = Command(words, **options)
        return threads.submit(asyncio.run, work.run_async(tmp_path)).result()

    return sync if request.param == "sync" else on_a_loop


def test_what_a_command_printed_and_how_it_ended_is_told(run: Run) -> None:
    """An exit code is no error by itself."""
    done = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert done.stdout_path.read_bytes() == b"out\n"
    assert not done.stdout_truncated
    assert done.seconds > 0


def test_an_exit_code_that_is_checked_is_a_failure_with_the_end_of_stderr(run: Run) -> None:
    """The model reads what went wrong."""
    with pytest.raises(Failed, match=r"^sh ended with exit code 3: .*the reason$") as failed:
        run("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; echo the reason >&2; exit 3", check=True)
    assert len(str(failed.value)) < 2000
    with pytest.raises(Failed, match="sh was ended by signal 9"):
        run("sh", "-c", "kill -9 $$", check=True)


@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        (["no-such-command"], {}, "no command 'no-such-command' on this worker: install it"),
        (["./ls"], {}, "no command 'ls'"),
        (["true"], {"cwd": Path("/nowhere")}, "no such folder"),
        (["cat"], {"stdin": Path("/nowhere")}, "no such file"),
        (["echo", "a\0b"], {}, "take out NUL"),
        (["echo", "a\ud800b"], {}, "take out NUL and lone surrogates"),
        (["echo", "x" * 1_000_000], {}, "Argument list too long.*by stdin"),
        (["/etc/passwd"], {}, "Permission denied|Exec format error"),
    ],
)
def test_what_cannot_be_started_is_a_failure_with_its_cure(
    run: Run, words: list[str], options: Options, told: str
) -> None:
    """Words may come from a model."""
    with pytest.raises(Failed, match=told):
        run(*words, **options)


def test_a_command_is_a_list_of_words(run: Run) -> None:
    """A line would be split by nobody, or by a shell."""
    with pytest.raises(TypeError, match='"sh", "-c", line'):
        Command("echo hello")


@pytest.mark.parametrize("given", ["söme text", b"\xff\0", Path(__file__)])
def test_it_reads_what_it_is_given(run: Run, given: str | bytes | Path) -> None:
    """A text, bytes or a file."""
    expected = given.encode() if isinstance(given, str) else given if isinstance(given, bytes) else given.read_bytes()
    assert run("cat", stdin=given).stdout_path.read_bytes() == expected


def test_it_reads_nothing_when_nothing_is_given(run: Run) -> None:
    """It does not wait for a terminal."""
    assert run("cat").stdout == ""


def test_it_runs_where_it_is_told_to_and_else_in_an_empty_folder(run: Run, tmp_path: Path) -> None:
    """Its files go with the attempt."""
    assert run("ls", "-A").stdout == ""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "script").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "here" / "script").chmod(0o700)
    assert run("./script", cwd=tmp_path / "here").stdout == f"{tmp_path}/here\n"


def test_it_inherits_no_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what programs need to run, and what it is given on purpose."""
    monkeypatch.setenv("PERDURE_S3_SECRET_ACCESS_KEY", "open sesame")
    monkeypatch.setenv("LC_TIME", "C")
    names = {line.partition("=")[0] for line in run("env", env={"TOKEN": "given"}).stdout.splitlines()}
    assert names >= {"PATH", "LC_TIME", "TOKEN"}
    assert names <= {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TOKEN"} | {name for name in names if name[:3] == "LC_"}


def test_no_descriptor_of_the_worker_is_open_in_it(run: Run) -> None:
    """Not the lifeline, either."""
    listed = run(sys.executable, "-c", "import os; print(*sorted(os.listdir('/dev/fd'), key=int))").stdout.split()
    assert listed[:3] == ["0", "1", "2"]
    assert len(listed) <= 4  # the last one is what lists them


def test_what_is_no_text_is_readable_all_the_same(run: Run) -> None:
    """And its bytes are in the file."""
    done = run("printf", r"\377\376 ok")
    assert done.stdout == "\ufffd\ufffd ok"
    assert done.stdout_path.read_bytes() == b"\xff\xfe ok"


def test_two_gigabytes_are_cut_and_it_says_so(run: Run) -> None:
    """They fill neither memory nor the disk, and the command ends as if all had been read."""
    done = run("sh", "-c", "head -c 2000000000 /dev/zero; echo end >&2", output_bytes=1000, check=True)
    assert (done.exit_code, done.stderr) == (0, "end\n")
    assert done.stdout.endswith("[the beginning of 2.0 GB; kept: 1.0 KB]")
    assert done.stdout_truncated
    assert done.stdout_path.stat().st_size == 1000


def test_a_long_text_is_cut_and_its_file_is_whole(run: Run) -> None:
    """What was printed goes on in the file."""
    done = run("head", "-c", "1000000", "/dev/zero")
    assert len(done.stdout) < 300_000
    assert done.stdout.endswith("[the beginning of 1.0 MB; kept: 1.0 MB]")
    assert not done.stdout_truncated
    assert done.stdout_path.stat().st_size == 1_000_000


def test_a_command_that_takes_too_long_is_ended(run: Run, tmp_path: Path) -> None:
    """Nobody knows what it did: no `Failed`, so that a write is looked up."""
    with pytest.raises(TimeoutError, match=r"sh did not end within 0.3 seconds"):
        run("sh", "-c", TREE, cwd=tmp_path, timeout=SOON)
    assert alive(written(tmp_path)) == set()


def test_what_outlives_its_command_is_ended_with_the_call(run: Run, tmp_path: Path) -> None:
    """A process in the background, and one that left the group."""
    done = run("sh", "-c", "sleep 600 & echo $! > one; setsid sleep 600 & echo $! > two; echo started", cwd=tmp_path)
    assert done.stdout == "started\n"
    assert len(written(tmp_path)) == 2
    assert alive(written(tmp_path)) == set()


def test_what_does_not_listen_is_killed(run: Run, tmp_path: Path) -> None:
    """SIGTERM, and after a moment SIGKILL."""
    deaf = "trap '' TERM; echo $$ > deaf; while :; do sleep 0.1; done"
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run("sh", "-c", deaf, cwd=tmp_path, timeout=SOON)
    assert time.monotonic() - began > GRACE_SECONDS
    assert alive(written(tmp_path)) == set()


def test_what_listens_may_clean_up(run: Run, tmp_path: Path) -> None:
    """That is what SIGTERM is for."""
    polite = "trap 'echo clean > cleaned; exit 0' TERM; while :; do sleep 0.05; done"
    with pytest.raises(TimeoutError):
        run("sh", "-c", polite, cwd=tmp_path, timeout=SOON)
    assert (tmp_path / "cleaned").read_text() == "clean\n"


@pytest.mark.parametrize(
    ("line", "exit_code"), [("kill 0; sleep 60", -15), ("kill -9 0", -9), ("kill -9 $PPID; sleep 60", -9)]
)
def test_a_command_that_kills_around_itself_is_over_with_all_it_started(
    run: Run, tmp_path: Path, line: str, exit_code: int
) -> None:
    """Its group, its guard: the worker is in neither."""
    done = run("sh", "-c", f"echo $$ > one; sleep 600 & echo $! > two; {line}", cwd=tmp_path)
    assert done.exit_code == exit_code
    assert alive(written(tmp_path)) == set()


async def test_a_check_that_raises_ends_the_command(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    """As on a cancel; a command is not even started after one."""
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise CancelledError("the tool was cancelled")

    running = threads.submit(Command(["sh", "-c", TREE], cwd=tmp_path).run, tmp_path, check)
    await wait_until(lambda: len(written(tmp_path)) == 3, description="the tree has started")
    stop.set()
    with pytest.raises(CancelledError):
        await asyncio.wrap_future(running)
    assert alive(written(tmp_path)) == set()
    with pytest.raises(CancelledError):
        Command(["touch", "started"], cwd=tmp_path).run(tmp_path, check)
    assert not (tmp_path / "started").exists()


async def test_a_cancel_on_a_loop_ends_the_command(tmp_path: Path) -> None:
    """It is waited for."""
    running = asyncio.create_task(Command(["sh", "-c", TREE], cwd=tmp_path).run_async(tmp_path))
    await wait_until(lambda: len(written(tmp_path)) == 3, description="the tree has started")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert alive(written(tmp_path)) == set()


async def test_a_command_ends_with_the_worker_however_that_dies(tmp_path: Path) -> None:
    """Also when a forked child of the worker's lives on."""
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from activities.processes import Command\n"
        "here = Path(sys.argv[1])\n"
        "def fork_once(done=[]):\n"
        "    if not done and (here / 'three').exists():\n"
        "        done.append(os.fork())\n"
        "        if done == [0]:\n"
        "            (here / 'forked').write_text(str(os.getpid()))\n"
        "            time.sleep(600)\n"
        "Command(['sh', '-c', sys.argv[2]], cwd=here).run(here, fork_once)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path), TREE]
    worker = await asyncio.to_thread(subprocess.Popen, command, env={"PYTHONPATH": str(Path.cwd())})
    await wait_until(lambda: len(written(tmp_path)) == 4, description="the tree and the fork have started")
    worker.kill()
    await asyncio.to_thread(worker.wait)
    forked = int((tmp_path / "forked").read_text())
    await wait_until(lambda: alive(written(tmp_path)) == {forked}, description="the tree has ended")
    os.kill(forked, signal.SIGKILL)


async def test_tools_run_commands_by_their_context(calling: Calling) -> None:
    """Each in its own way; the files are results like any other."""

    @tool(effect="read", timeout=SHORT)
    def lists(*, context: ToolContext) -> Path:
        """List."""
        return context.run_command(["seq", "10000"], check=True).stdout_path

    @tool(effect="read", timeout=SHORT)
    async def lists_async(*, context: ToolContext) -> Path:
        """List."""
        return (await context.run_command_async(["seq", "10000"], check=True)).stdout_path

    @tool(effect="read", timeout=SHORT)
    async def mixes_up(*, context: ToolContext) -> str:
        """Block the loop."""
        return context.run_command(["true"]).stdout

    calling.toolbox = Toolbox([lists, lists_async, mixes_up])
    for name in ("lists", "lists_async"):
        outcome = await calling.call(name)
        assert [await calling.bytes_of(ref) for ref in outcome.artifacts] == [
            "".join(f"{number}\n" for number in range(1, 10_001)).encode()
        ]
    with pytest.raises(ApplicationError, match="await run_command_async"):
        await calling.call("mixes_up")


async def test_a_secret_of_a_command_is_in_no_failure(calling: Calling) -> None:
    """Programs print what they are given."""
    calling.secrets.values["token"] = "open-sesame-1234"

    @tool(effect="read", timeout=SHORT, secrets=("token",))
    def logs_in(*, context: ToolContext) -> None:
        """Log in."""
        given = {"TOKEN": context.secret("token")}
        context.run_command(["sh", "-c", 'echo "bad token $TOKEN" >&2; exit 1'], env=given, check=True)

    calling.toolbox = Toolbox([logs_in])
    failure = await calling.failure("logs_in")
    assert "bad token [secret token]" in failure
    assert "sesame" not in failure
