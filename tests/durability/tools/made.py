"""Tools that make artifacts on purpose."""

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from activities.tool_context import ToolContext, ToolOutput
from activities.toolbox import tool

BLOCK_BYTES = 1024 * 1024


@tool(effect="read", timeout=timedelta(seconds=30))
def report(number: int) -> ToolOutput:
    """Make a report with as long a name as there may be.

    Args:
        number: which one.
    """
    return ToolOutput(f"report {number}\n" * 1000, name=f"{number:03}-{'a-long-name-' * 10}.txt"[:120])


@tool(effect="read", timeout=timedelta(minutes=10))
def large_file(megabytes: int, *, context: ToolContext) -> Path:
    """Make a file whose blocks all differ.

    Args:
        megabytes: its size.
    """
    path = context.folder / "large.bin"
    with path.open("wb") as file:
        file.writelines(_blocks(megabytes))
    return path


def _blocks(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield random.Random(number).randbytes(BLOCK_BYTES)  # the store would compress what repeats itself
