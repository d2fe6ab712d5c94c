"""A program in the foreground: a signal stops it in order, once, and without a traceback."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def until_stopped(work: Coroutine[Any, Any, None], *, on_stop: Callable[[], None]) -> bool:
    """Do the work to its end, or until SIGINT, SIGTERM or SIGHUP cancels it; say whether one did.

    It returns when the work has tidied up, and raises what the work raises. The first signal counts; more change
    nothing, also after the return: what follows is the end of the process.
    """
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in _STOPPING:
        loop.add_signal_handler(number, stopping.set)
    running, stopped = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if running.done():
            running.result()
            return False
        on_stop()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return True
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
