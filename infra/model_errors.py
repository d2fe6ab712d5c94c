"""What a failed model call means: one pure function for all providers and for scripts.

The price of one table for all: a provider that uses a status for something else is judged by its status anyway, unless
its error code or its words say that the prompt is too long or that the account is out of credit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from core.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

MAX_RETRY_AFTER_SECONDS: Final = 300.0
MAX_MESSAGE_BYTES: Final = 2048

# The settings that hold a provider's credentials, for error texts.
CREDENTIALS: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION",
}

_CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "request_too_large"})
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
_CONTEXT_PHRASES: Final = re.compile(
    "prompt is too long|exceed context limit|maximum context length|context window|available context size"
    "|input is too long|context_length_exceeded|request exceeds the maximum size",
    re.IGNORECASE,
)
_CREDENTIAL_SHAPES: Final = re.compile(r"\bsk-[\w*.-]{6,}|\bBearer\s+\S+|\bAKIA[0-9A-Z]{12,}")
_TRANSIENT: Final = frozenset({408, 409, 425, 429})


@dataclass(frozen=True)
class Failure:
    """A failed call. `status` is None when there was no HTTP answer; header names may have any case."""

    provider: str
    model: str
    message: str
    status: int | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def classify(failure: Failure, now: datetime) -> ModelError:
    """Say what a failed model call means; first row that fits wins.

    | status                  | code or words of the provider            | becomes                              |
    |-------------------------|------------------------------------------|--------------------------------------|
    | none                    | network, timeout                         | ModelUnavailable                     |
    | below 400               | an answer that can't be read             | ModelUnavailable                     |
    | 400, 413, 422           | prompt too long, context length exceeded | ContextTooLong                       |
    | 413                     | any                                      | ContextTooLong                       |
    | 402, or any             | quota or billing used up                 | ModelRefused: add credit             |
    | 408, 409, 425, 429      | any                                      | ModelUnavailable, retry-after        |
    | 500 and above           | any (529 is Anthropic's "overloaded")    | ModelUnavailable, retry-after        |
    | 401                     | any                                      | ModelRefused: check the key          |
    | 403                     | any                                      | ModelRefused: the key may not        |
    | 404                     | any                                      | ModelRefused: check name and address |
    | any other below 500     | any                                      | ModelRefused: see the message        |

    The wait comes from `retry-after-ms`, else `retry-after` (seconds, or an HTTP date counted from `now`), is never
    negative and at most 300 seconds. The text names provider, model and status, holds at most 2 KiB of the provider's
    message, and no secret.
    """
    status, text = failure.status, describe(failure)
    if status is None or status < 400:
        return ModelUnavailable(text, retry_after_seconds(failure.headers, now))
    if status == 413 or (status in {400, 422} and _says_too_long(failure)):
        return ContextTooLong(f"{text} The prompt must shrink before it is sent again.")
    if status == 402 or failure.code in _QUOTA_CODES:
        return ModelRefused(f"{text} The account has no credit left: add some, or choose another model.")
    if status in _TRANSIENT or status >= 500:
        return ModelUnavailable(text, retry_after_seconds(failure.headers, now))
    return ModelRefused(f"{text} {_cure(failure, status)}")


def describe(failure: Failure) -> str:
    """Return one sentence about the failure with the provider's own words: cut, and free of secrets."""
    outcome = f"HTTP {failure.status}" if failure.status else "no usable answer"
    message = cut(" ".join(redact(failure.message, failure.secrets).split())) or "no message"
    return f"Model {failure.provider}:{failure.model}: {outcome}: {message.rstrip('.')}."


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """Replace the secrets, and whatever looks like a key, by `***`."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return _CREDENTIAL_SHAPES.sub("***", text)


def cut(text: str, limit_bytes: int = MAX_MESSAGE_BYTES) -> str:
    """Return at most `limit_bytes` of UTF-8, with an ellipsis when something is missing."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - 3].decode(errors="ignore") + "…"


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return how long the provider asks to wait, from 0 to 300 seconds; None when it says nothing that can be read."""
    known = {name.lower(): value.strip() for name, value in headers.items()}
    seconds = _number(known.get("retry-after-ms"))
    if seconds is not None:
        seconds /= 1000
    elif (value := known.get("retry-after")) is not None:
        seconds = _number(value)
        if seconds is None:
            seconds = _seconds_until(value, now)
    return None if seconds is None else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", text):
        return None
    return float(text)


def _seconds_until(http_date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()


def _says_too_long(failure: Failure) -> bool:
    return failure.code in _CONTEXT_CODES or _CONTEXT_PHRASES.search(failure.message) is not None


def _cure(failure: Failure, status: int) -> str:
    credentials = CREDENTIALS.get(failure.provider, "the provider's credentials")
    cures = {
        401: f"The provider did not accept the key: check {credentials}.",
        403: f"The key may not do this: check what {credentials} gives access to, or choose another model.",
        404: "The provider does not know this: check the model's name and the base URL.",
    }
    return cures.get(status, "The provider did not accept the request; sending it again gives the same error.")
