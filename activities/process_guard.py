"""Runs one command as the leader of its process group, and leaves nothing of it behind.

Started as a script by `activities.processes`; it needs only the standard library. Standard input is its lifeline: one
line of JSON says what to run. When it closes, because the worker says so or is dead, however it died, all that the
command started gets SIGTERM and, when its time is over, SIGKILL. The same happens to what outlives the command.

Out: one line of JSON on the descriptor that the first argument names. What the command prints goes to two files, each
up to a bound; the rest is read and dropped, so that nothing blocks and nothing fills.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any

LIFELINE = 0
CHUNK_BYTES = 1024 * 1024
TAIL_BYTES = 16 * 1024
"""So much of the end of what it printed is told, whatever the bound."""
LOOK_SECONDS = 0.02
GIVE_UP_SECONDS = 2.0
"""So long after the first SIGKILL, what is still there can't be killed."""
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
CATCHABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
           signal.SIGALRM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # fmt: skip
"""A command may signal its whole group; its guard stays."""


class Output:
    """One stream of the command: the first bytes go to a file, the last ones are kept, the others are dropped."""

    def __init__(self, path: str, limit_bytes: int) -> None:
        self.reads, self.writes = os.pipe()
        self.total_bytes = 0
        self.kept_bytes = 0
        self.tail = b""
        self.trouble = ""
        self._limit_bytes = limit_bytes
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.set_blocking(self.reads, False)
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(self.reads, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)  # fewer turns for what prints a lot

    def take(self) -> bool:
        """Read what is there; say whether there may come more."""
        try:
            chunk = os.read(self.reads, CHUNK_BYTES)
        except BlockingIOError:
            return True
        self.total_bytes += len(chunk)
        self.tail = (self.tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        try:
            self._keep(chunk[: max(self._limit_bytes - self.kept_bytes, 0)])
        except OSError as error:
            self.trouble, self._limit_bytes = error.strerror or "it can't be written", 0
        return bool(chunk)

    def drain(self) -> None:
        """Take what is left in the pipe, now that nobody writes any more."""
        before = -1
        while before != self.total_bytes:
            before = self.total_bytes
            self.take()

    def told(self) -> dict[str, Any]:
        """Return what the worker is told."""
        tail = self.tail.decode(errors="replace")
        return {"bytes": self.total_bytes, "kept": self.kept_bytes, "tail": tail, "trouble": self.trouble}

    def _keep(self, part: bytes) -> None:
        while part:
            written = os.write(self._file, part)
            self.kept_bytes += written
            part = part[written:]


class Guard:
    """The command, and all that it started."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.outputs = [Output(request[name], request["output_bytes"]) for name in ("stdout", "stderr")]
        self.exit_code: int | None = None
        self._grace_seconds = request["grace_seconds"]
        self._kill_at: float | None = None
        self._alone = False
        self._woken, wakes = os.pipe()
        for end in (self._woken, wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._poll = select.poll()
        for readable in (LIFELINE, self._woken, *(output.reads for output in self.outputs)):
            self._poll.register(readable, select.POLLIN)
        self._child = self._spawn(request)

    def watch(self) -> None:
        """Wait until nothing of the command is left, and see to it."""
        while not (self._alone and self.exit_code is not None):
            for readable, _ in self._poll.poll(None if self._kill_at is None else LOOK_SECONDS * 1000):
                self._serve(readable)
            self._reap()
            if self.exit_code is not None and not self._alone:
                self._stop()
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                if sys.platform != "linux" or time.monotonic() > self._kill_at + GIVE_UP_SECONDS:
                    return
                signal_each(descendants(os.getpid()), signal.SIGKILL)
        for output in self.outputs:
            output.drain()

    def _spawn(self, request: dict[str, Any]) -> int:
        out, err = (output.writes for output in self.outputs)
        stdin = request["stdin"] or os.devnull
        actions = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, out, 1),
                   (os.POSIX_SPAWN_DUP2, err, 2)]  # fmt: skip
        environment = request["environment"]
        try:
            return os.posix_spawn(
                request["path"], request["arguments"], environment, file_actions=actions, setsigdef=CATCHABLE
            )
        finally:
            os.close(out)
            os.close(err)

    def _serve(self, readable: int) -> None:
        if readable == self._woken:
            os.read(self._woken, 4096)
        elif readable == LIFELINE:
            if not os.read(LIFELINE, 4096):
                self._poll.unregister(LIFELINE)
                self._stop()
        elif not next(output for output in self.outputs if output.reads == readable).take():
            self._poll.unregister(readable)

    def _stop(self) -> None:
        """Ask all that is there to end, once."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_seconds
            os.killpg(0, signal.SIGTERM)
            signal_each(descendants(os.getpid()), signal.SIGTERM)  # also those that left the group

    def _reap(self) -> None:
        """Take note of what has ended. Orphans of the command become children of the guard, where the system can."""
        try:
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return
                if process == self._child:
                    self.exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._alone = True


def descendants(root: int) -> list[int]:
    """Return all processes below this one, as the process table of Linux has them; none elsewhere."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs as much time as all else here
            if name.isdigit():
                with contextlib.suppress(OSError):
                    children.setdefault(parent_of(name), []).append(int(name))
    found = list(children.get(root, ()))
    for process in found:  # grows while it is walked
        found += children.get(process, [])
    return found


def parent_of(process: str) -> int:
    """Return the parent of a process; OSError when it has ended."""
    stat = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    try:
        # The name of the program, in parentheses, may hold anything.
        return int(os.read(stat, 4096).rpartition(b")")[2].split()[1])
    finally:
        os.close(stat)


def signal_each(processes: list[int], number: int) -> None:
    """Send a signal to processes that may have ended by now."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def become_reaper() -> None:
    """Have orphans of the command become children of this process, so that none gets away; where there is Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def read_request() -> dict[str, Any] | None:
    """Return what to run, or None when the worker has gone before it could say so."""
    text = b""
    while not text.endswith(b"\n"):
        chunk = os.read(LIFELINE, CHUNK_BYTES)
        if not chunk:
            return None
        text += chunk
    request: dict[str, Any] = json.loads(text)
    return request


def tell(report: int, what: dict[str, Any]) -> None:
    """Tell the worker how it ended, unless that has gone."""
    line = json.dumps(what).encode()
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(report, line) :]


def main(report: int) -> None:
    """Run the command, and report how it ended."""
    fcntl.fcntl(report, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
    become_reaper()
    request = read_request()
    if request is None:
        return
    try:
        guard = Guard(request)
    except (OSError, ValueError) as error:
        tell(report, {"error": str(error), "errno": getattr(error, "errno", None)})
        return
    guard.watch()
    outputs = [output.told() for output in guard.outputs]
    tell(report, {"exit_code": guard.exit_code, "outputs": outputs})
    os.killpg(0, signal.SIGKILL)  # whatever is left in the group where orphans can't be counted, and the guard


if __name__ == "__main__":
    main(int(sys.argv[1]))
