"""Waiting for facts instead of for time."""

import asyncio
import inspect
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

_PAUSE_SECONDS = 0.02


async def wait_until(
    predicate: Callable[[], object],
    timeout: timedelta = timedelta(seconds=30),
    description: str = "",
) -> Any:
    """Ask `predicate` (plain or async) until it is true, and return what it said; fail with `description` in time."""
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        said = predicate()
        if inspect.isawaitable(said):
            said = await said
        if said:
            return said
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout.total_seconds():g} s: {description or predicate}; last: {said!r}"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
