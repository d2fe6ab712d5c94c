"""Child processes under supervision: started, restarted when they die, stopped, and ended when their parent is gone.

A child never outlives its parent for long: on Linux the kernel kills it with the parent; elsewhere, and for the rare
child that slips through, the next start on the same data directory ends what the last one left behind. It is recognised
by process id *and* birth, so that a stranger who got the same id later is left alone.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

import structlog
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from core.errors import PerdureError

_POLL_SECONDS = 0.05
_TAIL_LINES = 15
_TAIL_BYTES = 16 * 1024
_LOG_BYTES = 16 * 1024**2
_LONGEST_PAUSE_SECONDS = 10.0
_MEMORY_SECONDS = 60.0

# Runs before the child's own program, under the same process id: asks the kernel (PR_SET_PDEATHSIG) to kill it along
# with its parent, looks whether the parent is already gone, and becomes the program.
_TIED_TO_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""

log = structlog.stdlib.get_logger(__name__)


class StackError(PerdureError):
    """The local stack can't run: a port is taken, a binary is missing, a server died. The text names the cure."""


class Birth(BaseModel):
    """One process for sure: its id, and when it was born in a form that only serves to compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    born: str


def birth(pid: int) -> Birth | None:
    """Tell when a process was born; None when there is none, or only its unreaped remains."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if fields[0] in "ZX" else Birth(pid=pid, born=f"{boot} {fields[19]}")  # clock ticks since boot
    command = ["/bin/ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    answer = subprocess.run(command, env={"LC_ALL": "C"}, capture_output=True, text=True, check=False)  # noqa: S603  ours
    state, _, born = answer.stdout.strip().partition(" ")
    return None if not born or state.startswith("Z") else Birth(pid=pid, born=" ".join(born.split()))


class Ledger:
    """The file that says which processes this data directory has running, by name; survives a kill -9 of the parent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, name: str, pid: int) -> None:
        """Note that `name` runs as `pid`; a process that is gone already is not noted."""
        if (born := birth(pid)) is not None:
            self._write({**self._read(), name: born})

    def forget(self, name: str) -> None:
        """Note that `name` runs no more."""
        self._write({other: entry for other, entry in self._read().items() if other != name})

    async def end_leftovers(self) -> None:
        """End what an earlier parent left: SIGTERM, SIGKILL after 10 seconds. Call it under the directory's lock."""
        for name, entry in self._read().items():
            await _end_leftover(name, entry)
            self.forget(name)

    def _read(self) -> dict[str, Birth]:
        try:
            return TypeAdapter(dict[str, Birth]).validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):  # torn by a power cut: then its processes are gone too
            return {}

    def _write(self, entries: Mapping[str, Birth]) -> None:
        write_private(self._path, json.dumps({name: entry.model_dump() for name, entry in entries.items()}))


@dataclass(frozen=True)
class Program:
    """What to run. `log_path` None shares the parent's output, `umask` -1 its mask; `probe` None is ready at once.

    `probe` tells whether the process does its work; it is asked until it says yes, and must not raise.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log_path: Path | None = None
    probe: Callable[[], Awaitable[bool]] | None = None
    stop_timeout: timedelta = timedelta(seconds=10)
    umask: int = -1


class Child:
    """One supervised process. Whoever starts it stops it; in between it is restarted whenever it dies."""

    def __init__(self, program: Program, ledger: Ledger) -> None:
        self.program = program
        self._ledger = ledger
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._deaths: deque[float] = deque(maxlen=16)
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id, another one after each restart; None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    async def start(self, patience: timedelta) -> None:
        """Start it, wait until it is ready, then supervise it.

        Raises:
            StackError: it died or was not ready in time; with the last lines of its log.
        """
        self._spawn()
        try:
            await self.ready(patience)
        except BaseException:
            await self.stop()
            raise
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervise {self.program.name}")

    async def ready(self, patience: timedelta) -> None:
        """Wait until it answers, over restarts too once it is supervised; raises as `start`."""
        name = self.program.name
        deadline = time.monotonic() + patience.total_seconds()
        while not await self._answers():
            if self._supervisor is None and self.pid is None:
                code = self._process.returncode if self._process else None
                raise StackError(f"{name} died at its start (exit code {code}){self._tail()}")
            if time.monotonic() > deadline:
                raise StackError(f"{name} was not ready within {patience.total_seconds():g} s{self._tail()}")
            await asyncio.sleep(_POLL_SECONDS)

    async def kill(self) -> None:
        """Kill it with SIGKILL and return when it is dead; the supervisor starts it again."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            await _until(lambda: process.poll() is not None)

    async def stop(self) -> None:
        """End supervision and process: SIGTERM, SIGKILL when that takes too long. Harmless when nothing runs."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
            self._supervisor = None
        process = self._process
        if process is not None and process.poll() is None:
            await _end(process.pid, lambda: process.poll() is not None, self.program.stop_timeout)
        self._ledger.forget(self.program.name)

    async def _answers(self) -> bool:
        if self.pid is None:
            return False
        return self.program.probe is None or await self.program.probe()

    async def _supervise(self) -> None:
        while True:
            await _until(lambda: self.pid is None)
            code = self._process.returncode if self._process else None
            pause_seconds = self._pause_seconds()
            name = self.program.name
            log.warning("a child died: starting it again", child=name, exit_code=code, pause_seconds=pause_seconds)
            await asyncio.sleep(pause_seconds)
            try:
                self._spawn()
            except OSError as error:
                log.warning("a child can't be started", child=name, reason=str(error))

    def _pause_seconds(self) -> float:
        """Bound the rate: almost at once after one death, doubling up to 10 s for those within one minute."""
        now = time.monotonic()
        self._deaths.append(now)
        recent = sum(1 for death in self._deaths if now - death < _MEMORY_SECONDS)
        return float(min(_LONGEST_PAUSE_SECONDS, 0.1 * 2 ** (recent - 1)))

    def _spawn(self) -> None:
        command = list(self.program.command)
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid()), *command]
        with self._open_log() as output:
            # A session of its own: Ctrl-C reaches the parent alone, which stops its children in order.
            self._process = subprocess.Popen(  # noqa: S603  the command is ours
                command,
                env=dict(self.program.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                start_new_session=True,
                umask=self.program.umask,
            )
        self._ledger.record(self.program.name, self._process.pid)

    @contextmanager
    def _open_log(self) -> Iterator[IO[bytes] | None]:
        path = self.program.log_path
        if path is None:
            yield None
            return
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".1.log"))
        path.touch(mode=0o600)
        with path.open("ab") as output:
            self._log_start = output.tell()
            yield output

    def _tail(self) -> str:
        """Return the last lines that the process wrote since its last start, after the log's name."""
        path = self.program.log_path
        if path is None:
            return ""
        with path.open("rb") as written:
            written.seek(max(self._log_start, path.stat().st_size - _TAIL_BYTES))
            lines = written.read().decode(errors="replace").splitlines()
        return "\n".join([f"; the last lines of {path}:", *(f"  {line}" for line in lines[-_TAIL_LINES:])])


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, all of it or nothing; its mode is 0600 from the start."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as fresh:  # mode 0600
        try:
            fresh.write(text)
            fresh.flush()
            os.fsync(fresh.fileno())
            Path(fresh.name).replace(path)
        except BaseException:
            Path(fresh.name).unlink(missing_ok=True)
            raise


async def _end_leftover(name: str, entry: Birth) -> None:
    if birth(entry.pid) == entry:
        log.warning("ending a process that an earlier stack left behind", child=name, pid=entry.pid)
        await _end(entry.pid, lambda: birth(entry.pid) != entry, Program.stop_timeout)


async def _end(pid: int, gone: Callable[[], bool], patience: timedelta) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await _until(gone)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            await _until(gone)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  no event tells that a process has ended
        await asyncio.sleep(_POLL_SECONDS)
