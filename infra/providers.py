"""Clients of model providers: opened once per provider, key and address, closed together.

Each opener imports its package when it is chosen, because all of them are optional. Clients never retry: Temporal does.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from core.errors import ModelRefused
from infra.accounts import Access
from infra.streams import StreamLimits, Watch, WatchedClient

CONNECTIONS: Final = 50

_MESSAGE_STOP: Final = re.compile(rb"^event: ?message_stop", re.MULTILINE)
_DONE: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)


@dataclass(frozen=True)
class Connection:
    """An open client. `make` gives a model by name; `statuses` says which HTTP status a client's own error is like.

    `ended` says whether a stream had its last event: without it a connection that broke looks like a short answer.
    """

    access: Access
    make: Callable[[str], Model]
    close: Callable[[], Awaitable[None]]
    ended: Callable[[ModelResponse, Watch], bool]
    statuses: Mapping[type[Exception], int] = field(default_factory=dict)


def connect(access: Access, limits: StreamLimits) -> Connection:
    """Open a client for `access`; nothing is sent yet.

    Raises:
        ModelRefused: the provider is unknown, its package or its key is missing, or the key is none. Not retried.
    """
    if access.provider not in PROVIDERS:
        raise ModelRefused(f"Unknown model provider {access.provider!r}; known: {', '.join(PROVIDERS)}.")
    extra, opener = PROVIDERS[access.provider]
    try:
        return opener(access, limits)
    except ImportError:
        raise ModelRefused(
            f"Models of {access.provider} need a package that is not installed: "
            f"pip install 'pydantic-ai-slim[{extra}]', then restart the worker."
        ) from None


def _request_seconds(limits: StreamLimits) -> float:
    """Return the client's own timeout for one read: explicit, and longer than the limits, which are to be told."""
    return max(limits.first_chunk, limits.chunk).total_seconds() + 30


def _open_anthropic(access: Access, limits: StreamLimits) -> Connection:
    from anthropic import APIResponseValidationError, AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=access.key(),
        base_url=access.base_url,
        max_retries=0,
        timeout=_request_seconds(limits),
        http_client=WatchedClient(),
    )
    provider = AnthropicProvider(anthropic_client=client)
    return Connection(
        access,
        lambda name: AnthropicModel(name, provider=provider),
        client.close,
        lambda _, watch: watch.ends_with(_MESSAGE_STOP),
        {APIResponseValidationError: 200},
    )


def _open_openai(access: Access, limits: StreamLimits) -> Connection:
    from openai import APIResponseValidationError, AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # A server of one's own often has no key, but the client insists on one.
    key = access.key() if access.base_url is None or access.api_key else "no-key"
    client = AsyncOpenAI(
        api_key=key,
        base_url=access.base_url,
        max_retries=0,
        timeout=_request_seconds(limits),
        http_client=WatchedClient(),
    )
    provider = (
        OpenAIProvider(openai_client=client)
        if access.base_url is None
        else OpenAICompatibleProvider("openai-compatible", openai_client=client)
    )
    responses = access.provider == "openai-responses"
    speaks = OpenAIResponsesModel if responses else OpenAIChatModel
    return Connection(
        access,
        lambda name: speaks(name, provider=provider),
        client.close,
        _responses_ended if responses else _chat_ended,
        {APIResponseValidationError: 200},
    )


def _chat_ended(response: ModelResponse, watch: Watch) -> bool:
    # Some servers give no reason, some no `[DONE]`: each of the two says that the answer is whole.
    return _gave_reason(response, watch) or watch.ends_with(_DONE)


def _responses_ended(response: ModelResponse, _: Watch) -> bool:
    return response.state == "complete"


def _gave_reason(response: ModelResponse, _: Watch) -> bool:
    # The raw reason: pydantic-ai fills in its own where there was none.
    details = response.provider_details or {}
    return "finish_reason" in details or "block_reason" in details or response.finish_reason == "content_filter"


def _open_google(access: Access, limits: StreamLimits) -> Connection:
    from google.genai.errors import UnknownApiResponseError
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    client = WatchedClient()
    client.timeout = _request_seconds(limits)  # the provider takes its own from here
    provider = GoogleProvider(api_key=access.key(), base_url=access.base_url, http_client=client)
    return Connection(
        access,
        lambda name: GoogleModel(name, provider=provider),
        client.aclose,
        _gave_reason,
        {UnknownApiResponseError: 200},
    )


def _open_bedrock(access: Access, limits: StreamLimits) -> Connection:
    import boto3
    from botocore.config import Config
    from botocore.eventstream import ParserError
    from botocore.exceptions import BotoCoreError, NoCredentialsError, NoRegionError, PartialCredentialsError
    from botocore.parsers import ResponseParserError
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    # A read that was given up on may keep its thread until its timeout passes.
    config = Config(
        retries={"total_max_attempts": 1}, read_timeout=_request_seconds(limits), max_pool_connections=CONNECTIONS
    )
    try:
        # A session of its own: the shared one keeps the credentials that it found first.
        client = boto3.Session().client("bedrock-runtime", endpoint_url=access.base_url, config=config)
    except NoRegionError:
        raise ModelRefused("Models of bedrock need a region: set AWS_DEFAULT_REGION.") from None
    provider = BedrockProvider(bedrock_client=client)

    async def close() -> None:
        client.close()

    # The order matters: the first type that fits decides.
    statuses = {
        NoCredentialsError: 401,
        PartialCredentialsError: 401,
        ResponseParserError: 200,
        ParserError: 200,
        BotoCoreError: 400,
    }
    return Connection(access, lambda name: BedrockConverseModel(name, provider=provider), close, _gave_reason, statuses)


# By prefix of the model's name: the extra of pydantic-ai-slim that it needs, and how to open it.
PROVIDERS: Final[Mapping[str, tuple[str, Callable[[Access, StreamLimits], Connection]]]] = {
    "anthropic": ("anthropic", _open_anthropic),
    "openai": ("openai", _open_openai),
    "openai-responses": ("openai", _open_openai),
    "google": ("google", _open_google),
    "bedrock": ("bedrock", _open_bedrock),
}
