"""Replies as no one would wish them: huge, with odd arguments, odd characters, odd reasons to stop."""

import json

import pytest

from core.chat import StopReason
from tests.wire.dialects import DIALECTS, Dialect, models_on
from tests.wire.said import Called, Said, Stop
from tests.wire.server import Answer
from tests.wire.talk import RAIN, ask, then

EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
MEGABYTE = 1024**2
# Google's protocol has objects only; the others give the text that the model wrote.
WRITING = [dialect for name, dialect in DIALECTS.items() if name != "google"]


@EACH
async def test_a_reply_of_two_megabytes_comes_whole(dialect: Dialect) -> None:
    """Nothing is cut here: what is too big for the journal's line becomes an artifact there."""
    async with models_on([dialect.says(Said(texts=("ä" * MEGABYTE,)))]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert len(reply.text.encode()) == 2 * MEGABYTE


@EACH
async def test_a_reply_with_five_hundred_calls_has_them_all_in_order(dialect: Dialect) -> None:
    """How many of them run is not decided here."""
    calls = tuple(Called(f"call_{number}", "weather", f'{{"city": "{number}"}}') for number in range(500))
    async with models_on([dialect.says(Said(calls=calls, stop="tool"))]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert [json.loads(call.arguments)["city"] for call in reply.calls] == [str(number) for number in range(500)]
    assert reply.stop_reason == "tool_calls"


@pytest.mark.parametrize("dialect", WRITING, ids=[dialect.provider for dialect in WRITING])
async def test_arguments_that_are_no_object_are_passed_on_as_they_are(dialect: Dialect) -> None:
    """The text is the model's; the toolbox tells it what is wrong, and every provider takes it in a later prompt."""
    written = ['"{\\"city\\": \\"Köln\\"}"', '["Köln"]', '{"city": "Kö', "null"]
    calls = tuple(Called(f"call_{number}", "weather", text) for number, text in enumerate(written))
    said = Said(calls=calls, stop="tool")
    after = [(one, one.says(RAIN)) for one in DIALECTS.values()]
    async with models_on([dialect.says(said), *(answer for _, answer in after)]) as (models, _):
        reply = await models.reply(ask(dialect.model))
        assert [call.arguments for call in reply.calls] == written
        for other, _answer in after:
            assert (await models.reply(ask(other.model, *then(reply, "no object")))).text == "It rains."


@pytest.mark.parametrize("dialect", WRITING, ids=[dialect.provider for dialect in WRITING])
async def test_a_call_without_arguments_has_none(dialect: Dialect) -> None:
    """Empty text stays empty or is an empty object: never something else."""
    said = Said(calls=(Called("call_1", "now", ""),), stop="tool")
    async with models_on([dialect.says(said)]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert [call.arguments in {"", "{}"} for call in reply.calls] == [True]


@EACH
async def test_half_characters_and_nuls_do_no_harm(dialect: Dialect) -> None:
    """A lone surrogate becomes U+FFFD, a NUL its picture, two halves that came apart are one character; it goes on."""
    said = Said(texts=("a\ud83d", "\ude00b\ud800c\0d"), calls=(Called("call_1", "weather", '{"city": "\\u0000"}'),))
    pieces: list[str] = []
    async with models_on([dialect.says(said), dialect.says(RAIN)]) as (models, _):
        reply = await models.reply(ask(dialect.model), pieces.append)
        assert reply.text == "a😀b\ufffdc␀d"
        assert reply.original is not None, "what came is there, too"
        assert "".join(pieces).encode(), "what streams can be shown"
        assert (await models.reply(ask(dialect.model, *then(reply)))).text == "It rains."


@pytest.mark.filterwarnings("ignore:unheard_of is not a valid FinishReason")
@EACH
@pytest.mark.parametrize(
    ("stop", "reason"), [("length", "length"), ("refusal", "refusal"), ("unheard_of", "other"), ("tool", None)]
)
async def test_why_a_reply_stopped_is_known_or_other(dialect: Dialect, stop: Stop, reason: StopReason | None) -> None:
    """A cut, a refusal, and a reason that nobody has heard of; a reply says that it calls only when it does."""
    async with models_on([dialect.says(Said(texts=("Hm.",), stop=stop))]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert reply.text == "Hm."
    assert reply.stop_reason == reason or reason is None


async def test_a_chat_server_may_leave_out_done_and_the_usage() -> None:
    """The reason to stop says that nothing is missing; tokens that are not told count as none."""
    chat = DIALECTS["openai"]
    events = chat.stream(RAIN)[:-2]
    async with models_on([Answer(b"".join(events), content_type=chat.content_type)]) as (models, _):
        reply = await models.reply(ask(chat.model))
    assert (reply.text, reply.stop_reason, reply.usage.input_tokens) == ("It rains.", "end", 0)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_reply_without_a_reason_is_whole_when_its_last_event_came(provider: str) -> None:
    """Some compatible servers give no reason; `message_stop` and `[DONE]` say that nothing is missing."""
    dialect = DIALECTS[provider]
    said = Said(texts=("Hm.",), calls=(Called("call_1", "weather", "{}"),), stop=None)
    async with models_on([dialect.says(said)]) as (models, _):
        reply = await models.reply(ask(dialect.model))
    assert (reply.text, len(reply.calls), reply.stop_reason) == ("Hm.", 1, "tool_calls")
