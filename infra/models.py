"""The models behind the port `ChatModel`: which name goes where.

`offline` follows fixed rules, `script:FILE` plays back a file, `PROVIDER:NAME` asks a provider. All state is in the
request, so that any worker can answer it; what is kept here are open connections only.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from core.chat import ChatReply, ChatRequest
from core.errors import ModelRefused
from core.ports import ChatModel, OnText
from infra.accounts import Access, Accounts
from infra.model_errors import Failure, classify
from infra.offline.model import OfflineModel
from infra.provider_errors import RAISED, to_failure
from infra.providers import PROVIDERS, Connection, connect
from infra.script import ScriptedModel, first_attempt
from infra.streams import StreamLimits, Watch, watched
from infra.translation import from_provider, readable, to_parameters, to_provider

OFFLINE_MODEL: Final = "offline"
DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-terra",
    "google": "google:gemini-3.8-flash",
}


def choose_default_model(explicit: str | None = None, accounts: Accounts | None = None) -> str:
    """Return the model of agents that name none: what is set, else by the first account there is, else `offline`."""
    if explicit:
        return explicit
    accounts = accounts or Accounts()
    return next((model for account, model in DEFAULT_MODELS.items() if accounts.has(account)), OFFLINE_MODEL)


class Models(ChatModel):
    """All models of this process, by name. Made once per process; `close()` when done.

    `script_folder` is where relative script files are looked for. `attempt` says which attempt of the same call this
    is, from 1 (see `infra.script`).
    """

    def __init__(
        self,
        accounts: Accounts | None = None,
        limits: StreamLimits | None = None,
        *,
        script_folder: Path = Path(),
        attempt: Callable[[], int] = first_attempt,
    ) -> None:
        self._accounts = accounts or Accounts()
        self._limits = limits or StreamLimits()
        self._connections: dict[Access, Connection] = {}
        self._opening = asyncio.Lock()
        self._offline = OfflineModel()
        self._scripted = ScriptedModel(script_folder, attempt)

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Answer by the model that `request.model` names; see `ChatModel`."""
        prefix, _, name = request.model.partition(":")
        if request.model == OFFLINE_MODEL:
            return await self._offline.reply(request, on_text)
        if prefix == "script" and name:
            return await self._scripted.reply(request, on_text)
        if prefix in PROVIDERS and name:
            return await request_reply(await self._connection(prefix), name, request, on_text, self._limits)
        known = ", ".join([OFFLINE_MODEL, "script:FILE", *(f"{provider}:NAME" for provider in PROVIDERS)])
        raise ModelRefused(
            f"Unknown model {request.model!r}; known: {known}. Go on with another one: "
            "python starter.py resume RUN --model OTHER."
        )

    async def close(self) -> None:
        """Close all connections. Idempotent; a later request opens them again."""
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()

    async def _connection(self, provider: str) -> Connection:
        access = self._accounts.access(provider)
        async with self._opening:
            if access not in self._connections:
                # Loading a provider's package takes seconds, in which the event loop has heartbeats to send.
                self._connections[access] = await asyncio.to_thread(connect, access, self._limits)
            return self._connections[access]


async def request_reply(
    connection: Connection, name: str, request: ChatRequest, on_text: OnText | None, limits: StreamLimits
) -> ChatReply:
    """Send one request to the provider's model `name`. Repeating it costs tokens and does nothing else.

    Raises:
        ModelUnavailable: rate limit, 5xx, network, a connection that broke off, a stream that stalls. Retried.
        ReplyMalformed: an answer that can't be read, or that ends without its last event. Retried.
        ModelRefused: key, name, permission, credit or request not accepted. Not retried.
        ContentRefused: the provider's filter blocked the prompt. Not retried.
        ContextTooLong: the prompt does not fit. Not retried as it is.
    """
    watch = Watch(lambda: None)
    try:
        async with watched(limits, None if on_text is None else lambda: on_text("")) as watch:
            response = await _ask(connection, connection.make(name), request, on_text, watch)
    except (*RAISED, *connection.statuses) as error:
        # Without the cause: Temporal records the texts of the whole chain, and a provider may echo the key in its own.
        raise classify(to_failure(connection, name, error, watch), datetime.now(UTC)) from None
    if (blocked := (response.provider_details or {}).get("block_reason")) is not None:
        said = (response.provider_details or {}).get("block_reason_message") or ""
        failure = Failure(connection.access.provider, name, f"the prompt was blocked ({blocked}) {said}".strip())
        raise classify(failure, datetime.now(UTC))
    return from_provider(request.model, response)


async def _ask(
    connection: Connection, model: Model, request: ChatRequest, on_text: OnText | None, watch: Watch
) -> ModelResponse:
    """Stream the answer, or read it at once when the server gives it so."""
    messages, parameters = to_provider(request), to_parameters(request)
    settings = ModelSettings(max_tokens=request.max_output_tokens)
    if connection.access.prompt_cache:
        settings["cache"] = True
    try:
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for event in stream:
                watch.on_life()
                piece = _text_of(event)
                if piece and on_text is not None:
                    on_text(readable(piece))
        response = stream.get()
    except Exception:
        if watch.whole is None:
            raise
        response = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        if not response.parts and response.finish_reason is None:
            raise UnexpectedModelBehavior("the answer has no content and no reason to stop") from None
        if on_text is not None and response.text:
            on_text(readable(response.text))
        return _finished(response)
    if not connection.ended(response, watch):
        raise UnexpectedModelBehavior("the stream ended without its last event, so that the answer may not be whole")
    return _finished(response)


def _finished(response: ModelResponse) -> ModelResponse:
    if response.finish_reason == "error":
        reason = (response.provider_details or {}).get("finish_reason")
        raise UnexpectedModelBehavior(f"the model broke off its answer ({reason})")
    return response


def _text_of(event: ModelResponseStreamEvent) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
