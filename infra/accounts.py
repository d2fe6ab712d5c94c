"""The accounts at model providers: which key and which address belongs to whom."""

from collections.abc import Mapping
from typing import Final

from pydantic import SecretStr

from core.errors import ModelRefused
from core.frozen import Frozen
from infra.settings import Settings

# The settings that hold a provider's credentials and its address, for error texts.
CREDENTIALS: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION",
}
ADDRESSES: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "google": "GOOGLE_BASE_URL",
    "bedrock": "BEDROCK_BASE_URL",
}


CACHE_WHEN_TOLD: Final = frozenset({"anthropic", "bedrock"})
"""The others cache prompts by themselves, or not at all."""


class Access(Frozen):
    """How to reach one provider; equal accesses share a client. Without a `base_url`, the provider's own address."""

    provider: str
    api_key: SecretStr | None = None
    base_url: str | None = None
    prompt_cache: bool = False
    """Whether the provider is told to cache prompts."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never show in a text."""
        return (self.api_key.get_secret_value(),) if self.api_key else ()

    def key(self) -> str:
        """Return the key.

        Raises:
            ModelRefused: there is none, or it has what no key has (a blank, a line break); never shows it. Not retried.
        """
        key = self.api_key.get_secret_value() if self.api_key else ""
        setting = CREDENTIALS[self.provider]
        if not key:
            raise ModelRefused(
                f"Models of {self.provider} need a key: set {setting}, or choose another model (`offline` needs none)."
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ModelRefused(
                f"{setting} holds a blank, a line break or another character that no key has: copy the key anew, "
                "without what stands around it. Nothing was sent."
            )
        return key


class Accounts(Frozen):
    """All keys and addresses; None is one that isn't set. Bedrock's credentials are found by boto3."""

    anthropic_api_key: SecretStr | None = None
    anthropic_base_url: str | None = None
    openai_api_key: SecretStr | None = None
    openai_base_url: str | None = None
    google_api_key: SecretStr | None = None
    google_base_url: str | None = None
    bedrock_base_url: str | None = None
    prompt_cache: bool = True

    @classmethod
    def from_settings(cls, settings: Settings) -> "Accounts":
        """Take what the settings say."""
        return cls(**{name: getattr(settings, name) for name in cls.model_fields})

    def access(self, provider: str) -> Access:
        """Return the access to a provider; the two APIs of OpenAI share a key and an address."""
        account = provider.removesuffix("-responses")
        return Access(
            provider=provider,
            api_key=getattr(self, f"{account}_api_key", None),
            base_url=getattr(self, f"{account}_base_url"),
            prompt_cache=self.prompt_cache and provider in CACHE_WHEN_TOLD,
        )

    def has(self, account: str) -> bool:
        """Say whether there is a key for it, or an address of one's own, which may need none."""
        key: SecretStr | None = getattr(self, f"{account}_api_key")
        return bool(key and key.get_secret_value()) or (account == "openai" and bool(self.openai_base_url))
