"""Whole runs over the real clients of providers: what the journal has of them does not depend on the provider."""

from dataclasses import dataclass

import pytest
from temporalio.client import Client

from core.chat import ChatReply, ChatRequest
from core.entries import Entry, Replied, ToolFinished
from core.ports import BlobStore, ChatModel, OnText
from infra.models import Models
from infra.settings import Settings
from tests.running import worker_for
from tests.wire.dialects import DIALECTS, models_on
from tests.wire.said import Called, Said
from tests.wire.talk import ask

SHOUTS = Said(("I echo Köln 🌧.",), (Called("call_1", "echo", '{"text": "Köln"}'),), "tool", thinks=True)
DONE = Said(("It rains.",))


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region that Bedrock's client finds by itself."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


@dataclass(frozen=True)
class Relay(ChatModel):
    """Asks another provider for each reply of a conversation."""

    models: Models

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Answer by the provider whose turn it is."""
        dialect = list(DIALECTS.values())[request.replies % len(DIALECTS)]
        return await self.models.reply(request.model_copy(update={"model": dialect.model}), on_text)


def neutral(entries: list[Entry]) -> list[dict[str, object]]:
    """Return what was said and done: without times, prices, names of models and their own forms."""
    of_their_own = {"at", "seconds", "model", "native", "usage"}
    return [entry.model_dump(exclude=of_their_own) for entry in entries if isinstance(entry, Replied | ToolFinished)]


async def test_a_run_has_the_same_journal_whatever_provider_answers(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """Reply, call, result and answer, as the blob store has them: entry for entry the same for all five."""
    journals = {}
    for name, dialect in DIALECTS.items():
        async with (
            models_on([dialect.says(DONE), dialect.says(SHOUTS), dialect.says(DONE)]) as (models, _),
            worker_for(client, tested, blobs, models) as running,
        ):
            await models.reply(ask(dialect.model))  # what a client does once, it has done
            result = await running.result(await running.start(tools=["echo"], model=dialect.model))
            assert (result.outcome, result.text.text) == ("completed", "It rains."), name
            assert result.head is not None
            journals[name] = neutral(await running.storage().journal(result.scope).entries(result.head))
    first = journals["anthropic"]
    assert [entry["kind"] for entry in first] == ["replied", "tool_finished", "replied"]
    assert [name for name, journal in journals.items() if journal != first] == []


async def test_a_journal_is_continued_by_every_other_provider(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """Five providers take turns in one run: each goes on from what the ones before have said and called."""
    turns = list(DIALECTS.values())
    said = [
        Said((f"I am {dialect.provider}.",), (Called(f"call_{number}", "echo", '{"text": "a"}'),), "tool", thinks=True)
        for number, dialect in enumerate(turns)
    ]
    answers = [dialect.says(one) for dialect, one in zip(turns, said, strict=True)]
    once = [dialect.says(DONE) for dialect in turns]
    async with (
        models_on([*once, *answers, turns[0].says(DONE)]) as (models, wire),
        worker_for(client, tested, blobs, Relay(models)) as running,
    ):
        for dialect in turns:
            await models.reply(ask(dialect.model))
        result = await running.result(await running.start(tools=["echo"], model="anthropic:claude-haiku-4-5"))
    assert (result.outcome, result.text.text, result.turns) == ("completed", "It rains.", 6)
    last = str(wire.received[-1].body)
    assert all(f"I am {dialect.provider}." in last for dialect in turns)
    assert all(f"call_{number}" in last for number in range(len(turns)))
