"""The local stack: Temporal's dev server and SeaweedFS as child processes, with all their data in one directory.

Everything listens on loopback only. A start on a directory that has been used goes on with its data; `stack.env` in it
tells the other commands where the servers are. `infra.up` runs it in the foreground.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, get_args

import structlog
from pydantic import BaseModel, ConfigDict

from infra.children import Child, Ledger, Program, StackError, write_private
from infra.data_dir import open_data_dir
from infra.servers import (
    LOOPBACK,
    Credentials,
    Ports,
    is_free,
    remove_sockets,
    require_binaries,
    s3_program,
    temporal_program,
)
from infra.settings import STACK_FILE, Settings, inherited_environment, load_settings

START_TIMEOUT = timedelta(seconds=60)
FLUSH_INTERVAL = timedelta(seconds=1)
_ATTEMPTS = 3
_NEUTRAL_TEMPORAL = {
    "TEMPORAL_NAMESPACE": "default",
    "TEMPORAL_TLS": "false",
    # Empty or pointing nowhere: so that no profile or key of the machine goes to the local server.
    "TEMPORAL_API_KEY": "",
    "TEMPORAL_PROFILE": "",
    "TEMPORAL_CONFIG_FILE": os.devnull,
}

log = structlog.stdlib.get_logger(__name__)

ServerName = Literal["temporal", "s3"]


class Addresses(BaseModel):
    """Where the servers listen: `temporal` is host:port, `ui` and `s3` are URLs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temporal: str
    ui: str
    s3: str


class LocalStack:
    """The servers of one data directory. `async with LocalStack(path) as stack:` starts, supervises and stops them.

    A port that is None is taken freely, and again at the next start. `flush_interval` bounds what a power cut can lose
    of the blobs, which SeaweedFS leaves to the system's cache (Linux; None: no flush); a kill -9 loses nothing anyway.

    Raises (on entering):
        StackError: a binary is missing, a port is taken, the directory is in use or can't be written, a server does
            not come up.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bucket: str = "perdure",
        temporal_port: int | None = None,
        ui_port: int | None = None,
        s3_port: int | None = None,
        flush_interval: timedelta | None = FLUSH_INTERVAL,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.bucket = bucket
        self._wanted = {"temporal": temporal_port, "ui": ui_port, "s3": s3_port}
        self._flush_interval = flush_interval
        self._ledger = Ledger(self.data_dir / "processes.json")
        self._children: dict[str, Child] = {}
        self._flusher: asyncio.Task[None] | None = None
        self._lock: IO[str] | None = None
        self._ports: Ports | None = None
        self._credentials: Credentials | None = None

    async def __aenter__(self) -> Self:
        require_binaries()
        try:
            self._lock = open_data_dir(self.data_dir)
            await self._ledger.end_leftovers()
            self._credentials = Credentials.load_or_create(self.data_dir / "credentials.json")
            await self._start_servers()
        except BaseException:
            await self._stop()
            raise
        if self._flush_interval is not None and sys.platform == "linux":
            self._flusher = asyncio.create_task(_flush_forever(self.data_dir, self._flush_interval), name="flush")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def addresses(self) -> Addresses:
        """Where the servers listen; the same over restarts."""
        ports = self._running_ports()
        return Addresses(
            temporal=f"{LOOPBACK}:{ports.temporal}",
            ui=f"http://{LOOPBACK}:{ports.ui}",
            s3=f"http://{LOOPBACK}:{ports.s3}",
        )

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the children that run right now, by name."""
        return {name: child.pid for name, child in self._children.items() if child.pid is not None}

    def env(self) -> dict[str, str]:
        """Return the variables that point a worker or starter at this stack, and at no other server of the machine."""
        return {**_NEUTRAL_TEMPORAL, **self._shared_environment(), "PERDURE_DATA_DIR": str(self.data_dir)}

    def settings(self) -> Settings:
        """Return the settings that such a worker or starter has; independent of the environment of this process."""
        return load_settings(self.env(), env_file=None)

    async def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> None:
        """Run and supervise a child, such as a worker, that uses the stack; it is stopped before the servers are.

        It inherits this process's environment, pointed at the stack, and `environment` on top; without `log_path` it
        writes where this process does. It has its graceful shutdown timeout, and 5 seconds more, to stop.
        """
        program = Program(
            name=name,
            command=command,
            environment=inherited_environment("TEMPORAL_", "PERDURE_S3_") | self.env() | dict(environment or {}),
            log_path=log_path,
            stop_timeout=self.settings().graceful_shutdown_timeout + timedelta(seconds=5),
        )
        child = Child(program, self._ledger)
        self._children[name] = child
        await child.start(START_TIMEOUT)

    async def restart(self, name: str) -> None:
        """Stop a child gracefully, start it again, and return when it is ready; raises StackError as entering does."""
        child = self._child(name)
        await child.stop()
        await child.start(START_TIMEOUT)

    async def kill(self, name: str) -> None:
        """Kill a child with SIGKILL and return when it is dead; the supervisor starts it again by itself."""
        await self._child(name).kill()

    async def ready(self) -> None:
        """Wait until all children run and answer; StackError when one does not within a minute."""
        for child in self._children.values():
            await child.ready(START_TIMEOUT)

    async def _start_servers(self) -> None:
        """Start both at once; when a stranger takes a free port in the moment before a server does, choose others."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._ports = Ports.find(self.data_dir / "ports.json", self._wanted)
            write_private(self.data_dir / STACK_FILE, _as_lines(self._shared_environment()))
            try:
                await self._start_on(self._ports)
            except StackError:
                await self._stop_children()
                taken = [port for port in self._ports.model_dump().values() if not is_free(port)]
                if not taken or attempt == _ATTEMPTS:
                    raise
                log.warning("ports were taken while the servers started: choosing others", ports=taken)
            else:
                return

    async def _start_on(self, ports: Ports) -> None:
        settings = self.settings()
        for program in (
            temporal_program(ports, self.data_dir, settings),
            s3_program(ports, self.data_dir, settings, self._known_credentials()),
        ):
            self._children[program.name] = Child(program, self._ledger)
        try:
            async with asyncio.TaskGroup() as group:
                for child in self._children.values():
                    group.create_task(child.start(START_TIMEOUT))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _stop(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
            self._flusher = None
        await self._stop_children()
        if self._lock is not None:
            self._lock.close()  # and with it the lock
            self._lock = None

    async def _stop_children(self) -> None:
        """Stop the servers last, both at once: whoever uses them drains before."""
        users = [child for name, child in self._children.items() if name not in get_args(ServerName)]
        for child in reversed(users):
            await child.stop()
        await asyncio.gather(*(child.stop() for child in self._children.values()))
        self._children.clear()
        if self._ports is not None:
            remove_sockets(self._ports)

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise StackError(f"the stack has no child {name!r}; it has {', '.join(self._children) or 'none: start it'}")
        return self._children[name]

    def _running_ports(self) -> Ports:
        if self._ports is None:
            raise StackError("the stack has no addresses yet: enter it with `async with` first")
        return self._ports

    def _known_credentials(self) -> Credentials:
        if self._credentials is None:
            raise StackError("the stack has no credentials yet: enter it with `async with` first")
        return self._credentials

    def _shared_environment(self) -> dict[str, str]:
        """Return what `stack.env` tells everyone: addresses, credentials, and timers fit for one machine."""
        addresses, credentials = self.addresses, self._known_credentials()
        return {
            "TEMPORAL_ADDRESS": addresses.temporal,
            "PERDURE_S3_ENDPOINT_URL": addresses.s3,
            "PERDURE_S3_BUCKET": self.bucket,
            "PERDURE_S3_REGION": "us-east-1",
            "PERDURE_S3_ACCESS_KEY_ID": credentials.access_key_id,
            "PERDURE_S3_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "PERDURE_S3_CHECKSUM_MODE": "when_required",
            "PERDURE_S3_ADDRESSING_STYLE": "path",
            "PERDURE_HEARTBEAT_TIMEOUT_SECONDS": "2",
            "PERDURE_WORKFLOW_TASK_TIMEOUT_SECONDS": "2",
            "PERDURE_STICKY_TIMEOUT_SECONDS": "1",
            "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS": "5",
        }


def _as_lines(variables: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in variables.items())


async def _flush_forever(data_dir: Path, interval: timedelta) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        try:
            await asyncio.to_thread(_flush_filesystem, data_dir)
        except OSError as error:
            log.warning("written data can't be flushed to the disk: a power cut may lose it", reason=str(error))


def _flush_filesystem(path: Path) -> None:
    """Do what `sync -f` does: write all that the system holds back for this file system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed")
    finally:
        os.close(descriptor)
