"""What a failed model call means: one pure function for all providers and for scripts.

The price of one table for all: a provider that uses a status for something else is judged by its status anyway, unless
its error code or its words say that a filter stopped it, that the prompt is too long or that the account has no credit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from core.errors import (
    ContentRefused,
    ContextTooLong,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ReplyMalformed,
)
from infra.accounts import ADDRESSES, CREDENTIALS

MAX_RETRY_AFTER_SECONDS: Final = 300.0
MAX_MESSAGE_BYTES: Final = 2048

_FILTER_CODES: Final = frozenset(
    {"content_filter", "content_policy_violation", "content_filtered", "responsibleaipolicyviolation", "moderation"}
)
_FILTER_PHRASES: Final = re.compile(
    "content_filter|content filter|content management policy|content_policy_violation|content policy|usage policies"
    "|prompt was blocked|blocked by (the |a |our )?(guardrail|safety|content)|guardrail[_ ]intervened"
    "|PROHIBITED_CONTENT|flagged (by|for|as)|safety system",
    re.IGNORECASE,
)
_FILTER_STATUSES: Final = frozenset({None, 400, 403, 422, 451})
_CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "request_too_large"})
_CONTEXT_PHRASES: Final = re.compile(
    "prompt is too long|exceeds? (the )?context|maximum context length|context window|available context size"
    "|context_length_exceeded|request exceeds the maximum size|input (is|was) too long|input tokens exceeded"
    "|input token count.*exceeds|exceeds the maximum number of tokens|reduce the length of the messages",
    re.IGNORECASE,
)
_CONTEXT_STATUSES: Final = frozenset({None, 400, 422})
_QUOTA_CODES: Final = frozenset(
    {
        "insufficient_quota",
        "billing_error",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "exceeded_current_quota_error",
        "servicequotaexceededexception",
    }
)
_QUOTA_PHRASES: Final = re.compile(
    "credit balance is too low|exceeded your current quota, please check your plan|enable billing", re.IGNORECASE
)
_QUOTA_STATUSES: Final = frozenset({None, 400, 403})
_CREDENTIAL_SHAPES: Final = re.compile(r"\bsk-[\w*.-]{6,}|\bBearer\s+\S+|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{10,}")
_TRANSIENT: Final = frozenset({408, 409, 424, 425, 429})


@dataclass(frozen=True)
class Failure:
    """A failed call. `status` is None when there was no HTTP answer; header names may have any case.

    `sent` is False when the client itself refused: then the status is what this is like. `retry_delay` is a wait that
    stands in the body ("14s"); `near` are known models whose names look like this one.
    """

    provider: str
    model: str
    message: str
    status: int | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_delay: str | None = None
    near: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    sent: bool = True


def classify(failure: Failure, now: datetime) -> ModelError:
    """Say what a failed model call means; first row that fits wins.

    | status                   | code or words of the provider                 | becomes                              |
    |--------------------------|-----------------------------------------------|--------------------------------------|
    | none, 400, 403, 422, 451 | a content filter, policy or guardrail         | ContentRefused                       |
    | none, 400, 422           | prompt too long, context length exceeded      | ContextTooLong                       |
    | 413                      | any                                           | ContextTooLong                       |
    | 402, or any              | quota or billing used up                      | ModelRefused: add credit             |
    | none                     | network, timeout, stall, error in the stream  | ModelUnavailable                     |
    | below 400                | can't be read, or ends without its last event | ReplyMalformed                       |
    | 408, 409, 424, 425, 429  | any                                           | ModelUnavailable, retry-after        |
    | 500 and above            | any (529 is Anthropic's "overloaded")         | ModelUnavailable, retry-after        |
    | 401                      | any                                           | ModelRefused: check the key          |
    | 403                      | any                                           | ModelRefused: the key may not        |
    | 404                      | any                                           | ModelRefused: name (near ones), URL  |
    | any other below 500      | any                                           | ModelRefused: see the message        |

    The wait comes from `retry-after-ms`, else `retry-after` (seconds, or an HTTP date counted from `now`), else
    Google's RetryInfo; it is never negative and at most 300 seconds. The text names provider, model, status and cure,
    holds at most 2 KiB of the provider's message, and no secret.
    """
    status, text = failure.status, describe(failure)
    if status in _FILTER_STATUSES and _says(failure, _FILTER_CODES, _FILTER_PHRASES):
        return ContentRefused(f"{text} Change what the prompt says, or choose another model.")
    if status == 413 or (status in _CONTEXT_STATUSES and _says(failure, _CONTEXT_CODES, _CONTEXT_PHRASES)):
        return ContextTooLong(f"{text} The prompt must shrink before it is sent again.")
    if status == 402 or _says(failure, _QUOTA_CODES, _QUOTA_PHRASES if status in _QUOTA_STATUSES else None):
        return ModelRefused(f"{text} The account has no credit left: add some, or choose another model.")
    if status is not None and status < 400:
        return ReplyMalformed(f"{text} If it stays so, check {_address(failure)}, or choose another model.")
    if status is None or status in _TRANSIENT or status >= 500:
        wait = retry_after_seconds(failure.headers, now, failure.retry_delay)
        cure = f" If it stays so, check {_address(failure)} and the network." if status is None else ""
        return ModelUnavailable(f"{text}{cure}", wait)
    return ModelRefused(f"{text} {_cure(failure, status)}")


def describe(failure: Failure) -> str:
    """Return one sentence about the failure with the provider's own words: cut, and free of secrets."""
    outcome = f"HTTP {failure.status}" if failure.status else "no usable answer"
    outcome = outcome if failure.sent else "not sent"
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


def retry_after_seconds(headers: Mapping[str, str], now: datetime, delay: str | None = None) -> float | None:
    """Return how long the provider asks to wait, from 0 to 300 seconds; None when it says nothing that can be read.

    `delay` is a duration as Google writes it ("14s", "0.5s"); a header wins over it.
    """
    known = {name.lower(): value.strip() for name, value in headers.items()}
    seconds = _number(known.get("retry-after-ms"))
    if seconds is not None:
        seconds /= 1000
    elif (value := known.get("retry-after")) is not None:
        seconds = _number(value)
        if seconds is None:
            seconds = _seconds_until(value, now)
    if seconds is None and delay is not None:
        seconds = _number(delay.strip().removesuffix("s"))
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


def _says(failure: Failure, codes: frozenset[str], phrases: re.Pattern[str] | None) -> bool:
    coded = failure.code is not None and failure.code.lower() in codes
    return coded or (phrases is not None and phrases.search(failure.message) is not None)


def _address(failure: Failure) -> str:
    setting = ADDRESSES.get(failure.provider)
    return f"the address ({setting})" if setting else "its address"


def _cure(failure: Failure, status: int) -> str:
    credentials = CREDENTIALS.get(failure.provider, "the provider's credentials")
    near = f" Near names: {', '.join(f'{failure.provider}:{name}' for name in failure.near)}." if failure.near else ""
    cures = {
        401: f"The provider did not accept the key: check {credentials}.",
        403: f"The key may not do this: check what {credentials} gives access to, or choose another model.",
        404: f"The provider does not know this: check the model's name and {_address(failure)}.{near}",
    }
    same = f"The provider did not accept the request; sending it again gives the same error.{near}"
    return cures.get(status, same)
