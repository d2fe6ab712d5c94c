"""Tools made for one fact."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from activities.toolbox import Tool, tool
from core.tools import Effect

SHORT = timedelta(seconds=30)


def returning(value: object) -> Tool[..., object]:
    """Make a tool that returns this value."""

    @tool(effect="read", timeout=SHORT)
    def returns() -> object:
        """Return it."""
        return value

    return returns


def doing(act: Callable[[], object], effect: Effect = "read") -> Tool[..., object]:
    """Make a tool that does this."""

    @tool(effect=effect, timeout=SHORT)
    def does() -> object:
        """Do it."""
        return act()

    return does


def doing_on_the_loop(act: Callable[[], object]) -> Tool[..., Any]:
    """Make an async tool that does this."""

    @tool(effect="read", timeout=SHORT)
    async def does() -> object:
        """Do it."""
        await asyncio.sleep(0)
        return act()

    return does


def raising(error: BaseException) -> Callable[[], object]:
    """Make a function that raises this."""

    def act() -> object:
        raise error

    return act
