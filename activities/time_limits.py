"""A tool's own time: kept where it runs, and for nothing but its own work."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from activities.containment import LEFT_BEHIND
from core.errors import LeftBehind, TimedOut
from core.tools import ToolPolicy

Result = TypeVar("Result")


async def in_time(policy: ToolPolicy, work: Awaitable[Result]) -> Result:
    """Await work of a tool's at most as long as its timeout; storing what it returned is not its own time.

    Raises:
        TimedOut: it did not end, and was stopped.
        LeftBehind: it could not be stopped.
    """
    seconds = policy.timeout.total_seconds()
    time_limit = asyncio.timeout(seconds)
    try:
        async with time_limit:
            return await work
    except TimeoutError as error:
        if not time_limit.expired():
            raise
        if isinstance(error.__cause__, asyncio.CancelledError) and LEFT_BEHIND in error.__cause__.args:
            raise LeftBehind(f"{policy.name} did not end within {seconds:g} seconds and can't be stopped") from None
        raise TimedOut(f"{policy.name} did not end within {seconds:g} seconds") from None
