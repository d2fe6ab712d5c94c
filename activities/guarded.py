"""A process under its guard, as the worker sees it: started, waited for, ended with all that it started.

The guard (`activities.process_guard`) holds standard input as its lifeline. When that closes, it ends all that there
is; so a process ends with the worker, however the worker dies.
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

GRACE_SECONDS = 1.0
"""How long a process that is to end may take to do so by itself."""
STUCK_SECONDS = 4.0
"""So long after that, more than the guard needs for SIGKILL, the guard itself is killed, with its group."""
LOOK_SECONDS = 0.05
DYING_SECONDS = 1.0
"""After SIGKILL: only what the system itself does not let die takes longer."""
DYING_LOOK_SECONDS = 0.005
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_GUARD = Path(__file__).with_name("process_guard.py")
_lifelines: "WeakSet[IO[bytes]]" = WeakSet()


class Guarded:
    """Starts a process by its guard. `request` is what the guard reads; whoever makes one of these ends it."""

    def __init__(self, request: Mapping[str, Any], cwd: Path) -> None:
        self._began = time.monotonic()
        self._reported, self._over = b"", False
        self._reads, reports = os.pipe()
        try:
            self._process = _start_guard(reports, cwd)
        except BaseException:
            os.close(self._reads)
            raise
        finally:
            os.close(reports)
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin
        _lifelines.add(self._lifeline)
        line = json.dumps({**request, "grace_seconds": GRACE_SECONDS}).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while line:
                line = line[self._lifeline.write(line) :]

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._began

    @property
    def report(self) -> dict[str, Any]:
        """What the guard reported, once there was an end; empty when it was killed itself, with its group."""
        report: dict[str, Any] = json.loads(self._reported or b"{}")
        return report

    def wait(self, seconds: float) -> bool:
        """Wait for the end, for so long at most; say whether it has come."""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        if not self._over and poll.poll(seconds * 1000):
            chunk = os.read(self._reads, 65536)
            self._reported += chunk
            self._over = not chunk
        return self._over

    async def ended(self) -> None:
        """Wait for the end on an event loop."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        while not self.wait(0):
            readable.clear()
            loop.add_reader(self._reads, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._reads)

    def end(self) -> None:
        """End what is left, and wait until nothing is."""
        deadline = time.monotonic() + GRACE_SECONDS + STUCK_SECONDS
        try:
            self._lifeline.close()
            while time.monotonic() < deadline and not self.wait(LOOK_SECONDS):
                pass
        finally:
            self._clear()
        while self._dies():
            time.sleep(DYING_LOOK_SECONDS)

    async def end_async(self) -> None:
        """Do the same on an event loop."""
        try:
            self._lifeline.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS + STUCK_SECONDS):
                    await self.ended()
        finally:
            self._clear()
        while self._dies():  # noqa: ASYNC110 - no event tells that somebody else's child has ended
            await asyncio.sleep(DYING_LOOK_SECONDS)

    def _clear(self) -> None:
        # The guard does so itself, unless it was killed or is stuck. Its id can't be another's before it is waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._reads)
        self._cleared = time.monotonic()

    def _dies(self) -> bool:
        """Say whether SIGKILL still is at work: where the guard was killed, nobody else waits for the others' end."""
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # a zombie, to some systems
            pass
        return time.monotonic() < self._cleared + DYING_SECONDS


def _let_go() -> None:
    """Close the copies of the lifelines that a forked child has: processes end with the worker, not with that child."""
    for lifeline in tuple(_lifelines):
        with contextlib.suppress(OSError, ValueError):
            os.close(lifeline.fileno())


os.register_at_fork(after_in_child=_let_go)


def _start_guard(reports: int, cwd: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own interpreter and file
        [sys.executable, "-I", "-S", str(_GUARD), str(reports)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        pass_fds=[reports],
        cwd=cwd,
        env={name: os.environ[name] for name in _LOADER if name in os.environ},
        start_new_session=True,
    )
