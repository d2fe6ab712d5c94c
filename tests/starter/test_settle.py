"""What a person says of a call whose end nobody saw, from the command line."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from core.errors import InputError
from infra.acts import make_act, with_settlement
from infra.decisions import ActRefused, decide
from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.starter.commands import Starter


@pytest.fixture
async def doubtful(client: Client, own: Settings, blobs: S3BlobStore) -> AsyncIterator[Running]:
    """A worker whose model calls a write that loses its connection."""
    async with worker_for(
        client, own, blobs, FakeModel([calls(("transfer", '{"cents": 5}')), says("Done.")])
    ) as running:
        yield running


async def waiting(running: Running) -> str:
    """Start a run that waits to be settled, and return its id."""
    handle = await running.start(tools=["transfer"])
    await running.until(handle, lambda state: len(state.pending) > 0, "the call waits to be settled")
    return handle.id


async def test_a_person_reads_what_happened_and_says_what_became_of_it(doubtful: Running, starter: Starter) -> None:
    """The state shows the three ways out; approving is none of them."""
    run = await waiting(doubtful)
    shown = await starter("state", run)
    assert "waits to be settled: transfer (t1c1)" in shown.out
    assert "It may or may not have taken effect: it was started and did not report its end" in shown.out
    for way in ("--done", "--run-again", "--give-up"):
        assert f"python starter.py settle {run} t1c1 {way}" in shown.out
    refused = await starter("approve", run)
    assert (refused.code, "send settle" in refused.err) == (4, True)
    settled = await starter("settle", run, "--done", "--result", "receipt 7", "--by", "Ann", "--json")
    assert (settled.code, settled.json()["said"]) == (0, "settled t1c1")
    assert (await starter("result", run)).code == 0
    journal = await starter("journal", run)
    assert "t1c1 took effect, says Ann" in journal.out
    assert "receipt 7" in journal.out


async def test_exactly_one_thing_is_said_of_a_call(doubtful: Running, starter: Starter, runs: Runs) -> None:
    """Neither none nor two, a result only of what was done, and only of a call that waits for it."""
    run = await waiting(doubtful)
    for wrong in ((), ("--done", "--give-up")):
        told = await starter("settle", run, *wrong)
        assert (told.code, "exactly one of --done, --run-again and --give-up" in told.err) == (2, True)
    told = await starter("settle", run, "--give-up", "--result", "x")
    assert (told.code, "leave --result out" in told.err) == (2, True)
    with pytest.raises(ActRefused, match="'t9c9' does not wait to be settled; waiting: t1c1"):
        await decide(runs, run, "settle", with_settlement(make_act(call="t9c9"), "done", ""))
    with pytest.raises(InputError, match="make it shorter"):
        with_settlement(make_act(), "done", "x" * 5000)
    given_up = await decide(runs, run, "settle", with_settlement(make_act(), "give_up", ""))
    assert given_up.said == "settled t1c1"
