"""Forks on real servers: a new run goes on from a turn of another one; nothing is copied, no decision inherited."""

from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from core.agents import Limits
from core.content import INLINE_BYTES
from core.entries import Entry, Forked, Messaged, Replied
from core.errors import InputError
from core.journal import Head, parent_number
from core.ports import BlobStore
from core.prompt import configuration_of
from core.runs import RunResult
from core.scopes import node_key, signpost_key
from core.storage import Storage
from core.view import StateView
from infra.forks import ForkWish, launch_fork, make_fork_order
from infra.journals import entries_of, find_journal
from infra.runs import RunNotFound, Runs
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, says, worker_for
from workflows.agent import Agent

Handle = WorkflowHandle[Agent, RunResult]

OTHER = """\
---
name: other
description: Goes on in another way.
tools: [letters]
---
Go on in another way.
"""


def echo(number: int) -> str:
    """Arguments that tell one call from another, long enough that a few of them are a commit."""
    return f'{{"text": "{number} {"x" * 3000}"}}'


def echoes(count: int) -> FakeModel:
    """A model that calls `echo` so often, and then is done."""
    return FakeModel([*(calls(("echo", echo(number))) for number in range(count)), says("Done.")])


async def fork(running: Running, origin: str, wish: ForkWish) -> Handle:
    """Start a fork as the client does."""
    order = make_fork_order(running.settings, origin, wish, by="tests")
    launched = await launch_fork(Runs(running.client), running.settings, order)
    return running.client.get_workflow_handle_for(Agent.run, launched.id)


async def journal(running: Running, run: str) -> list[Entry]:
    """Read a run's journal as the client does."""
    storage = running.storage()
    return await entries_of(storage, await find_journal(running.settings, storage, run))


async def chain(storage: Storage, scope: str, head: Head | None) -> list[str]:
    """Return the hashes of a head's chain, newest first."""
    hashes = []
    while head is not None:
        hashes.append(head.sha256)
        node, _ = await storage.journal(scope).node(head.number, head.sha256)
        head = Head(number=parent_number(node.n), sha256=node.parent) if node.parent else None
    return hashes


async def test_a_fork_of_a_closed_run_goes_on_from_the_middle(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """It has the prefix under the origin's hashes, names its origin, hears the message and shares the artifacts."""
    model = echoes(12)
    async with worker_for(client, tested, blobs, model) as running:
        origin = await running.start(tools=["echo"])
        before = await running.result(origin)
        model.replies = [*model.replies[:8], says("Otherwise.")]
        handle = await fork(running, origin.id, ForkWish(turn=8, message="Do it otherwise."))
        result = await running.result(handle)
        assert (result.outcome, result.text.text, result.turns) == ("completed", "Otherwise.", 9)
        assert (result.scope, result.usage.input_tokens) == (origin.id, 90)
        theirs, ours = await journal(running, origin.id), await journal(running, handle.id)
        forked = next(number for number, entry in enumerate(ours) if isinstance(entry, Forked))
        assert ours[:forked] == theirs[:forked]
        assert [entry.turn for entry in ours[:forked] if isinstance(entry, Replied)] == list(range(1, 9))
        own = configuration_of(ours)
        assert isinstance(own, Forked)
        assert (own.origin.workflow_id, own.origin_turn, own.run.workflow_id) == (origin.id, 8, handle.id)
        assert "Do it otherwise." in model.requests[-1].messages[-1].text
        shared = set(await chain(running.storage(), result.scope, result.head))
        nodes = {info.key.rsplit("/", 1)[-1] for info in await blobs.list(node_key(origin.id, ""))}
        assert shared <= nodes
        assert before.head is not None
        found = await find_journal(running.settings, running.storage(), handle.id)
        assert found.run.scope == origin.id
        assert await blobs.head(signpost_key(handle.id, own.run.run_id)) is not None


async def test_a_fork_copies_no_node(client: Client, tested: Settings, blobs: BlobStore) -> None:
    """Commits that the origin wrote are the fork's, too: only what comes after the cut is written."""
    async with worker_for(client, tested, blobs, echoes(12)) as running:
        origin = await running.start(tools=["echo"])
        before = await running.result(origin)
        assert before.head is not None
        assert before.head.number >= 4
        written = {info.key for info in await blobs.list(node_key(origin.id, ""))}
        handle = await fork(running, origin.id, ForkWish(turn=11))
        result = await running.result(handle)
        theirs = await running.storage().journal(origin.id).commits(before.head)
        assert result.head is not None
        ours = await running.storage().journal(origin.id).commits(result.head)
        common = next(number for number, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1])
        assert common >= before.head.number - 2
        new = {info.key for info in await blobs.list(node_key(origin.id, ""))} - written
        assert len(new) == len(ours) - common


async def test_a_fork_of_a_waiting_run_leaves_it_waiting(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """What is not yet in the journal goes along; what the origin waits for is the origin's alone."""
    note = calls(("note", f'{{"path": "{tmp_path}/notes", "text": "a"}}'))
    model = FakeModel([calls(("echo", '{"text": "a"}')), note, says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        origin = await running.start(tools=["echo", "note"], approval={"note": "ask"})
        await running.until(origin, lambda state: len(state.pending) == 1, "the call waits")
        model.replies = [*model.replies[:2], says("Never mind.")]
        after = await fork(running, origin.id, ForkWish(turn=2, message="Leave it."))
        assert (await running.result(after)).text.text == "Never mind."
        assert not (tmp_path / "notes").exists()
        assert len((await running.state(origin)).pending) == 1
        model.replies = [*model.replies[:1], says("At once.")]
        earlier = await fork(running, origin.id, ForkWish(turn=1))
        assert (await running.result(earlier)).text.text == "At once."
        model.replies = [*model.replies[:1], note, says("Done.")]
        await origin.signal("approve", {"by": "ana"})
        assert (await running.result(origin)).calls == {"echo": 1, "note": 1}
        assert (tmp_path / "notes").read_text() == "a\n"


async def test_decisions_are_not_inherited(client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path) -> None:
    """What was approved once in the origin is asked again in the fork, and the origin's grants end with it."""
    note = calls(("note", f'{{"path": "{tmp_path}/notes", "text": "a"}}'))
    async with worker_for(client, tested, blobs, FakeModel([note, note, says("Done.")])) as running:
        origin = await running.start(tools=["note"], approval={"note": "ask"})
        for call in ("t1c1", "t2c1"):
            await running.until(origin, partial(_waits_for, call), "the call waits")
            await origin.signal("approve", {"id": call, "by": "ana"})
        await running.result(origin)
        handle = await fork(running, origin.id, ForkWish(turn=1))
        state = await running.until(handle, lambda state: bool(state.pending), "the fork's call waits")
        assert [call.id for call in state.pending] == ["t2c1"]
        assert (tmp_path / "notes").read_text() == "a\na\n"
        await handle.signal("reject", {"by": "ben", "reason": "twice is enough"})
        assert (await running.result(handle)).outcome == "completed"
        assert (tmp_path / "notes").read_text() == "a\na\n"


def _waits_for(call: str, state: StateView) -> bool:
    return call in {pending.id for pending in state.pending}


async def test_what_is_left_of_the_budget_goes_along(client: Client, tested: Settings, blobs: BlobStore) -> None:
    """The prefix counts: two of three turns are used, so the fork has one, then it pauses and asks."""
    model = echoes(9)
    async with worker_for(client, tested, blobs, model) as running:
        origin = await running.start(tools=["echo"], limits=Limits(turns=3))
        await running.until(origin, lambda state: bool(state.paused), "the origin is at its limit")
        handle = await fork(running, origin.id, ForkWish(turn=2))
        state = await running.until(handle, lambda state: bool(state.paused), "the fork is at its limit")
        assert (state.turn, "limit of 3 turns" in state.paused) == (3, True)
        for each in (origin, handle):
            await each.cancel()


async def test_another_agent_goes_on_with_its_own_tools(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """Instructions, tools and model are the other agent's, the conversation is the origin's."""
    (tmp_path / "other.md").write_text(OTHER, encoding="utf-8")
    model = FakeModel([calls(("echo", '{"text": "a"}')), calls(("letters", '{"count": 9}')), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        origin = await running.start(tools=["echo"])
        first = await running.result(origin)
        assert first.calls == {"echo": 1}
        script = tmp_path / "x.yaml"
        script.write_text("replies: []")
        wish = ForkWish(turn=1, agent=str(tmp_path / "other.md"), model=f"script:{script}")
        handle = await fork(running, origin.id, wish)
        result = await running.result(handle)
        assert (result.turns, result.model) == (3, f"script:{script}")
        assert "Go on in another way." in (model.requests[-1].instructions or "")
        assert [tool.name for tool in model.requests[-1].tools] == ["letters"]
        own = configuration_of(await journal(running, handle.id))
        assert (own.agent.name, [tool.policy.name for tool in own.tools]) == ("other", ["letters"])


async def test_a_fork_of_a_fork_has_both_origins_in_its_journal(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """All live in the scope of the first one, and each is found by its own id; long messages are artifacts there."""
    message = "Think again. " * INLINE_BYTES
    async with worker_for(client, tested, blobs, echoes(3)) as running:
        origin = await running.start(tools=["echo"])
        await running.result(origin)
        first = await fork(running, origin.id, ForkWish(turn=2, message=message))
        await running.result(first)
        second = await fork(running, first.id, ForkWish(turn=3))
        result = await running.result(second)
        assert (result.scope, result.turns) == (origin.id, 4)
        entries = await journal(running, second.id)
        assert [e.origin.workflow_id for e in entries if isinstance(e, Forked)] == [origin.id, first.id]
        told = next(entry for entry in entries if isinstance(entry, Messaged))
        assert told.text.artifact is not None
        assert await running.storage().artifacts(result.scope).read_text(told.text) == message


async def test_a_turn_or_a_run_that_is_not_there_starts_nothing(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """Both are told before anything is started."""
    async with worker_for(client, tested, blobs, echoes(1)) as running:
        origin = await running.start(tools=["echo"])
        await running.result(origin)
        run = f"fork-{uuid4().hex[:8]}"
        with pytest.raises(InputError, match=r"the run has no turn 7: it has turns 0 \(the task alone\) to 2"):
            await fork(running, origin.id, ForkWish(turn=7, id=run))
        with pytest.raises(RunNotFound, match="there is no run 'nobody'"):
            await fork(running, "nobody", ForkWish(turn=0, id=run))
        with pytest.raises(RunNotFound):
            await Runs(client).info(run)
