"""Commands that a tool runs: nothing of one outlives the call, the attempt or the worker.

A command runs under a guard, in a process group of its own. When the call ends, however it ends, or the worker dies,
`kill -9` included, all that the command started gets SIGTERM and a moment later SIGKILL; on Linux also what left the
group. It inherits no secret, and what it prints can fill neither memory nor the disk.

What a tool starts by other means (`subprocess`, `os.fork`) is out of reach.
"""

import asyncio
import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from activities.guarded import LOOK_SECONDS, Guarded
from activities.secrets import redacted
from core.content import clean, one_line, readable_bytes
from core.errors import Failed

OUTPUT_BYTES = 64 * 1024 * 1024
"""Most that is kept of each stream of a command, unless it is asked for more."""
TEXT_BYTES = 256 * 1024
"""Most of a stream that is given as text; its file has more."""
ERROR_CHARACTERS = 1500
INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
"""What a command has of the worker's environment, and LC_*: no setting and no secret."""
_PATH = "/usr/local/bin:/usr/bin:/bin"
_UNKNOWN: dict[str, Any] = {"bytes": 0, "kept": 0, "tail": "", "trouble": ""}


class Options(TypedDict, total=False):
    """How a command is run; all of it may be left out."""

    timeout: timedelta | None
    """After this it is ended, and `TimeoutError` raised; None: as long as the tool may run."""
    stdin: str | bytes | Path | None
    """What it reads: a text, bytes, a file; None: nothing."""
    cwd: Path | None
    """Where it runs; None: in an empty folder, which is deleted when the attempt ends."""
    env: Mapping[str, str] | None
    """Variables besides `INHERITED`; secrets that it needs are given here."""
    output_bytes: int
    """Most that is kept of what it prints, of each stream."""
    check: bool
    """Whether an exit code other than 0 raises `Failed`, with the end of what it printed to stderr."""


@dataclass(frozen=True)
class Completed:
    """A command that has ended by itself. The files are deleted when the attempt ends: return one to keep it."""

    exit_code: int
    """Below 0: the number of the signal that ended it."""
    stdout: str
    """The beginning, up to `TEXT_BYTES`, readable whatever was printed; where something is missing, it says so."""
    stderr: str
    stdout_path: Path
    """What was printed, byte by byte, up to `output_bytes`."""
    stderr_path: Path
    stdout_truncated: bool
    """Whether more was printed than is in the file."""
    stderr_truncated: bool
    seconds: float


@dataclass(frozen=True)
class Command:
    """A command line, word by word, and how it is run: see `Options`."""

    words: Sequence[str | Path]
    timeout: timedelta | None = None
    stdin: str | bytes | Path | None = None
    cwd: Path | None = None
    env: Mapping[str, str] | None = None
    output_bytes: int = OUTPUT_BYTES
    check: bool = False

    def __post_init__(self) -> None:
        """Refuse what is a mistake of the tool's author."""
        if isinstance(self.words, str) or not self.words:
            raise TypeError('a command is a list of words, such as ["git", "log"]; for a line: ["sh", "-c", line]')

    def run(self, parent: Path, check: Callable[[], None]) -> Completed:
        """Run it to its end in a thread; files go below `parent`; `check` is called often, and raises to stop.

        Raises:
            Failed: it can't be started, or `check` is set and its exit code is not 0.
            TimeoutError: it took too long, and was ended.
        """
        check()
        folder = _new_folder(parent)
        guarded = Guarded(self._request(folder), self._where(folder))
        try:
            while not guarded.wait(LOOK_SECONDS):
                check()
                if self.timeout is not None and guarded.seconds > self.timeout.total_seconds():
                    raise self._too_late(self.timeout)
        finally:
            guarded.end()
        return self._completed(guarded, folder)

    async def run_async(self, parent: Path) -> Completed:
        """Run it to its end on an event loop; a cancel ends it, and its end is waited for. Raises as `run`."""
        folder = _new_folder(parent)
        guarded = Guarded(self._request(folder), self._where(folder))
        limit = asyncio.timeout(None if self.timeout is None else self.timeout.total_seconds())
        try:
            async with limit:
                await guarded.ended()
        except TimeoutError:
            raise self._too_late(self.timeout or timedelta()) from None
        finally:
            await guarded.end_async()
        return self._completed(guarded, folder)

    @property
    def name(self) -> str:
        """How it is called in texts."""
        return one_line(clean(Path(self.words[0]).name), 60)

    def _request(self, folder: Path) -> dict[str, Any]:
        """Return what the guard is told; what can't be run is refused before anything starts."""
        words = [os.fspath(word) for word in self.words]
        inherited = {name: it for name, it in os.environ.items() if name in INHERITED or name.startswith("LC_")}
        environment = {**inherited, **(self.env or {})}
        if not all(map(_fit_for_a_program, (*words, *environment, *environment.values()))):
            raise Failed(
                f"{self.name} can't be given one of its words, or a variable: take out NUL and lone surrogates"
            )
        return {
            "path": str(self._program(environment.get("PATH", _PATH))),
            "arguments": words,
            "environment": environment,
            "stdin": str(self._stdin(folder)),
            "stdout": str(folder / "stdout"),
            "stderr": str(folder / "stderr"),
            "output_bytes": self.output_bytes,
        }

    def _where(self, folder: Path) -> Path:
        if self.cwd is not None:
            if not self.cwd.is_dir():
                raise Failed(f"{self.name} can't run in {one_line(self.cwd.name)!r}: there is no such folder")
            return self.cwd
        cwd = folder / "cwd"
        cwd.mkdir()
        return cwd

    def _program(self, path: str) -> Path:
        first = self.words[0]
        if isinstance(first, Path) or "/" in first:
            program = (self.cwd or Path()).absolute() / first
            found = str(program) if program.is_file() else None
        else:
            found = shutil.which(first, path=path)
        if found is None:
            raise Failed(f"there is no command {self.name!r} on this worker: install it there, or use another one")
        return Path(found).absolute()

    def _stdin(self, folder: Path) -> Path:
        if self.stdin is None:
            return Path(os.devnull)
        if isinstance(self.stdin, Path):
            if not self.stdin.exists():
                raise Failed(f"{self.name} can't read {one_line(clean(self.stdin.name))!r}: there is no such file")
            return self.stdin.absolute()
        path = folder / "stdin"
        path.write_bytes(self.stdin if isinstance(self.stdin, bytes) else clean(self.stdin).encode())
        return path

    def _too_late(self, timeout: timedelta) -> TimeoutError:
        return TimeoutError(f"{self.name} did not end within {timeout.total_seconds():g} seconds and was stopped")

    def _completed(self, guarded: Guarded, folder: Path) -> Completed:
        report = guarded.report
        if "error" in report:
            cure = "; give long texts by stdin or in a file" if report["errno"] == errno.E2BIG else ""
            raise Failed(f"{self.name} can't be started: {report['error']}{cure}")
        # A guard that could not report was killed, with all of its group.
        exit_code = report.get("exit_code", -signal.SIGKILL)
        stdout, stderr = report.get("outputs", (_UNKNOWN, _UNKNOWN))
        if self.check and exit_code != 0:
            how = f"ended with exit code {exit_code}" if exit_code > 0 else f"was ended by signal {-exit_code}"
            said = redacted(clean(stderr["tail"].strip()))[-ERROR_CHARACTERS:]
            raise Failed(f"{self.name} {how}: {said or '(it printed nothing to stderr)'}")
        return Completed(
            exit_code=exit_code,
            stdout=_text(folder / "stdout", stdout),
            stderr=_text(folder / "stderr", stderr),
            stdout_path=folder / "stdout",
            stderr_path=folder / "stderr",
            stdout_truncated=stdout["bytes"] > stdout["kept"],
            stderr_truncated=stderr["bytes"] > stderr["kept"],
            seconds=round(guarded.seconds, 3),
        )


def _new_folder(parent: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=parent, prefix="command-")).absolute()


def _fit_for_a_program(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _text(path: Path, output: Mapping[str, Any]) -> str:
    """Return the beginning of what was printed, and a line on what is missing."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        text = file.read(TEXT_BYTES).decode(errors="replace")
    if output["bytes"] <= min(output["kept"], TEXT_BYTES):
        return text
    trouble = f": {output['trouble']}" if output["trouble"] else ""
    return (
        f"{text}\n[the beginning of {readable_bytes(output['bytes'])}; kept: {readable_bytes(output['kept'])}{trouble}]"
    )
