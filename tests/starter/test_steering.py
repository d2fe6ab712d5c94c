"""Telling an agent something and pausing it, from the command line."""

from temporalio.client import Client

from core.asking import Asking
from core.chat import UserMessage
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, calls, says, worker_for
from tests.starter.commands import Starter

ONE_CALL = calls(("publish", '{"title": "One", "text": "t"}'))


async def test_a_person_pauses_a_run_tells_it_something_and_lets_it_go_on(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter
) -> None:
    """A message of any length reaches the agent whole; each command says what it did."""
    long = "Look at March, too. " * 1000
    model = FakeModel([ONE_CALL, says("Done.")])
    async with worker_for(client, own, blobs, model) as running:
        handle = await running.start(tools=["publish"])
        await running.until(handle, lambda state: bool(state.pending), "the call waits")
        paused = await starter("pause", handle.id, "--reason", "lunch", "--by", "Ann")
        assert (paused.code, paused.out) == (0, f"paused {handle.id}\n")
        assert "paused: by Ann: lunch" in (await starter("state", handle.id)).out
        told = await starter("message", handle.id, "-", "--by", "Ann", "--json", stdin=long.encode())
        assert (told.code, told.json()["status"]) == (0, "applied")
        empty = await starter("message", handle.id, "  ")
        assert (empty.code, "the message is empty" in empty.err) == (2, True)
        assert (await starter("approve", handle.id)).code == 0
        wrong = await starter("resume", handle.id, "--model", "gpt")
        assert (wrong.code, "there is no model 'gpt'" in wrong.err) == (2, True)
        assert (await starter("resume", handle.id, "--model", "script:none.yaml")).code == 2
        assert (await starter("resume", handle.id, "--model", "openai:other")).code == 0
        assert (await running.result(handle)).outcome == "completed"
    assert model.requests[-1].messages[-1] == UserMessage(text=long)
    assert model.requests[-1].model == "openai:other"
    late = await starter("message", handle.id, "Are you there?")
    assert (late.code, "has ended" in late.err) == (4, True)


async def test_the_inbox_shows_all_that_waits_for_a_person(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter
) -> None:
    """Over all runs, with what to type; and to each only what they may decide."""
    async with worker_for(client, own, blobs, FakeModel([ONE_CALL, says("Done.")])) as running:
        anybody = await running.start(tools=["publish"])
        eves = await running.start(tools=["publish"], approval={"publish": Asking(approvers=("eve",), reason="news")})
        for handle in (anybody, eves):
            await running.until(handle, lambda state: bool(state.pending), "the call waits")
        shown = await starter("inbox")
        assert f"python starter.py approve {anybody.id} t1c1" in shown.out
        assert f"python starter.py approve {eves.id} t1c1" in shown.out
        assert "may decide: eve" in shown.out
        annes = (await starter("inbox", "--by", "anne", "--json")).json()["waiting"]
        assert anybody.id in {waiting["run"] for waiting in annes}
        assert eves.id not in {waiting["run"] for waiting in annes}
        for handle in (anybody, eves):
            await handle.cancel()
