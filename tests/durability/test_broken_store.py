"""A store that loses, damages, delays or refuses: no bad byte reaches the model, and no run ends by it."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from core.artifacts import Artifacts
from core.audit import artifacts_of
from core.chat import ChatReply, ChatRequest, ToolMessage
from core.entries import ToolFinished
from core.errors import BlobMissing
from core.runs import RunResult
from core.scopes import artifact_key, scope_prefix
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.stack import LocalStack
from infra.temporal import connect
from tests.fakes import BrokenBlobStore, Fault, Operation
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.tools.plain import letters
from tests.waiting import wait_until
from workflows.agent import Agent

SOAK = os.environ.get("SOAK") == "1"
COLD_BYTES = 1
"""A journal cache that keeps nothing: every model call reads the store."""
MEBIBYTE = 1024 * 1024
DAMAGES: tuple[Fault, ...] = ("missing", "truncated", "altered")

BIG = calls(("letters", '{"count": 10000}'))
Handle = WorkflowHandle[Agent, RunResult]


@dataclass
class Broken:
    """A worker over a store that a test breaks. `name` is the id of its run, known before it starts."""

    running: Running
    store: BrokenBlobStore
    model: FakeModel
    name: str

    def under(self, part: str) -> str:
        """The prefix of the run's journal, artifacts or runs."""
        return f"{scope_prefix(self.name)}/{part}/"

    async def start(self) -> Handle:
        """Start the run."""
        return await self.running.start(tools=["letters", "echo", "read_artifact"], run_id=self.name)

    async def paused(self, handle: Handle) -> str:
        """Wait until the run is paused, and return why."""
        return (await self.running.until(handle, lambda state: state.phase == "paused", "the run is paused")).paused

    async def mended(self, handle: Handle) -> RunResult:
        """Heal the store, resume, and return the result: everything that the journal names is there, and right."""
        self.store.heal()
        await handle.signal("resume", {"by": "ana"})
        return await self.ended(handle)

    async def ended(self, handle: Handle) -> RunResult:
        """Return the result of a run that completes."""
        result = await self.running.result(handle)
        assert result.outcome == "completed"
        await self.assert_every_reference_holds(result)
        return result

    async def assert_every_reference_holds(self, result: RunResult) -> None:
        """Read the journal and each artifact that it names, by their hashes, from the store itself."""
        assert result.head is not None
        storage = self.running.storage()
        entries = await storage.journal(result.scope).entries(result.head)
        artifacts = storage.artifacts(result.scope)
        for ref in artifacts_of(entries):
            path = self.running.settings.data_dir / f"check-{uuid4().hex}"
            await artifacts.download(ref, path)
            path.unlink()


@pytest.fixture
async def broken(client: Client, tested: Settings, blobs: S3BlobStore, tmp_path: Path) -> AsyncIterator[Broken]:
    """A worker with empty caches; the test gives its model the replies."""
    store, model = BrokenBlobStore(blobs), FakeModel([])
    async with broken_worker(client, tested, store, model, tmp_path) as worker:
        yield worker
        store.heal()  # nothing waits for it when the worker stops


@asynccontextmanager
async def broken_worker(
    client: Client, settings: Settings, store: BrokenBlobStore, model: FakeModel, folder: Path
) -> AsyncIterator[Broken]:
    """Run a worker whose caches are empty and stay so."""
    cold = settings.model_copy(update={"data_dir": folder, "journal_cache_bytes": COLD_BYTES})
    async with worker_for(client, cold, store, model) as running:
        yield Broken(Running(client, running.settings, store.inner), store, model, f"broken-{uuid4().hex[:8]}")


def reads_the_handle(request: ChatRequest) -> ChatReply:
    """A reply that reads the artifact that the last tool result names."""
    found = re.search(r"a:[0-9a-f]{12}", last_result(request).text)
    assert found is not None
    return calls(("read_artifact", f'{{"handle": "{found[0]}", "lines": 5}}'))


def last_result(request: ChatRequest) -> ToolMessage:
    """The tool result that ends a prompt."""
    message = request.messages[-1]
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize("fault", [*DAMAGES, "refused"])
async def test_a_damaged_journal_never_reaches_the_model(broken: Broken, fault: Fault) -> None:
    """The run pauses and names the node; nothing was asked; it goes on when the node can be read."""
    broken.model.replies = [calls(("echo", '{"text": "seven"}')), says("Done.")]
    broken.store.fail("get", fault, prefix=broken.under("journal"))
    handle = await broken.start()
    assert re.search(r"journal node 1 \([0-9a-f]{12}\)|/journal/[0-9a-f]{64}", await broken.paused(handle))
    assert broken.model.requests == []
    result = await broken.mended(handle)
    assert (result.turns, len(broken.model.requests)) == (2, 2)


@pytest.mark.parametrize("fault", [*DAMAGES, "refused"])
async def test_a_damaged_artifact_is_never_read_by_a_tool(broken: Broken, fault: Fault) -> None:
    """The run pauses and names the artifact; the model sees its true bytes afterwards, and no others."""
    broken.model.replies = [BIG, reads_the_handle, says("Done.")]
    broken.store.fail("stream", fault, prefix=broken.under("artifacts"))
    handle = await broken.start()
    assert re.search(r"a:[0-9a-f]{12}|/artifacts/[0-9a-f]{64}", await broken.paused(handle))
    assert len(broken.model.requests) == 2
    await broken.mended(handle)
    shown = last_result(broken.model.requests[2])
    assert not shown.failed
    assert "x" * 99 in shown.text


@pytest.mark.parametrize("fault", [*DAMAGES, "refused"])
async def test_damaged_words_of_its_own_are_never_sent_to_the_model(broken: Broken, fault: Fault) -> None:
    """A long reply is an artifact, and part of the next prompt: whole and right, or not at all."""
    long = "word " * 4000
    broken.model.replies = [calls(("echo", '{"text": "seven"}'), text=long), says("Done.")]
    broken.store.fail("get", fault, prefix=broken.under("artifacts"))
    handle = await broken.start()
    assert re.search(r"a:[0-9a-f]{12}|/artifacts/[0-9a-f]{64}", await broken.paused(handle))
    assert len(broken.model.requests) == 1
    await broken.mended(handle)
    assert broken.model.requests[1].messages[1].model_dump()["text"] == long


@pytest.mark.parametrize(("operation", "part"), [("put", "journal"), ("put", "artifacts"), ("put", "runs")])
async def test_a_store_that_takes_no_more_pauses_the_run_and_loses_nothing(
    broken: Broken, operation: Operation, part: str
) -> None:
    """At the opening, at a tool's output and at the close: no reference to what was not written."""
    broken.model.replies = [BIG, says("Done.")]
    broken.store.fail(operation, "refused", prefix=broken.under(part))
    handle = await broken.start()
    why = await broken.paused(handle)
    assert f"/{part}/" in why
    state = await broken.running.state(handle)
    assert not any("a:" in line for line in state.recent if part == "artifacts")
    result = await broken.mended(handle)
    assert (result.turns, len(broken.model.requests)) == (2, 2)


async def test_a_store_that_takes_no_more_in_mid_run_pauses_it_at_most(broken: Broken) -> None:
    """The store is full when a reply is to be written: the run goes on with all that it had."""

    def fills_the_store(_: ChatRequest) -> ChatReply:
        if not broken.store.struck:
            broken.store.fail("put", "refused", times=1, prefix=broken.under("journal"))
        return calls(("echo", '{"text": "b"}'), text="b" * 4000)

    first = calls(("echo", f'{{"text": "{"a" * 3000}"}}'), text="a" * 4000)
    broken.model.replies = [first, fills_the_store, says("Done.")]
    handle = await broken.start()

    async def has_ended() -> bool:
        if (await broken.running.state(handle)).phase == "paused":
            await handle.signal("resume")
        return (await handle.describe()).close_time is not None

    await wait_until(has_ended, timedelta(seconds=60), "the run has ended")
    result = await broken.ended(handle)
    assert broken.store.struck == {"put": 1}
    assert (result.turns, result.calls) == (3, {"echo": 2})


@pytest.mark.parametrize("fault", ["truncated", "altered"])
async def test_a_store_that_lied_is_found_out_when_it_is_read(broken: Broken, blobs: S3BlobStore, fault: Fault) -> None:
    """An artifact that was acknowledged, and is not what was sent: named, until a backup is brought back."""
    broken.model.replies = [BIG, reads_the_handle, says("Done.")]
    broken.store.fail("put", fault, prefix=broken.under("artifacts"))
    handle = await broken.start()
    assert re.search(r"artifact a:[0-9a-f]{12}", await broken.paused(handle))
    text = str(letters(10_000)).encode()
    artifacts = Artifacts(BrokenHead(blobs), broken.name)
    await artifacts.store_bytes(text, "letters.txt", "text/plain")
    await broken.mended(handle)
    assert "x" * 99 in last_result(broken.model.requests[2]).text


async def test_an_artifact_that_was_never_stored_is_told_to_the_model(broken: Broken) -> None:
    """A handle that leads to nothing is a failed result, never an empty or another text."""
    broken.model.replies = [BIG, reads_the_handle, says("Done.")]
    broken.store.fail("put", "missing", prefix=broken.under("artifacts"))
    result = await broken.running.result(await broken.start())
    told = last_result(broken.model.requests[2])
    assert result.outcome == "completed"
    assert told.failed
    assert re.search(r"no artifact a:[0-9a-f]{12}", told.text)


class BrokenHead(BrokenBlobStore):
    """A store that never knows what it has: a write always writes."""

    def __init__(self, inner: S3BlobStore) -> None:
        super().__init__(inner)
        self.fail("head", "missing")


@pytest.mark.parametrize("fault", DAMAGES)
async def test_a_stale_answer_of_the_store_does_no_harm(broken: Broken, fault: Fault) -> None:
    """What is there is said to be missing, shorter, or without its name: it is written again at most."""
    broken.model.replies = [BIG, BIG, reads_the_handle, says("Done.")]
    broken.store.fail("head", fault)
    result = await broken.ended(await broken.start())
    assert (result.turns, result.calls) == (4, {"letters": 2, "read_artifact": 1})
    assert "x" * 99 in last_result(broken.model.requests[3]).text


async def test_a_short_outage_costs_no_pause_and_no_attempt(broken: Broken) -> None:
    """Every operation fails three times: all are tried again where they stand."""
    broken.model.replies = [BIG, reads_the_handle, says("Done.")]
    operations: tuple[Operation, ...] = ("put", "put_file", "get", "stream", "head", "list")
    for operation in operations:
        broken.store.fail(operation, "unavailable", times=3)
    handle = await broken.start()
    result = await broken.ended(handle)
    assert set(broken.store.struck.values()) == {3}
    assert result.head is not None
    entries = await broken.running.storage().journal(result.scope).entries(result.head)
    assert [entry.attempts for entry in entries if isinstance(entry, ToolFinished)] == [1, 1]
    assert not any(entry.kind == "paused" for entry in entries)


async def test_a_slow_store_is_waited_for(broken: Broken) -> None:
    """An operation that takes longer than the heartbeat timeout is no dead worker: nothing is started twice."""
    broken.model.replies = [BIG, says("Done.")]
    broken.store.fail("put", "slow", prefix=broken.under("artifacts"))
    handle = await broken.start()

    async def outlived_its_heartbeat_timeout() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        alive = [one.last_heartbeat_time.ToDatetime() - one.last_started_time.ToDatetime() for one in pending]
        return any(time > broken.running.settings.heartbeat_timeout for time in alive)

    await wait_until(outlived_its_heartbeat_timeout, timedelta(seconds=60), "the tool lives on")
    broken.store.heal()
    result = await broken.ended(handle)
    assert broken.store.struck["put"] == 1
    assert result.calls == {"letters": 1}


@pytest.mark.skipif(not SOAK, reason="waits until all patience is at its end, some minutes: make soak")
@pytest.mark.timeout(1200)
async def test_a_long_outage_pauses_the_run_with_the_object_and_the_cure(broken: Broken) -> None:
    """When every attempt is used up, a person is told which object it is about."""
    broken.model.replies = [BIG, says("Done.")]
    broken.store.fail("put", "unavailable", prefix=broken.under("artifacts"))
    handle = await broken.start()

    async def is_paused() -> bool:
        return (await broken.running.state(handle)).phase == "paused"

    await wait_until(is_paused, timedelta(minutes=8), "the run is paused")
    assert "/artifacts/" in (await broken.running.state(handle)).paused
    await broken.mended(handle)


async def test_kill_9_of_the_store_in_mid_write_of_a_large_artifact_leaves_no_half_of_it(
    tested: Settings, tmp_path: Path
) -> None:
    """The write is done again when the store is back; the artifact is whole, and has the hash that names it."""
    megabytes = 150
    model = FakeModel([calls(("large_file", f'{{"megabytes": {megabytes}}}')), says("Done.")])
    async with LocalStack(tmp_path / "stack", flush_interval=None) as own:
        settings = own.settings().model_copy(update={"tools": tested.tools, "data_dir": tmp_path / "worker"})
        store = S3BlobStore.from_settings(settings)
        before = stored_bytes(own)
        async with worker_for(await connect(settings), settings, store, model) as running:
            handle = await running.start(tools=["large_file"])
            await wait_until(lambda: stored_bytes(own) > before + 24 * MEBIBYTE, description="the write is under way")
            await own.kill("s3")
            await own.ready()
            result = await running.result(handle)
        (ref,) = result.artifacts
        assert (result.outcome, ref.size_bytes) == ("completed", megabytes * MEBIBYTE)
        await running.storage().artifacts(result.scope).download(ref, tmp_path / "whole")
        await store.close()
    assert (tmp_path / "whole").stat().st_size == ref.size_bytes


def stored_bytes(stack: LocalStack) -> int:
    """How much the store has on disk."""
    return sum(path.stat().st_blocks * 512 for path in (stack.data_dir / "s3").rglob("*.dat"))


async def test_what_the_store_has_lost_is_an_error_that_names_it(broken: Broken, blobs: S3BlobStore) -> None:
    """Also for whoever reads a closed run."""
    broken.model.replies = [BIG, says("Done.")]
    result = await broken.ended(await broken.start())
    assert result.head is not None
    entries = await broken.running.storage().journal(result.scope).entries(result.head)
    (ref,) = artifacts_of(entries)
    lossy = BrokenBlobStore(blobs)
    lossy.fail("stream", "missing")
    with pytest.raises(BlobMissing, match=artifact_key(result.scope, ref.sha256)):
        await Artifacts(lossy, result.scope).download(ref, broken.running.settings.data_dir / "lost")
    assert not (broken.running.settings.data_dir / "lost").exists()
