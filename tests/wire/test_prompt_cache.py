"""Prompts that a provider's cache takes: each begins with the one before, byte for byte, until a compaction."""

import json
from typing import Any

import pytest

from core.chat import ChatRequest
from infra.models import Models
from tests.wire.dialects import DIALECTS, Dialect, accounts_at, models_on
from tests.wire.server import serve
from tests.wire.talk import LOOKS, RAIN, ask, then

EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
MARKS = {"cache_control", "cachePoint"}
SAID = ("messages", "input", "contents")
"""Where the protocols have the conversation."""
TELLING = ("anthropic", "bedrock")


def unmarked(value: Any) -> Any:
    """Return a request without what says how far to cache: that moves on with the conversation."""
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key not in MARKS}
    if isinstance(value, list):
        return [unmarked(inner) for inner in value if not (isinstance(inner, dict) and set(inner) <= MARKS)]
    return value


def parts(body: Any) -> tuple[str, str]:
    """Return a request's conversation, and the rest of it, as text."""
    body = unmarked(body)
    (name,) = [name for name in SAID if name in body]
    conversation = body.pop(name)
    return json.dumps(conversation)[:-1], json.dumps(body)


@EACH
async def test_a_prompt_begins_with_the_one_before(dialect: Dialect) -> None:
    """As the provider gets it: the same instructions and tools, and the same messages, with new ones behind them."""
    requests: list[ChatRequest] = [ask(dialect.model)]
    async with models_on([dialect.says(LOOKS), dialect.says(LOOKS), dialect.says(RAIN)]) as (models, wire):
        for _ in range(2):
            reply = await models.reply(requests[-1])
            messages = (*requests[-1].messages, *then(reply)[1:])
            requests.append(ask(dialect.model, *messages))
        await models.reply(requests[-1])
    (first, rest), (second, rest_2), (third, rest_3) = (parts(request.body) for request in wire.received)
    assert second.startswith(first)
    assert third.startswith(second)
    assert rest == rest_2 == rest_3


@EACH
@pytest.mark.parametrize("wanted", [True, False])
async def test_who_caches_only_when_told_is_told(dialect: Dialect, wanted: bool) -> None:
    """Anthropic and Bedrock, unless it is switched off; nobody else gets a word of it."""
    async with serve([dialect.says(RAIN)]) as wire:
        models = Models(accounts_at(wire.url).model_copy(update={"prompt_cache": wanted}))
        await models.reply(ask(dialect.model))
        await models.close()
    told = any(mark in json.dumps(wire.received[0].body) for mark in MARKS)
    assert told == (wanted and dialect.provider in TELLING)
