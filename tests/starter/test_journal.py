"""A run's past from the command line: read, proven, replayed from the blob store alone; followed while it goes on."""

import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from temporalio.client import Client

from core.chat import ChatReply
from core.entries import Entry, Replied
from core.prompt import configuration_of
from core.runs import RunResult
from core.scopes import artifact_key, manifest_key, node_key
from core.storage import Storage
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.starter.commands import Starter

NOWHERE = "127.0.0.1:9"
LONG = "A long answer. " * 1000


def replies() -> list[ChatReply]:
    """Publish twice, each time with a person's consent, and give a long answer."""
    publish = [calls(("publish", json.dumps({"title": f"No. {n}", "text": "x" * 9000})), text="So.") for n in (1, 2)]
    return [*publish, says(LONG)]


@pytest.fixture
async def publishing(client: Client, own: Settings, blobs: S3BlobStore) -> AsyncIterator[Running]:
    """A worker whose model asks to publish twice."""
    async with worker_for(client, own, blobs, FakeModel(replies())) as running:
        yield running


@pytest.fixture
async def closed(publishing: Running) -> RunResult:
    """A run that has ended: two decisions, an answer that is an artifact; its scope is its id."""
    handle = await publishing.start(tools=["publish"])
    for call in ("t1c1", "t2c1"):
        await publishing.until(handle, lambda state: bool(state.pending), f"{call} waits")
        await handle.signal("approve", {"id": call, "by": "ana", "reason": "why not"})
        await publishing.until(handle, lambda state: not state.pending, f"{call} was decided")
    return await publishing.result(handle)


@pytest.fixture
def alone(starter: Starter) -> Starter:
    """A starter without Temporal."""
    return starter.having(TEMPORAL_ADDRESS=NOWHERE)


async def damage(blobs: S3BlobStore, key: str) -> None:
    """Change one byte of an object, as an intruder with the keys of the store can."""
    body = bytearray(await blobs.get(key))
    body[len(body) // 2] ^= 1
    blobs._client.put_object(Bucket=blobs.bucket, Key=key, Body=bytes(body))


def remove(blobs: S3BlobStore, key: str) -> None:
    """Delete an object."""
    blobs._client.delete_object(Bucket=blobs.bucket, Key=key)


async def test_a_closed_run_is_read_without_temporal(closed: RunResult, alone: Starter) -> None:
    """Time, turn, who, what, cost, decisions with their authors: all from the store."""
    read = await alone("journal", closed.scope)
    assert (read.code, read.err) == (0, "")
    assert "ana: t1c1 approved by ana: why not" in read.out
    assert "calls publish (t1c1): artifact a:" in read.out
    assert "10 tokens in, 5 out" in read.out
    assert "publish: publish done: published No. 2: 9000 characters" in read.out
    document = (await alone("journal", closed.scope, "--json")).json()
    assert document["closed"]
    assert document["head"] == json.loads(closed.model_dump_json())["head"]
    assert [entry["number"] for entry in document["entries"]] == list(range(1, len(document["entries"]) + 1))
    assert document["entries"][-1]["entry"]["kind"] == "closed"


async def test_one_turn_is_read_with_all_that_was_said(closed: RunResult, alone: Starter) -> None:
    """Only that turn; one that is not there is wrong input."""
    second = await alone("journal", closed.scope, "--turn", "2")
    assert "t2c1 approved" in second.out
    assert "│ published No. 2: 9000 characters" in second.out
    assert "t1c1" not in second.out
    missing = await alone("journal", closed.scope, "--turn", "9", "--json")
    assert (missing.code, missing.error()["kind"]) == (2, "InputError")
    assert "turns 0 (the task) to 3" in missing.error()["message"]


async def test_a_run_that_nobody_knows_is_not_found(starter: Starter, alone: Starter) -> None:
    """4 when Temporal says so, 3 when it can't be asked."""
    assert (await starter("journal", "nobody")).code == 4
    down = await alone("journal", "nobody")
    assert (down.code, NOWHERE in down.err) == (3, True)
    assert (await starter("diff", "nobody", "nobody")).code == 4
    assert (await starter("artifacts", "nobody")).code == 4
    assert (await starter("fork", "nobody", "--at-turn", "1")).code == 4


async def test_what_is_whole_is_proven(closed: RunResult, alone: Starter) -> None:
    """Every node and every artifact is hashed anew; the long answer and the long arguments are among them."""
    proven = await alone("journal", closed.scope, "--verify", "--json")
    assert proven.code == 0
    proof = proven.json()
    assert (proof["faults"], proof["artifacts"] >= 3, proof["nodes"] >= 1) == ([], True, True)
    assert "all is as it was written" in (await alone("journal", closed.scope, "--verify")).out


async def test_an_altered_node_is_named(closed: RunResult, alone: Starter, blobs: S3BlobStore) -> None:
    """Nothing of a damaged journal is shown as if it were whole."""
    assert closed.head is not None
    await damage(blobs, node_key(closed.scope, closed.head.sha256))
    proven = await alone("journal", closed.scope, "--verify")
    assert proven.code == 1
    assert f"altered: journal node {closed.head.number} ({closed.head.sha256[:12]})" in proven.out
    read = await alone("journal", closed.scope, "--json")
    assert (read.code, read.out, read.error()["kind"]) == (1, "", "BlobCorrupt")


async def test_a_missing_node_is_named(closed: RunResult, alone: Starter, blobs: S3BlobStore) -> None:
    """A hole in the chain is no shorter conversation."""
    assert closed.head is not None
    remove(blobs, node_key(closed.scope, closed.head.sha256))
    proven = await alone("journal", closed.scope, "--verify", "--json")
    assert proven.code == 1
    assert [fault["kind"] for fault in proven.json()["faults"]] == ["missing"]
    assert (await alone("replay", closed.scope)).code == 1


async def test_missing_and_altered_artifacts_are_named(closed: RunResult, alone: Starter, blobs: S3BlobStore) -> None:
    """All faults are told, not only the first; getting such an artifact fails and writes nothing."""
    entries = await _entries(closed, blobs)
    arguments = next(entry.calls[0].arguments.artifact for entry in entries if isinstance(entry, Replied))
    answer = closed.text.artifact
    assert arguments is not None
    assert answer is not None
    remove(blobs, artifact_key(closed.scope, arguments.sha256))
    await damage(blobs, artifact_key(closed.scope, answer.sha256))
    proven = await alone("journal", closed.scope, "--verify", "--json")
    assert proven.code == 1
    assert {(fault["kind"], fault["what"]) for fault in proven.json()["faults"]} == {
        ("missing", arguments.described()),
        ("altered", answer.described()),
    }
    got = await alone("artifact", "get", closed.scope, answer.handle)
    assert (got.code, got.out, "restore the object" in got.err) == (1, "", True)


async def test_a_manifest_that_names_an_older_head_is_caught(
    closed: RunResult, alone: Starter, blobs: S3BlobStore
) -> None:
    """No hash fixes the manifest, but a closed run's journal ends closed."""
    run_id = configuration_of(await _entries(closed, blobs)).run.run_id
    manifest = await Storage(blobs).manifest(closed.scope, run_id)
    earlier = await Storage(blobs).journal(closed.scope).rewound(manifest.head, 1)
    forged = manifest.model_copy(update={"head": earlier})
    key = manifest_key(closed.scope, run_id)
    blobs._client.put_object(Bucket=blobs.bucket, Key=key, Body=forged.model_dump_json().encode())
    proven = await alone("journal", closed.scope, "--verify")
    assert proven.code == 1
    assert "inconsistent: manifest" in proven.out


async def test_a_replay_shows_the_state_after_each_entry(closed: RunResult, alone: Starter) -> None:
    """One line an entry, one JSON object a line; the last state is the run's."""
    steps = (await alone("replay", closed.scope, "--json")).lines()
    assert [step["number"] for step in steps] == list(range(1, len(steps) + 1))
    asked = next(step for step in steps if step["entry"]["kind"] == "approval_requested")
    assert (asked["state"]["phase"], asked["state"]["open_calls"]) == (
        "awaiting_approval",
        {"t1c1": "awaiting_approval"},
    )
    assert (steps[-1]["state"]["phase"], steps[-1]["state"]["turn"]) == ("completed", 3)
    assert "awaiting approval · turn 1" in (await alone("replay", closed.scope)).out


async def test_an_open_run_is_read_with_what_is_not_yet_written(
    publishing: Running, starter: Starter, alone: Starter
) -> None:
    """The run itself is asked; when nobody answers, the store tells what it has, and that this may not be all."""
    handle = await publishing.start(tools=["publish"])
    await publishing.until(handle, lambda state: bool(state.pending), "the call waits")
    document = (await starter("journal", handle.id, "--json")).json()
    assert (document["closed"], document["entries"][-1]["entry"]["kind"]) == (False, "approval_requested")
    down = await alone("journal", handle.id)
    assert down.code == 0
    assert "started: tested" in down.out
    assert "approval" not in down.out
    assert "the newest may be missing" in down.err
    assert (await starter("journal", handle.id, "--verify")).code == 0
    await handle.terminate()
    ended = (await starter("journal", handle.id, "--json")).json()
    assert ended["entries"][0]["entry"]["kind"] == "started"


async def test_a_run_is_followed_to_its_end(publishing: Running, starter: Starter) -> None:
    """Each entry comes once, in order, as soon as it is there; the exit code is that of the run."""
    handle = await publishing.start(tools=["publish"])
    process = await starter.begin("journal", handle.id, "--follow", "--json")
    assert process.stdout is not None
    seen = []
    async for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["entry"]["kind"] == "approval_requested":
            await handle.signal("approve", {"id": seen[-1]["entry"]["call_id"], "by": "ana"})
    assert await process.wait() == 0
    await process.communicate()
    document = (await starter("journal", handle.id, "--json")).json()
    assert [one["entry"] for one in seen] == [one["entry"] for one in document["entries"]]
    assert [one["number"] for one in seen] == list(range(1, len(seen) + 1))


async def test_several_runs_of_one_id_are_told_apart(publishing: Running, starter: Starter, alone: Starter) -> None:
    """The newest is read; an earlier one by its run id, and an unknown run id is no run."""
    name = f"again-{uuid4().hex[:8]}"
    run_ids = []
    for _ in range(2):
        handle = await publishing.start(tools=["publish"], run_id=name)
        await publishing.until(handle, lambda state: bool(state.pending), "the call waits")
        run_ids.append(handle.first_execution_run_id)
        await handle.cancel()
        await starter("result", name)
    for options, run_id in ([], run_ids[1]), (["--run-id", str(run_ids[0])], run_ids[0]):
        assert (await alone("journal", name, "--json", *options)).json()["run"]["run_id"] == run_id
    assert (await starter("journal", name, "--run-id", "none")).code == 4


async def _entries(closed: RunResult, blobs: S3BlobStore) -> list[Entry]:
    assert closed.head is not None
    return await Storage(blobs).journal(closed.scope).entries(closed.head)
