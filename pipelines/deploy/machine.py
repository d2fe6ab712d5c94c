"""A machine in miniature, for pipelines/deploy.yaml: services are processes on loopback, and this is their keeper.

`serve FOLDER` keeps them, as systemd or a cluster does elsewhere: they outlive the command, and the worker, that
started them. All other commands are what a pipeline runs. Each can be repeated: what is done already stays as it is.

    python pipelines/deploy/machine.py serve FOLDER                       # in a terminal of its own; Ctrl-C ends all
    python pipelines/deploy/machine.py build FOLDER SERVICE VERSION
    python pipelines/deploy/machine.py push FOLDER SERVICE VERSION
    python pipelines/deploy/machine.py deploy FOLDER PLACE SERVICE VERSION
    python pipelines/deploy/machine.py rollback FOLDER PLACE SERVICE VERSION
    python pipelines/deploy/machine.py check FOLDER PLACE VERSION SERVICE...
    python pipelines/deploy/machine.py list FOLDER

Files in FOLDER let things go wrong, to see what becomes of them: `broken-SERVICE-VERSION` (never healthy),
`port-PLACE-SERVICE` (with the number of the port to take), `hold-COMMAND-SERVICE` (waits as long as it is there).
"""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from service import answer

HEALTHY_SECONDS = 5.0
HOST = "127.0.0.1"
SERVICE = str(Path(__file__).with_name("service.py"))


class Problem(Exception):
    """What went wrong, for whoever runs the command."""


class Keeper:
    """The services that run: by place and service, the version in use, and those before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[tuple[str, str, str], tuple[subprocess.Popen[bytes], int]] = {}
        self.routes: dict[tuple[str, str], list[str]] = {}

    def start(self, place: str, service: str, version: str) -> dict[str, Any]:
        """Start a version beside the one in use, unless it runs."""
        known = self.running.get((place, service, version))
        if known is not None and known[0].poll() is None:
            return {"port": known[1]}
        wanted = self.folder / f"port-{place}-{service}"
        port = int(wanted.read_text()) if wanted.exists() else 0
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                return {"problem": f"port {port} is taken by another process; free it, or name another one"}
            port = probe.getsockname()[1]
        broken = (self.folder / f"broken-{service}-{version}").exists()
        words = [service, version, str(port), "broken" if broken else "well"]
        process = subprocess.Popen([sys.executable, SERVICE, *words])  # noqa: S603 - the file beside this one
        self.running[(place, service, version)] = (process, port)
        return {"port": port}

    def stop(self, place: str, service: str, version: str) -> dict[str, Any]:
        """Stop a version, if it runs."""
        process, _ = self.running.pop((place, service, version), (None, 0))
        if process is not None:
            process.kill()
            process.wait()
        return {}

    def switch(self, place: str, service: str, version: str) -> dict[str, Any]:
        """Put a version in use, and stop the one that was."""
        before = self.routes.setdefault((place, service), [])
        old = before[-1] if before else ""
        if old != version:
            before.append(version)
            if old:
                self.stop(place, service, old)
        return {}

    def back(self, place: str, service: str, version: str) -> dict[str, Any]:
        """Take a version out of use, and say which one was there before it."""
        before = self.routes.get((place, service), [])
        if before and before[-1] == version:
            before.pop()
        self.stop(place, service, version)
        return {"before": before[-1] if before else ""}

    def look(self) -> dict[str, Any]:
        """Say what is in use, where."""
        found = {}
        for (place, service), versions in self.routes.items():
            if versions:
                _, port = self.running.get((place, service, versions[-1]), (None, 0))
                found[f"{place}/{service}"] = {"version": versions[-1], "port": port}
        return found


def serve(folder: Path) -> None:
    """Keep services until a signal comes; the port of the keeper is in `FOLDER/keeper`."""
    folder.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(folder)

    class Asked(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            name, *arguments = json.loads(self.rfile.read(length))
            answer(self, 200, getattr(keeper, name)(*arguments))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Asked)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    part = folder / "keeper.part"
    part.write_text(str(server.server_address[1]))
    part.replace(folder / "keeper")
    try:
        server.serve_forever()
    finally:
        for process, _ in keeper.running.values():
            process.kill()


def ask(folder: Path, *words: str) -> dict[str, Any]:
    """Ask the keeper to do something."""
    try:
        connection = http.client.HTTPConnection(HOST, int((folder / "keeper").read_text()), timeout=30)
        connection.request("POST", "/", json.dumps(words))
        said: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, ValueError) as error:
        raise Problem(f"no keeper answers for {folder} ({error}); start one: machine.py serve {folder}") from error
    if "problem" in said:
        raise Problem(said["problem"])
    return said


def healthy(port: int, version: str) -> bool:
    """Say whether a service answers well, as this version."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return answer.status == 200 and json.loads(answer.read())["version"] == version
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def built(folder: Path, shelf: str, name: str, version: str) -> Path:
    """Return where a built service lies."""
    return folder / shelf / f"{name}-{version}.json"


def build(folder: Path, name: str, version: str) -> str:
    """Build a service."""
    path = built(folder, "build", name, version)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"service": name, "version": version}))
    return f"built {name} {version}"


def push(folder: Path, name: str, version: str) -> str:
    """Put what was built where every place can get it."""
    source, target = built(folder, "build", name, version), built(folder, "registry", name, version)
    if not source.exists():
        raise Problem(f"{name} {version} was not built")
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(source.read_bytes())
    return f"pushed {name} {version}"


def deploy(folder: Path, place: str, name: str, version: str) -> str:
    """Start a version beside the one in use, wait until it is healthy, switch over."""
    if not built(folder, "registry", name, version).exists():
        raise Problem(f"{name} {version} is not in the registry; push it first")
    port = ask(folder, "start", place, name, version)["port"]
    deadline = time.monotonic() + HEALTHY_SECONDS
    while not healthy(port, version):
        if time.monotonic() > deadline:
            ask(folder, "stop", place, name, version)
            raise Problem(
                f"{name} {version} in {place} did not become healthy within {HEALTHY_SECONDS:g} s; stopped it"
            )
        time.sleep(0.05)
    ask(folder, "switch", place, name, version)
    return f"{name} {version} is in use in {place}, on port {port}"


def rollback(folder: Path, place: str, name: str, version: str) -> str:
    """Take a version out of use, and put the one before it back, if there was one."""
    before = str(ask(folder, "back", place, name, version)["before"])
    return deploy(folder, place, name, before) if before else f"{name} {version} is gone from {place}"


def check(folder: Path, place: str, version: str, *names: str) -> str:
    """See that all services of a place answer, as this version."""
    found = ask(folder, "look")
    for name in names:
        here = found.get(f"{place}/{name}", {"version": "", "port": 0})
        if here["version"] != version or not healthy(here["port"], version):
            raise Problem(f"{name} in {place} is {here['version'] or 'not there'}, not {version}, or does not answer")
    return f"{len(names)} services answer in {place} as {version}"


def hold(folder: Path, command: str, name: str) -> None:
    """Wait as long as a file says so."""
    held = folder / f"hold-{command}-{name}"
    while held.exists():
        (folder / f"held-{command}-{name}").touch()
        time.sleep(0.05)


def main(words: list[str]) -> int:
    """Run one command and return its exit code."""
    commands = {"build": build, "push": push, "deploy": deploy, "rollback": rollback, "check": check}
    match words:
        case ["serve", folder]:
            serve(Path(folder))
        case ["list", folder]:
            print(json.dumps(ask(Path(folder), "look"), indent=1))  # noqa: T201 - a command
        case [command, folder, *arguments] if command in commands:
            hold(Path(folder), command, arguments[-2] if len(arguments) > 1 else "")
            try:
                print(commands[command](Path(folder), *arguments))  # noqa: T201 - a command
            except Problem as problem:
                print(problem, file=sys.stderr)  # noqa: T201 - a command
                return 1
        case _:
            print(__doc__, file=sys.stderr)  # noqa: T201 - a command
            return 2
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
