"""Tools that do what they should."""

import time
from datetime import timedelta
from pathlib import Path

from activities.tool_context import ToolContext
from activities.toolbox import tool


@tool(effect="read", timeout=timedelta(seconds=30))
def echo(text: str) -> str:
    """Return the text.

    Args:
        text: what to return.
    """
    return text


@tool(effect="read", timeout=timedelta(seconds=30))
def letters(count: int) -> str:
    """Return a text of so many letters, in lines of 100.

    Args:
        count: how many.
    """
    line = "x" * 99 + "\n"
    return (line * (count // 100 + 1))[:count]


@tool(effect="write", timeout=timedelta(seconds=30))
def note(path: str, text: str) -> str:
    """Append a line to a file: an effect outside, which can be counted.

    Args:
        path: the file.
        text: the line.
    """
    with Path(path).open("a") as file:
        file.write(f"{text}\n")
    return "noted"


@tool(effect="read", timeout=timedelta(minutes=2))
def wait_for_file(path: str, starts: str, *, context: ToolContext) -> str:
    """Wait until a file is there; a line in another file counts how often this was started.

    Args:
        path: the file to wait for.
        starts: the file that gets a line at each start.
    """
    with Path(starts).open("a") as file:
        file.write("started\n")
    while not Path(path).exists():
        if context.cancelled:
            return "cancelled"
        time.sleep(0.02)
    return "there"


@tool(effect="write", timeout=timedelta(minutes=2))
def write_and_wait(path: str, starts: str, *, context: ToolContext) -> str:
    """Have an effect, then wait: for killing a worker in the middle of a write.

    Args:
        path: the file to wait for.
        starts: the file that gets a line at each start.
    """
    return str(wait_for_file(path, starts, context=context))


@tool(effect="read", timeout=timedelta(seconds=30))
def risky(*, dry: bool = False) -> str:
    """Do it, or only say what would be done.

    Args:
        dry: whether nothing is done.
    """
    return "dry" if dry else "done"
