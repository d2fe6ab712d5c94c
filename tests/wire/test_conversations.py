"""One conversation through every provider: the same neutral replies, each provider's own form given back to it."""

import itertools
import json

import pytest

from core.chat import ChatReply, ProposedCall
from tests.wire.dialects import DIALECTS, Dialect, models_on
from tests.wire.said import INPUT_TOKENS, OUTPUT_TOKENS, SIGNATURE, Said
from tests.wire.server import Wire
from tests.wire.talk import LOOKS, RAIN, ask, then

EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
PAIRS = list(itertools.permutations(DIALECTS, 2))
# Chat Completions has no signature: what it thought is no part of its protocol.
SIGNING = [dialect for name, dialect in DIALECTS.items() if name != "openai"]


def neutral(reply: ChatReply) -> ChatReply:
    """Return what the journal has of a reply, whoever gave it: all but its own form and its price."""
    return reply.model_copy(update={"native": None, "usage": reply.usage.model_copy(update={"cost_usd": None})})


def sent(wire: Wire) -> str:
    """Return the last request as text."""
    return json.dumps(wire.received[-1].body, ensure_ascii=False)


async def test_the_same_conversation_gives_the_same_replies_through_every_provider() -> None:
    """Text, call, result and answer: five protocols, one journal."""
    journals: dict[str, list[ChatReply]] = {}
    for name, dialect in DIALECTS.items():
        async with models_on([dialect.says(LOOKS), dialect.says(RAIN)]) as (models, wire):
            first = await models.reply(ask(dialect.model))
            second = await models.reply(ask(dialect.model, *then(first)))
        journals[name] = [neutral(first), neutral(second)]
        assert [request.path.partition("?")[0] for request in wire.received] == [dialect.path] * 2
        assert all(text in sent(wire) for text in ("Be brief.", "weather in Köln", "call_1", "rain, 12 °C"))
    first, second = journals["anthropic"]
    assert first.text == "I look at the weather of Köln 🌧."
    assert first.calls == (ProposedCall(id="call_1", name="weather", arguments='{"city": "Köln"}'),)
    assert (first.stop_reason, second.text, second.stop_reason) == ("tool_calls", "It rains.", "end")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert [name for name, journal in journals.items() if journal != [first, second]] == []


@EACH
@pytest.mark.parametrize("piece_bytes", [1, 7])
async def test_a_reply_may_come_in_pieces_of_any_size(dialect: Dialect, piece_bytes: int) -> None:
    """Characters, lines and frames that are cut anywhere are put together again; the text streams as it comes."""
    pieces: list[str] = []
    async with models_on([dialect.says(LOOKS).but(piece_bytes=piece_bytes)]) as (models, _):
        reply = await models.reply(ask(dialect.model), pieces.append)
    assert "".join(pieces) == reply.text == LOOKS.texts[0]
    assert "" in pieces, "a chunk without text is a sign of life"
    assert len(reply.calls) == 1


@pytest.mark.parametrize("dialect", SIGNING, ids=[dialect.provider for dialect in SIGNING])
async def test_a_provider_gets_its_own_form_back_unchanged(dialect: Dialect) -> None:
    """Signed thoughts and reasoning items go back to the model that wrote them, with their ids."""
    async with models_on([dialect.says(LOOKS), dialect.says(RAIN)]) as (models, wire):
        first = await models.reply(ask(dialect.model))
        await models.reply(ask(dialect.model, *then(first)))
    assert SIGNATURE in sent(wire)
    if dialect.provider == "openai-responses":
        assert all(f'"{item}"' in sent(wire) for item in ("rs_1", "msg_0", "fc_0"))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[" to ".join(pair) for pair in PAIRS])
async def test_a_journal_of_one_provider_is_continued_by_another(one: str, other: str) -> None:
    """The other one gets text, call and result, and nothing that only the first one understands."""
    writer, reader = DIALECTS[one], DIALECTS[other]
    async with models_on([writer.says(LOOKS), reader.says(RAIN)]) as (models, wire):
        first = await models.reply(ask(writer.model))
        second = await models.reply(ask(reader.model, *then(first)))
    assert second.text == "It rains."
    assert all(text in sent(wire) for text in ("of Köln 🌧.", "call_1", "rain, 12 °C"))
    assert not any(mark in sent(wire) for mark in (SIGNATURE, "Which city?", "rs_1", "fc_0"))


@EACH
async def test_several_parts_of_text_are_one_text(dialect: Dialect) -> None:
    """Where the protocol has parts they are joined as they stand."""
    async with models_on([dialect.says(Said(texts=("It ", "rains.")))]) as (models, _):
        assert (await models.reply(ask(dialect.model))).text == "It rains."


@EACH
async def test_a_thought_alone_is_an_empty_reply(dialect: Dialect) -> None:
    """What a model thinks is no answer: the run asks on."""
    async with models_on([dialect.says(Said(thinks=True))]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert (reply.text, reply.calls, reply.stop_reason) == ("", (), "end")
