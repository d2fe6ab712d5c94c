"""Secrets in real runs: in nothing that Temporal, the store, the log or the disk keeps; a missing one is waited for."""

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from temporalio.client import Client, WorkflowHandle

from core.chat import ToolMessage
from core.ports import BlobStore
from core.redaction import Redaction
from core.runs import RunResult
from core.scopes import scope_prefix
from infra.logging import configure_logging
from infra.settings import Settings
from infra.stack import LocalStack
from tests.running import FakeModel, Running, calls, histories, says, worker_for
from tests.waiting import wait_until
from workflows.agent import Agent

TOKEN = 'tok-5b0c"9/e+41ä'
FILE_KEY = "key-77aa01f3c9d2"
TOLD = Redaction.of({"token": TOKEN})
"""What no place may have, in any form that is looked for."""
STORED = Redaction.of({"key": FILE_KEY})
"""What one artifact has, because its tool made it so."""
MARK = "seen-by-all-2217"
SHOWN = "[secret api_token]"


@pytest.fixture
def secrets_dir(tmp_path: Path) -> Path:
    """The folder in which the worker looks for secrets."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    return folder


@pytest.fixture
async def running(
    client: Client, tested: Settings, blobs: BlobStore, model: FakeModel, secrets_dir: Path, tmp_path: Path
) -> AsyncIterator[Running]:
    """A worker that has a folder of secrets, and one of its own for data."""
    own = tested.model_copy(update={"secrets_dir": secrets_dir, "data_dir": tmp_path / "worker"})
    async with worker_for(client, own, blobs, model) as running:
        yield running


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the worker logs."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    configure_logging(Settings(), stream)
    yield stream
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


async def history_of(handle: "WorkflowHandle[Agent, RunResult]") -> bytes:
    """Return a run's whole history: as JSON, and as it is sent."""
    found = await histories(handle)
    events = [event.SerializeToString() for history in found for event in history.events]
    return b"\n".join([*(history.to_json().encode() for history in found), *events])


async def blobs_of(running: Running, scope: str) -> dict[str, bytes]:
    """Return all that the store has of a scope, with what it knows of each object behind its bytes."""
    found: dict[str, bytes] = {}
    for info in await running.blobs.list(f"{scope_prefix(scope)}/"):
        head = await running.blobs.head(info.key)
        assert head is not None
        found[info.key] = await running.blobs.get(info.key) + b"\n" + json.dumps(dict(head.metadata)).encode()
    return found


def files_with(folder: Path, what: Redaction) -> list[str]:
    """Return the files of a folder, all the way down, in which something stands."""
    return [path.name for path in folder.rglob("*") if path.is_file() and what.found_in(chunks(path))]


def chunks(path: Path) -> Iterator[bytes]:
    """Return a file's bytes, a megabyte at a time."""
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


async def heartbeats(handle: "WorkflowHandle[Agent, RunResult]") -> str:
    """Return what Temporal knows of the progress of running activities."""
    pending = (await handle.describe()).raw_description.pending_activities
    return " ".join(str(activity.heartbeat_details.payloads) for activity in pending)


async def tell_everything(running: Running, model: FakeModel, folder: Path) -> "WorkflowHandle[Agent, RunResult]":
    """Run an agent whose tools tell their secret in every way, look at it meanwhile, and wait for its end."""
    go, book = folder / "go", folder / "book"
    ways = ("text", "data", "long text", "name", "failure", "log", "bug")
    told = [("confess", json.dumps({"how": way})) for way in ways]
    told += [("confess", json.dumps({"how": "progress", "go": str(go)})), ("dump", "{}")]
    model.replies = [calls(*told), calls(("sign", json.dumps({"book": str(book)}))), says(f"Done: {MARK}.")]
    secrets = {"api_token": "secret:GITHUB_TOKEN"}
    handle = await running.start(tools=["confess", "dump", "sign"], secrets=secrets, task=f"Do it: {MARK}.")

    async def beats() -> bool:
        return SHOWN in await heartbeats(handle)

    await wait_until(beats, description="the heartbeat reaches Temporal")
    assert not TOLD.found_in([(await heartbeats(handle)).encode()])
    go.touch()
    state = await running.until(handle, lambda state: bool(state.pending), "a person is asked what became of the write")
    position = await handle.query("position")
    assert not TOLD.found_in([state.model_dump_json().encode(), json.dumps(position).encode()])
    await handle.signal("settle", {"settlement": "done"})
    assert (await running.result(handle)).outcome == "completed"
    return handle


async def test_no_secret_is_in_anything_that_outlives_the_call(
    running: Running, model: FakeModel, stack: LocalStack, secrets_dir: Path, tmp_path: Path, log: io.StringIO
) -> None:
    """History, journal, names, previews, errors, heartbeats, the log, Temporal's database, the files of the store."""
    (secrets_dir / "GITHUB_TOKEN").write_text(f"{TOKEN}\n")
    (secrets_dir / "file_key").write_text(FILE_KEY)
    handle = await tell_everything(running, model, tmp_path)
    read = [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert read[0].count(SHOWN) == 4
    assert all("[secret" in text for text in (read[1], read[2], read[3], read[6]))

    kept = {"history": await history_of(handle), "log": log.getvalue().encode(), **await blobs_of(running, handle.id)}
    assert [name for name, data in kept.items() if TOLD.found_in([data])] == []
    assert all(SHOWN.encode() in kept[name] for name in ("history", "log"))
    on_purpose = [name for name, data in kept.items() if STORED.found_in([data])]
    assert len(on_purpose) == 1
    assert "/artifacts/" in on_purpose[0]

    assert files_with(stack.data_dir / "temporal", Redaction.of({"mark": MARK}))
    assert files_with(stack.data_dir / "temporal", STORED) == []
    assert files_with(stack.data_dir, TOLD) == []
    assert files_with(running.settings.data_dir, TOLD) == []


@pytest.mark.parametrize("tool", ["look", "act"])
async def test_a_missing_secret_pauses_the_run_and_resume_runs_the_call(
    running: Running, model: FakeModel, secrets_dir: Path, tmp_path: Path, tool: str
) -> None:
    """Also a write's: nothing of it has begun, so that nobody has to settle it."""
    book = tmp_path / "book"
    model.replies = [calls((tool, json.dumps({"book": str(book)}))), says("Done.")]
    handle = await running.start(tools=[tool])
    state = await running.until(handle, lambda state: state.phase == "paused", "the run pauses")
    assert state.paused.startswith("there is no secret late: write it into the file late of ")
    assert state.paused.endswith("then resume")
    assert not book.exists()
    (secrets_dir / "late").write_text("short-lived\n")
    await handle.signal("resume", {"by": "ana"})
    assert (await running.result(handle)).outcome == "completed"
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.text == "11 letters"
    assert book.read_text() == "ran\n"
