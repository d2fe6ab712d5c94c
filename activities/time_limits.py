"""A tool's own time: kept where it runs, and for nothing but its own work."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from core.errors import TimedOut
from core.tools import ToolPolicy

Result = TypeVar("Result")


async def in_time(policy: ToolPolicy, work: Awaitable[Result]) -> Result:
    """Await work of a tool's at most as long as its timeout; storing what it returned is not its own time.

    Raises:
        TimedOut: it did not end; it was told to, and left behind when that did not help.
    """
    seconds = policy.timeout.total_seconds()
    time_limit = asyncio.timeout(seconds)
    try:
        async with time_limit:
            return await work
    except TimeoutError:
        if not time_limit.expired():
            raise
        raise TimedOut(f"{policy.name} did not end within {seconds:g} seconds") from None
