"""Clients of model providers: opened once per provider, key and address, closed together.

Each opener imports its package when it is chosen, because all of them are optional. Clients never retry: Temporal does.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic_ai.models import Model

from core.errors import ModelRefused
from infra.model_errors import CREDENTIALS

# Explicit, because the Anthropic client refuses long answers without streaming when it has to guess; below the
# 10 minutes of the activity `ask_model`, so that a silent provider is told as one, and its request has ended.
REQUEST_TIMEOUT: Final = timedelta(minutes=9)


class Access(BaseModel):
    """How to reach one provider; equal accesses share a client. Without a `base_url`, the provider's own address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    api_key: SecretStr | None = None
    base_url: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never show in a text."""
        return (self.api_key.get_secret_value(),) if self.api_key else ()


@dataclass(frozen=True)
class Connection:
    """An open client. `make` gives a model by name; `statuses` says which HTTP status a client's own error is like."""

    access: Access
    make: Callable[[str], Model]
    close: Callable[[], Awaitable[None]]
    statuses: Mapping[type[Exception], int] = field(default_factory=dict)


def connect(access: Access) -> Connection:
    """Open a client for `access`; nothing is sent yet.

    Raises:
        ModelRefused: the provider is unknown, or its package or its key is missing. Not retried.
    """
    if access.provider not in PROVIDERS:
        raise ModelRefused(f"Unknown model provider {access.provider!r}; known: {', '.join(PROVIDERS)}.")
    extra, opener = PROVIDERS[access.provider]
    try:
        return opener(access)
    except ImportError as error:
        raise ModelRefused(
            f"Models of {access.provider} need a package that is not installed: "
            f"pip install 'pydantic-ai-slim[{extra}]'."
        ) from error


def _open_anthropic(access: Access) -> Connection:
    from anthropic import APIResponseValidationError, AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=_required_key(access),
        base_url=access.base_url,
        max_retries=0,
        timeout=REQUEST_TIMEOUT.total_seconds(),
    )
    provider = AnthropicProvider(anthropic_client=client)
    return Connection(
        access, lambda name: AnthropicModel(name, provider=provider), client.close, {APIResponseValidationError: 200}
    )


def _open_openai(access: Access) -> Connection:
    from openai import APIResponseValidationError, AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # A server of one's own often has no key, but the client insists on one.
    key = _required_key(access) if access.base_url is None or access.api_key else "no-key"
    client = AsyncOpenAI(api_key=key, base_url=access.base_url, max_retries=0, timeout=REQUEST_TIMEOUT.total_seconds())
    provider = (
        OpenAIProvider(openai_client=client)
        if access.base_url is None
        else OpenAICompatibleProvider("openai-compatible", openai_client=client)
    )
    speaks = OpenAIResponsesModel if access.provider == "openai-responses" else OpenAIChatModel
    return Connection(
        access, lambda name: speaks(name, provider=provider), client.close, {APIResponseValidationError: 200}
    )


def _open_bedrock(access: Access) -> Connection:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoCredentialsError, NoRegionError, PartialCredentialsError
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    config = Config(retries={"total_max_attempts": 1}, read_timeout=REQUEST_TIMEOUT.total_seconds())
    try:
        client = boto3.client("bedrock-runtime", endpoint_url=access.base_url, config=config)
    except NoRegionError:
        raise ModelRefused("Models of bedrock need a region: set AWS_DEFAULT_REGION.") from None
    provider = BedrockProvider(bedrock_client=client)

    async def close() -> None:
        client.close()

    # The order matters: the first type that fits decides.
    statuses = {NoCredentialsError: 401, PartialCredentialsError: 401, BotoCoreError: 400}
    return Connection(access, lambda name: BedrockConverseModel(name, provider=provider), close, statuses)


def _required_key(access: Access) -> str:
    if access.api_key is None or not access.api_key.get_secret_value():
        raise ModelRefused(
            f"Models of {access.provider} need a key: set {CREDENTIALS[access.provider]}, "
            "or choose another model (`offline` needs none)."
        )
    return access.api_key.get_secret_value()


# By prefix of the model's name: the extra of pydantic-ai-slim that it needs, and how to open it.
PROVIDERS: Final[Mapping[str, tuple[str, Callable[[Access], Connection]]]] = {
    "anthropic": ("anthropic", _open_anthropic),
    "openai": ("openai", _open_openai),
    "openai-responses": ("openai", _open_openai),
    "bedrock": ("bedrock", _open_bedrock),
}
