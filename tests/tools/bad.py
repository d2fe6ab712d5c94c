"""Tools as nobody should write them: deaf, blocking, forking, flooding; `folder` is where they leave their traces.

Where one is asked to, it lets go when the file `release` is there, so that no test leaves a thread behind.
"""

import asyncio
import contextlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from activities.tool_context import ToolContext
from activities.toolbox import tool
from tests.processes import TREE

LONG = timedelta(minutes=5)


def started(folder: str) -> Path:
    """Leave a trace, and return where to look for leave to go."""
    Path(folder, "started").touch()
    return Path(folder, "release")


@tool(effect="read", timeout=LONG, attempts=1)
def sleeps_on(folder: str) -> str:
    """Sleep in a loop, and listen to nothing."""
    release = started(folder)
    while not release.exists():
        time.sleep(0.05)
    return "released"


@tool(effect="read", timeout=LONG, attempts=1)
def swallows(folder: str, *, context: ToolContext) -> str:
    """Take every error for one that can be tried again, also that of its cancel."""
    release = started(folder)
    while not release.exists():
        try:
            context.check()
        except Exception:  # noqa: BLE001 - that is what is bad about it
            continue
    return "released"


@tool(effect="read", timeout=LONG, attempts=1)
def cannot_be_reached(folder: str) -> str:
    """Wait in one long call to C."""
    release = started(folder)
    let_go = threading.Event()

    def look() -> None:
        while not release.exists():
            time.sleep(0.05)
        let_go.set()

    threading.Thread(target=look, daemon=True).start()
    let_go.wait()
    return "released"


@tool(effect="read", timeout=LONG, attempts=1)
async def awaits_for_ever(folder: str) -> str:
    """Wait for what never comes."""
    started(folder)
    try:
        await asyncio.Event().wait()
    finally:
        Path(folder, "cleaned").touch()
    return "never"


@tool(effect="read", timeout=LONG, attempts=1)
async def blocks_the_loop(folder: str) -> str:
    """Keep the event loop for ever."""
    release = started(folder)
    while not release.exists():
        with contextlib.suppress(Exception):
            time.sleep(0.001)
    return "released"


@tool(effect="read", timeout=LONG, attempts=1)
def grows_a_tree(folder: str, *, context: ToolContext) -> str:
    """Run a command with children in the background, one of them deaf and out of the group."""
    return context.run_command(["sh", "-c", TREE], cwd=Path(folder)).stdout


@tool(effect="read", timeout=LONG, attempts=1)
async def grows_a_tree_async(folder: str, *, context: ToolContext) -> str:
    """Do the same on the event loop."""
    return (await context.run_command_async(["sh", "-c", TREE], cwd=Path(folder))).stdout


@tool(effect="read", timeout=LONG, attempts=1)
def forks(folder: str) -> str:
    """Make a copy of the whole worker, and come back twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        Path(folder, "child").write_text(str(child))
    return "forked"


@tool(effect="read", timeout=LONG, attempts=1)
def fills_the_disk(folder: str, *, context: ToolContext) -> str:
    """Write to a disk that is full."""
    Path(folder, "attempt").write_text(str(context.folder))
    (context.folder / "half").write_bytes(bytes(1000))
    with Path("/dev/full").open("wb") as file:
        file.write(bytes(1_000_000))
    return "never"


@tool(effect="read", timeout=LONG, attempts=1)
def runs_into_a_limit(*, context: ToolContext) -> str:
    """Run a command that may write little, and writes more."""
    return context.run_command(["sh", "-c", "ulimit -f 8; exec cat /dev/zero > big"], check=True).stdout


@tool(effect="read", timeout=LONG, attempts=1)
def prints_two_gigabytes(folder: str) -> str:
    """Print 2 GB, and what is no UTF-8."""
    started(folder)
    sys.stdout.buffer.write(b"first \xff\xfe\n")
    mebibyte = "x" * 1024 * 1024
    for _ in range(2000):
        print(mebibyte)  # noqa: T201 - that is what is bad about it
    sys.stderr.write("\ud800\n")
    return "printed"


@tool(effect="read", timeout=LONG, attempts=1)
def returns_a_closed_iterator() -> Iterator[bytes]:
    """Return the lines of a file that is closed already."""
    with Path(__file__).open("rb") as file:
        return iter(file)


@tool(effect="read", timeout=LONG, attempts=1)
def returns_a_used_up_iterator() -> Iterator[bytes]:
    """Return an iterator that has given all it had."""
    chunks = iter([b"gone"])
    next(chunks)
    return chunks


@tool(effect="read", timeout=LONG, attempts=1)
def raises_what_cannot_be_encoded() -> str:
    """Raise an error whose text is no text."""
    raise RuntimeError("before \ud800\0 after" + "x" * 5_000_000)


class Unspeakable(Exception):
    """An error that can't say what it is."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError("no text")


@tool(effect="read", timeout=LONG, attempts=1)
def raises_the_unspeakable() -> str:
    """Raise an error that fails when it is asked for its text."""
    raise Unspeakable


@tool(effect="read", timeout=LONG, attempts=1)
async def exits_in_a_task() -> str:
    """Exit where asyncio would end the event loop."""
    return await asyncio.create_task(_exits())


async def _exits() -> str:
    sys.exit(3)
