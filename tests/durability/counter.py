"""A counter outside the system: an HTTP server of its own process, which writes down what tools do, by key.

`python -m tests.durability.counter FOLDER` listens on a free port of loopback and says which one; it ends with its
standard input. Each line of `FOLDER/steps` is JSON: when (Unix time), which key, which step.

| request (POST, JSON) | answer |
|---|---|
| `/begin`, `/effect`, `/end` | the step is written down, at once and whole; then the answer: how often it was |
| `/seen` | how many effects the key has |
| `/let_go` | all that is held is answered |

A step's answer waits `seconds`. The first `times` answers to the step `hold` of a key are held until the caller is dead
or let go. With `once`, a key that has had its effect gets no second one: that is written down as `repeated`.
"""

import asyncio
import json
import sys
import threading
import time
from collections import Counter as Counted
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.tools.counted import ask

Step = Literal["begin", "effect", "repeated", "end"]
HELD_SECONDS = 600.0


class Server(ThreadingHTTPServer):
    """Keeps the steps in a file, and the answers back as it is asked to."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._steps = folder / "steps"
        self._let_go = threading.Event()
        self._lock = threading.Lock()
        self._asked: Counted[tuple[str, str]] = Counted()
        self._effects: Counted[str] = Counted()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of callers that were killed before they had their answer."""

    def answer(self, path: str, body: dict[str, Any]) -> int:
        """Do what is asked, and return the answer when it may be given."""
        if path == "seen":
            with self._lock:
                return self._effects[body["key"]]
        if path == "let_go":
            self._let_go.set()
            return 0
        times = self._write(path, body)
        if body["hold"] == path and times <= body["times"]:
            self._let_go.wait(HELD_SECONDS)
        time.sleep(body["seconds"])
        return times

    def _write(self, step: str, body: dict[str, Any]) -> int:
        """Write a step down, and return how often it was asked for."""
        key = body["key"]
        with self._lock:
            self._asked[key, step] += 1
            times = self._asked[key, step]
            if step == "effect" and body["once"] and self._effects[key]:
                step = "repeated"
            self._effects[key] += step == "effect"
            with self._steps.open("a") as file:
                file.write(json.dumps({"at": time.time(), "key": key, "step": step}) + "\n")
            return times


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        """Answer with JSON."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(self.server.answer(self.path.strip("/"), body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Write no log."""


@dataclass(frozen=True)
class Noted:
    """One line of the counter's file."""

    at: float
    key: str
    step: Step


@dataclass(frozen=True)
class Counter:
    """The counter as a test sees it: its address (host:port), and the file that it writes."""

    address: str
    file: Path

    def steps(self, key: str | None = None) -> list[Noted]:
        """Return what was written down, of a key or of all, in the order in which it came."""
        text = self.file.read_text() if self.file.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        noted = [Noted(**json.loads(line)) for line in whole.splitlines()]
        return [one for one in noted if key in {None, one.key}]

    def count(self, key: str, step: Step) -> int:
        """Return how often a step of a key was written down."""
        return [one.step for one in self.steps(key)].count(step)

    def let_go(self) -> None:
        """Answer all that is held."""
        ask(self.address, "let_go", {})


@asynccontextmanager
async def counter_process(folder: Path) -> AsyncIterator[Counter]:
    """Run the counter while the block runs."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.durability.counter", str(folder), stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        yield Counter(f"127.0.0.1:{port}", folder / "steps")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    with Server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
