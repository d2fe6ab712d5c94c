"""What people do to a run from the client, and what they are told came of it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from core.asking import Asking
from core.errors import InputError
from core.runs import RunResult
from infra.acts import make_act
from infra.decisions import ActRefused, decide, stop
from infra.runs import NoWorker, RunNotFound, Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.starter.commands import Starter
from worker import build_worker

TWO_CALLS = calls(
    ("publish", '{"title": "One", "text": "first\\nsecond"}'), ("publish", '{"title": "Two", "text": "t"}')
)
ONE_CALL = calls(("publish", '{"title": "One", "text": "t"}'))


@pytest.fixture
async def asking(client: Client, own: Settings, blobs: S3BlobStore) -> AsyncIterator[Running]:
    """A worker whose model calls a tool twice in its first turn, and then is done."""
    async with worker_for(client, own, blobs, FakeModel([TWO_CALLS, says("Done.")])) as running:
        yield running


async def waiting(running: Running) -> str:
    """Start a run that waits for approval, and return its id."""
    handle = await running.start(tools=["publish"])
    await running.until(handle, lambda state: len(state.pending) > 0, "a call waits")
    return handle.id


async def test_approve_and_reject_say_what_they_did(asking: Running, runs: Runs) -> None:
    """Each decides the call that it names, and the run goes on with both."""
    run = await waiting(asking)
    approved = await decide(runs, run, "approve", make_act(call="t1c1", by="Ann"))
    assert (approved.status, approved.said) == ("applied", "approved t1c1")
    rejected = await decide(runs, run, "reject", make_act(by="Ben", reason="not now"))
    assert (rejected.status, rejected.said) == ("applied", "rejected t1c2")
    result = await asking.result(asking.client.get_workflow_handle(run, result_type=RunResult))
    assert result.calls == {"publish": 1}


async def test_a_refusal_is_told_with_its_reason(asking: Running, runs: Runs) -> None:
    """What does not wait can't be approved, a run that runs can't be resumed, and two calls need a name."""
    run = await waiting(asking)
    with pytest.raises(ActRefused, match="approve was refused: 't9c9' does not wait for approval; waiting: t1c1, t1c2"):
        await decide(runs, run, "approve", make_act(call="t9c9"))
    with pytest.raises(ActRefused, match="several calls wait: name one"):
        await decide(runs, run, "reject", make_act(reason="why"))
    with pytest.raises(ActRefused, match="resume was refused: the run is not paused"):
        await decide(runs, run, "resume", make_act())
    assert len((await runs.state(run)).pending) == 2
    await stop(runs, run)


async def test_a_decision_without_a_worker_is_kept_and_applied_later(
    client: Client, own: Settings, blobs: S3BlobStore, runs: Runs
) -> None:
    """The signal waits on the server; a query does not hang meanwhile, and the next worker applies the decision."""
    model = FakeModel([ONE_CALL, says("Done.")])
    async with worker_for(client, own, blobs, model) as running:
        run = await waiting(running)
    with pytest.raises(NoWorker, match="make up"):
        await runs.progress(run)
    decision = await decide(runs, run, "approve", make_act())
    assert decision.status == "sent"
    assert "no worker is running" in decision.said
    async with build_worker(client, running.settings, blobs, model):
        result = await client.get_workflow_handle(run, result_type=RunResult).result()
    assert result.calls == {"publish": 1}


async def test_a_closed_run_says_how_it_ended(asking: Running, runs: Runs) -> None:
    """Nothing can be decided any more, and nothing is cancelled twice."""
    run = await waiting(asking)
    stopped = await stop(runs, run)
    assert stopped.said == f"{run} is cancelled"
    with pytest.raises(ActRefused, match="has ended, cancelled"):
        await decide(runs, run, "approve", make_act())
    with pytest.raises(ActRefused, match="has ended, cancelled"):
        await stop(runs, run)


async def test_no_such_run_is_told_as_such(runs: Runs) -> None:
    """An id that nobody knows is no error of the server's."""
    with pytest.raises(RunNotFound, match="there is no run 'nobody'"):
        await decide(runs, "nobody", "approve", make_act())


async def test_the_commands_decide_and_their_exit_codes_tell(asking: Running, starter: Starter) -> None:
    """`state` shows the exact arguments and the command to type; `approve`, `reject` and `cancel` do what they say."""
    run = await waiting(asking)
    shown = await starter("state", run)
    assert f"python starter.py approve {run} t1c1" in shown.out
    assert "  text:\n  │ first\n  │ second\n" in shown.out
    approved = await starter("approve", run, "t1c1", "--json")
    assert (approved.code, approved.json()["said"]) == (0, "approved t1c1")
    refused = await starter("approve", run, "t1c1", "--json")
    assert (refused.code, refused.out, refused.error()["kind"]) == (4, "", "ActRefused")
    rejected = await starter("reject", run, "--reason", "not now", "--by", "Ben")
    assert (rejected.code, rejected.out) == (0, "rejected t1c2\n")
    assert (await starter("result", run)).out == "Done.\n"
    assert "has ended, completed" in (await starter("cancel", run)).err


def test_an_act_that_is_too_long_is_refused() -> None:
    """Nothing is sent that the run would refuse anyway."""
    with pytest.raises(InputError, match="make it shorter"):
        make_act(reason="x" * 5000)


async def test_a_decision_is_signed_with_the_key_that_was_made(
    asking: Running, starter: Starter, tmp_path: Path
) -> None:
    """`keygen` prints the line for the agent's file; what is not signed is refused, and says how it would count."""
    made = (await starter("keygen", str(tmp_path / "ann.pem"), "--name", "Ann", "--json")).json()
    policy = Asking(keys={made["name"]: made["public_key"]})
    handle = await asking.start(tools=["publish"], approval={"publish": policy})
    await asking.until(handle, lambda state: len(state.pending) == 2, "both wait")
    bare = await starter("approve", handle.id, "t1c1", "--by", "Ann")
    assert (bare.code, "only signed decisions on t1c1 count" in bare.err) == (4, True)
    signed = await starter("approve", handle.id, "t1c1", "--by", "Ann", "--sign-with", made["file"])
    assert (signed.code, signed.out) == (0, "approved t1c1\n")
    await handle.cancel()


async def test_other_arguments_patterns_and_revoking_have_their_commands(
    asking: Running, starter: Starter, tmp_path: Path
) -> None:
    """Long arguments come from a file; what is wrong with any of it is said before anything is sent."""
    run = await waiting(asking)
    for wrong, why in (
        (["--arguments", "{"], "--arguments has no JSON in it"),
        (["--arguments", "[1]"], "must be a JSON object"),
        (["--arguments", "@nowhere.json"], "the file 'nowhere.json' can't be read"),
        (["--arguments", "{}", "--for-run"], "leave --for-run out"),
        (["--only", "title=One"], "add --for-run"),
        (["--for-run", "--only", "title"], "no NAME=VALUE"),
    ):
        refused = await starter("approve", run, "t1c1", *wrong)
        assert (refused.code, why in " ".join(refused.err.split())) == (2, True), refused.err
    bad = await starter("approve", run, "t1c1", "--arguments", '{"title": 5}')
    assert (bad.code, "approve was refused: the other arguments for t1c1" in " ".join(bad.err.split())) == (4, True)
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps({"title": "Other", "text": "x" * 20_000}), encoding="utf-8")
    await starter("pause", run)
    edited = await starter("approve", run, "t1c1", "--arguments", f"@{file}")
    assert (edited.code, edited.out) == (0, "approved t1c1\n"), edited.err
    assert "t1c1 publish, not begun" in (await starter("state", run)).out
    revoked = await starter("revoke", run, "t1c1", "--reason", "wait")
    assert (revoked.code, revoked.out) == (0, "took back the approval of t1c1\n")
    allowed = await starter("approve", run, "t1c2", "--for-run", "--only", "title=Tw*")
    assert (allowed.code, "publish with title=Tw*" in (await starter("state", run)).out) == (0, True)
    both = await starter("revoke", run, "t1c2", "--tool", "publish")
    assert (both.code, "not both" in both.err) == (2, True)
    assert (await starter("revoke", run, "--tool", "publish")).out == "took back the approval of publish\n"
    await stop(Runs(asking.client), run)
