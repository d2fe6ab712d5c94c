"""Facts about providers whose servers do not stream: the real clients against one on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from core.chat import AssistantMessage, ChatRequest, Message, ProposedCall, ToolMessage, ToolSchema, UserMessage
from core.errors import ModelRefused
from infra.accounts import Accounts
from infra.models import DEFAULT_MODELS, Models, choose_default_model
from tests.wire.server import Answer, Wire, plain, serve

ANTHROPIC, OPENAI = "anthropic:claude-haiku-4-5", "openai:gpt-4o"
KEY = "key-that-must-not-show"
WEATHER = ToolSchema(
    name="weather",
    description="Say what the weather is.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def anthropic_answer(*content: dict[str, Any], stop_reason: str = "end_turn") -> Answer:
    """Answer as the Messages API does."""
    return plain(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 100},
        }
    )


def openai_answer(message: dict[str, Any], finish_reason: str = "stop", model: str = "gpt-4o") -> Answer:
    """Answer as the Chat Completions API does."""
    return plain(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", **message},
                    "finish_reason": finish_reason,
                    "logprobs": None,
                }
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        }
    )


ANTHROPIC_CALL = anthropic_answer(
    {"type": "thinking", "thinking": "Which city?", "signature": "sig-1"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Köln"}},
    stop_reason="tool_use",
)
OPENAI_CALL = openai_answer(
    {
        "content": "I look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "K'}}
        ],
    },
    finish_reason="tool_calls",
)


def ask(model: str, *messages: Message) -> ChatRequest:
    """Build a request with one tool."""
    return ChatRequest(
        model=model, instructions="Be brief.", messages=messages or (UserMessage(text="hi"),), tools=(WEATHER,)
    )


@asynccontextmanager
async def models_on(*answers: Answer) -> AsyncIterator[tuple[Models, Wire]]:
    """Serve the answers and open models on them."""
    async with serve(answers) as wire:
        models = Models(
            Accounts(
                anthropic_api_key=SecretStr(KEY),
                anthropic_base_url=wire.url,
                openai_api_key=SecretStr(KEY),
                openai_base_url=f"{wire.url}/v1",
            )
        )
        try:
            yield models, wire
        finally:
            await models.close()


async def test_anthropic_text_comes_back_with_tokens_and_price() -> None:
    """A plain answer of Anthropic's has text, stop reason, tokens, and the price of that model."""
    async with models_on(anthropic_answer({"type": "text", "text": "Hello."})) as (models, wire):
        reply = await models.reply(ask(ANTHROPIC))
    assert (reply.text, reply.calls, reply.stop_reason) == ("Hello.", (), "end")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
    assert reply.usage.cost_usd == pytest.approx(0.0015)
    sent = wire.received[0].body
    assert sent["max_tokens"] == 4096
    assert sent["tools"][0]["name"] == "weather"
    assert "Be brief." in json.dumps(sent["system"])


async def test_openai_text_comes_back_with_tokens() -> None:
    """A plain answer of a Chat Completions server has text, stop reason and tokens."""
    async with models_on(openai_answer({"content": "Hello."})) as (models, wire):
        reply = await models.reply(ask(OPENAI))
    assert (reply.text, reply.calls, reply.stop_reason) == ("Hello.", (), "end")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
    assert wire.received[0].path == "/v1/chat/completions"
    assert wire.received[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_server_of_ones_own_needs_no_key_and_an_unknown_price_is_none() -> None:
    """With a base URL alone, any OpenAI-compatible server is asked; a model without a known price costs None."""
    answer = openai_answer({"content": "Hello."}, model="house-model-7b")
    async with serve([answer]) as wire:
        models = Models(Accounts(openai_base_url=f"{wire.url}/v1"))
        reply = await models.reply(ask("openai:house-model-7b"))
        await models.close()
    assert reply.text == "Hello."
    assert reply.usage.cost_usd is None


async def test_the_responses_api_is_spoken_too() -> None:
    """`openai-responses:NAME` goes to the Responses API."""
    text = {"type": "output_text", "text": "Hello.", "annotations": []}
    output = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    body = {"id": "r1", "object": "response", "created_at": 1, "model": "gpt-4o", "status": "completed"}
    options = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    async with models_on(plain({**body, **options, "output": [output], "usage": {**usage, **details}})) as (
        models,
        wire,
    ):
        reply = await models.reply(ask("openai-responses:gpt-4o"))
    assert (reply.text, reply.stop_reason, reply.usage.input_tokens) == ("Hello.", "end", 10)
    assert wire.received[0].path == "/v1/responses"


async def test_anthropic_gets_its_own_form_back_when_it_continues() -> None:
    """After a tool call the same model sees its signed thinking, its call, and the result under the same id."""
    async with models_on(ANTHROPIC_CALL, anthropic_answer({"type": "text", "text": "Rain."})) as (models, wire):
        first = await models.reply(ask(ANTHROPIC))
        assistant = AssistantMessage(text=first.text, calls=first.calls, native=first.native)
        result = ToolMessage(call_id="toolu_1", name="weather", text="no such city", failed=True)
        second = await models.reply(ask(ANTHROPIC, UserMessage(text="Weather?"), assistant, result))
    assert first.calls == (ProposedCall(id="toolu_1", name="weather", arguments='{"city": "Köln"}'),)
    assert (first.stop_reason, second.text) == ("tool_calls", "Rain.")
    _, replied, answered = wire.received[1].body["messages"]
    assert replied["content"][0] == {"type": "thinking", "thinking": "Which city?", "signature": "sig-1"}
    assert replied["content"][2]["id"] == "toolu_1"
    assert (answered["content"][0]["tool_use_id"], answered["content"][0]["is_error"]) == ("toolu_1", True)


async def test_openai_keeps_ids_and_arguments_that_are_no_json() -> None:
    """Arguments stay the raw text of the model; ids go back with the call and its result."""
    async with models_on(OPENAI_CALL, openai_answer({"content": "Rain."})) as (models, wire):
        first = await models.reply(ask(OPENAI))
        assistant = AssistantMessage(text=first.text, calls=first.calls, native=first.native)
        result = ToolMessage(call_id="call_1", name="weather", text="malformed arguments", failed=True)
        await models.reply(ask(OPENAI, UserMessage(text="Weather?"), assistant, result))
    assert first.calls == (ProposedCall(id="call_1", name="weather", arguments='{"city": "K'),)
    assert (first.text, first.stop_reason) == ("I look.", "tool_calls")
    replied, answered = wire.received[1].body["messages"][2:]
    assert replied["tool_calls"][0]["id"] == "call_1"
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "call_1")


async def test_another_model_gets_the_neutral_form() -> None:
    """A conversation that changes its provider keeps texts, calls and ids, and leaves the foreign form behind."""
    async with models_on(ANTHROPIC_CALL, openai_answer({"content": "Rain."})) as (models, wire):
        first = await models.reply(ask(ANTHROPIC))
        assistant = AssistantMessage(text=first.text, calls=first.calls, native=first.native)
        result = ToolMessage(call_id="toolu_1", name="weather", text="rain")
        await models.reply(ask(OPENAI, UserMessage(text="Weather?"), assistant, result))
    replied = wire.received[1].body["messages"][2]
    assert replied["content"] == "I look."
    assert replied["tool_calls"][0]["id"] == "toolu_1"
    assert "sig-1" not in json.dumps(wire.received[1].body)


async def test_changed_calls_win_over_the_native_form() -> None:
    """When the calls of a reply were edited since, the model sees the edited ones: a call never loses its result."""
    async with models_on(ANTHROPIC_CALL, anthropic_answer({"type": "text", "text": "Rain."})) as (models, wire):
        first = await models.reply(ask(ANTHROPIC))
        edited = (first.calls[0].model_copy(update={"arguments": '{"city": "Bonn"}'}),)
        assistant = AssistantMessage(text=first.text, calls=edited, native=first.native)
        result = ToolMessage(call_id="toolu_1", name="weather", text="rain")
        await models.reply(ask(ANTHROPIC, UserMessage(text="Weather?"), assistant, result))
    assert "Bonn" in json.dumps(wire.received[1].body["messages"])
    assert "K\\u00f6ln" not in json.dumps(wire.received[1].body["messages"])


async def test_a_client_is_made_once_and_reopened_after_close() -> None:
    """Two requests share a client; closing twice does no harm."""
    answer = anthropic_answer({"type": "text", "text": "Hello."})
    async with models_on(answer, answer, answer) as (models, _):
        await models.reply(ask(ANTHROPIC))
        opened = list(models._connections.values())
        await models.reply(ask(ANTHROPIC))
        assert list(models._connections.values()) == opened
        await models.close()
        await models.close()
        assert (await models.reply(ask(ANTHROPIC))).text == "Hello."


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("mistral:large", "known: offline, script:FILE, anthropic:NAME"),
        ("gpt-4o", "known: offline"),
        ("anthropic:", "Unknown model"),
    ],
)
async def test_a_model_that_cannot_be_asked_says_what_to_do(model: str, says: str) -> None:
    """Unknown models list the known ones; a missing key names its variable."""
    with pytest.raises(ModelRefused, match=says):
        await Models().reply(ask(model))


@pytest.mark.parametrize(
    ("chosen", "settings"),
    [
        ("script:demo.yaml", {"explicit": "script:demo.yaml", "openai_api_key": SecretStr("k")}),
        (DEFAULT_MODELS["anthropic"], {"anthropic_api_key": SecretStr("k"), "openai_api_key": SecretStr("k")}),
        (DEFAULT_MODELS["openai"], {"openai_api_key": SecretStr("k")}),
        (DEFAULT_MODELS["google"], {"google_api_key": SecretStr("k")}),
        (DEFAULT_MODELS["openai"], {"openai_base_url": "http://localhost:1/v1"}),
        ("offline", {"anthropic_api_key": SecretStr(""), "explicit": ""}),
        ("offline", {}),
    ],
)
def test_the_default_model_follows_from_the_settings(chosen: str, settings: dict[str, Any]) -> None:
    """What is set wins, then Anthropic's key, then OpenAI's key or address, then Google's key, then the rules."""
    assert choose_default_model(settings.pop("explicit", None), Accounts(**settings)) == chosen
