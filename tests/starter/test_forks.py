"""Forks from the command line: started, compared, found by their own ids, and their artifacts listed and fetched."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from core.errors import InputError
from core.runs import RunResult
from infra.forks import ForkWish, make_fork_order
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.starter.commands import Starter

NOWHERE = "127.0.0.1:9"


@pytest.fixture
async def making(client: Client, own: Settings, blobs: S3BlobStore) -> AsyncIterator[Running]:
    """A worker whose model echoes in its first turn, gets a long text in its second, and then is done."""
    settings = own.model_copy(update={"tools": ("tests.starter.tools", "tests.tools")})
    model = FakeModel([calls(("echo", '{"text": "a"}')), calls(("letters", '{"count": 9000}')), says("Done.")])
    async with worker_for(client, settings, blobs, model) as running:
        yield running


@pytest.fixture
async def origin(making: Running) -> RunResult:
    """A closed run of three turns; its scope is its id."""
    return await making.result(await making.start(tools=["echo", "letters"]))


@pytest.fixture
def there(making: Running, starter: Starter) -> Starter:
    """A starter whose runs that worker takes."""
    return starter.having(PERDURE_TASK_QUEUE=making.settings.task_queue)


async def test_a_fork_is_started_watched_and_compared(origin: RunResult, there: Starter) -> None:
    """One command forks, one shows where the two part and what each did; both need no more than the ids."""
    run = f"fork-{uuid4().hex[:8]}"
    forked = await there("fork", origin.scope, "--at-turn", "2", "--message", "Be brief.", "--id", run, "--follow")
    assert (forked.code, forked.out.splitlines()[0]) == (0, f"started {run}")
    assert forked.out.endswith("Done.\n")
    alone = there.having(TEMPORAL_ADDRESS=NOWHERE)
    difference = (await alone("diff", origin.scope, run, "--json")).json()
    assert difference["common"]["entries"] == 5
    assert [entry["kind"] for entry in difference["left"]["entries"]] == ["replied", "closed"]
    assert [entry["kind"] for entry in difference["right"]["entries"]] == ["forked", "messaged", "replied", "closed"]
    shown = (await alone("diff", origin.scope, run)).out
    assert "5 entries in common" in shown
    assert f"── {run}" in shown
    assert "message from" in shown
    journal = (await alone("journal", run)).out
    assert f"in the scope of {origin.scope}" in journal
    assert f"forked from {origin.scope} after its turn 2" in journal
    assert (await alone("journal", run, "--verify")).code == 0
    again = await there("fork", origin.scope, "--at-turn", "2", "--message", "Be brief.", "--id", run, "--json")
    assert again.json()["attached"]


async def test_another_agent_is_named_or_a_file(
    origin: RunResult, there: Starter, making: Running, tmp_path: Path
) -> None:
    """By the name that it has in the agents' folder, or as a file anywhere; model and id may be given, too."""
    file = tmp_path / "brief.md"
    file.write_text("---\nname: brief\ndescription: Is brief.\n---\nBe brief.\n", encoding="utf-8")
    for agent in ("publisher", str(file)):
        forked = await there("fork", origin.scope, "--at-turn", "2", "--agent", agent, "--json")
        run = forked.json()["id"]
        assert run.startswith(Path(agent).stem)
        assert (await there("result", run)).out == "Done.\n"
        entries = (await there("journal", run, "--json")).json()["entries"]
        own = next(one["entry"] for one in entries if one["entry"]["kind"] == "forked")
        assert own["agent"]["name"] == Path(agent).stem


async def test_runs_without_a_common_past_say_so(origin: RunResult, making: Running, starter: Starter) -> None:
    """Two runs of the same agent on the same task are no branches; a run and itself do not differ."""
    other = await making.result(await making.start(tools=["echo", "letters"]))
    compared = await starter("diff", origin.scope, other.scope)
    assert compared.code == 0
    assert "nothing in common" in compared.out
    same = (await starter("diff", origin.scope, origin.scope, "--json")).json()
    assert (same["left"]["entries"], same["right"]["entries"]) == ([], [])


async def test_a_turn_that_is_not_there_starts_nothing(origin: RunResult, there: Starter) -> None:
    """The message names the turns that there are."""
    refused = await there("fork", origin.scope, "--at-turn", "9", "--json")
    assert (refused.code, refused.error()["kind"]) == (2, "InputError")
    assert "turns 0 (the task alone) to 3" in refused.error()["message"]
    assert (await there("fork", origin.scope, "--at-turn", "-1")).code == 2
    assert (await there("fork", origin.scope, "--at-turn", "1", "--agent", "nobody")).code == 2


async def test_artifacts_are_listed_and_fetched_by_the_forks_id_too(
    origin: RunResult, there: Starter, making: Running
) -> None:
    """All of the scope, what each is to the run, without Temporal; a fork's are its origin's."""
    run = f"fork-{uuid4().hex[:8]}"
    await there("fork", origin.scope, "--at-turn", "2", "--id", run, "--follow")
    alone = there.having(TEMPORAL_ADDRESS=NOWHERE)
    listed = (await alone("artifacts", run, "--json")).json()
    assert listed == (await alone("artifacts", origin.scope, "--json")).json()
    [long] = [each for each in listed if each["artifact"]["size_bytes"] == 9000]
    assert long["role"] in {"used", "result"}
    assert long["handle"] in (await alone("artifacts", run)).out
    got = await alone("artifact", "get", run, long["handle"])
    assert len(got.out) == 9000
    assert (await alone("artifact", "get", run, "a:000000000000")).code == 4


async def test_a_run_without_artifacts_says_so(making: Running, starter: Starter, blobs: S3BlobStore) -> None:
    """An empty list is an answer."""
    handle = await making.start()
    await making.result(handle)
    assert (await starter("artifacts", handle.id, "--json")).json() == []
    assert (await starter("artifacts", handle.id)).out == "no artifacts\n"
    ref = await making.storage().artifacts(handle.id).store_bytes(b"a,b\n1,2\n", "t.csv")
    assert ref.handle in (await starter("artifacts", handle.id)).out


def test_a_fork_is_checked_before_anything_is_asked(own: Settings, tmp_path: Path) -> None:
    """Ids, models, agents and endless messages."""
    for wish, said in (
        (ForkWish(turn=1, id=" "), "id of the run is empty"),
        (ForkWish(turn=1, model=" "), "the model is empty"),
        (ForkWish(turn=1, model="bogus:foo"), "there is no model 'bogus:foo'"),
        (ForkWish(turn=1, agent=str(tmp_path / "none.md")), "can't be read"),
        (ForkWish(turn=1, message="x" * 3_000_000), "say it shorter"),
    ):
        with pytest.raises(InputError, match=said):
            make_fork_order(own, "one", wish)
