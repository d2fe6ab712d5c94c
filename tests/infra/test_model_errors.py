"""The table of failures, row by row, and the waits that providers ask for."""

import re
from datetime import UTC, datetime

import pytest

from core.errors import ContentRefused, ContextTooLong, ModelRefused, ModelUnavailable, ReplyMalformed
from infra.model_errors import Failure, classify, retry_after_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [
    (400, "content_filter", "The response was filtered", ContentRefused, "Change what the prompt says"),
    (400, "content_policy_violation", "Rejected", ContentRefused, "another model"),
    (400, None, "Filtered due to our content management policy.", ContentRefused, "Change"),
    (403, None, "Input was flagged by moderation", ContentRefused, "Change"),
    (422, None, "Request blocked by guardrail", ContentRefused, "Change"),
    (451, None, "The prompt was blocked", ContentRefused, "Change"),
    (None, "content_filter", "in the stream", ContentRefused, "no usable answer"),
    (400, "context_length_exceeded", "no", ContextTooLong, "must shrink"),
    (400, None, "This model's maximum context length is 8192 tokens", ContextTooLong, "must shrink"),
    (422, None, "Input is too long for requested model", ContextTooLong, "must shrink"),
    (400, None, "The input token count (9) exceeds the maximum number of tokens allowed (8)", ContextTooLong, "shrink"),
    (None, "context_length_exceeded", "in the stream", ContextTooLong, "must shrink"),
    (413, None, "too big", ContextTooLong, "must shrink"),
    (402, None, "pay", ModelRefused, "add some"),
    (429, "insufficient_quota", "You exceeded your current quota", ModelRefused, "add some"),
    (400, None, "Your credit balance is too low", ModelRefused, "add some"),
    (None, None, "timed out", ModelUnavailable, "OPENAI_BASE_URL"),
    (200, None, "unreadable", ReplyMalformed, "OPENAI_BASE_URL"),
    (408, None, "late", ModelUnavailable, "HTTP 408"),
    (409, None, "conflict", ModelUnavailable, "HTTP 409"),
    (424, None, "the model failed", ModelUnavailable, "HTTP 424"),
    (425, None, "early", ModelUnavailable, "HTTP 425"),
    (429, "rate_limit_exceeded", "slow down", ModelUnavailable, "HTTP 429"),
    (500, None, "oops", ModelUnavailable, "HTTP 500"),
    (503, None, "down", ModelUnavailable, "HTTP 503"),
    (529, None, "overloaded", ModelUnavailable, "HTTP 529"),
    (401, None, "bad key", ModelRefused, "check OPENAI_API_KEY"),
    (403, None, "no", ModelRefused, "may not do this"),
    (404, None, "no such model", ModelRefused, "check the model's name and the address (OPENAI_BASE_URL)"),
    (400, None, "max_tokens: 9 > 8", ModelRefused, "sending it again gives the same error"),
    (418, None, "teapot", ModelRefused, "sending it again gives the same error"),
]


@pytest.mark.parametrize(("status", "code", "message", "error", "says"), ROWS)
def test_the_table_of_failures_holds(
    status: int | None, code: str | None, message: str, error: type[Exception], says: str
) -> None:
    """Each row of the table of `classify` gives its error, which names provider, model and cure."""
    found = classify(Failure(provider="openai", model="m", message=message, status=status, code=code), NOW)
    assert type(found) is error
    assert says in str(found)
    assert "openai:m" in str(found)


@pytest.mark.parametrize(
    ("headers", "delay", "seconds"),
    [
        ({"Retry-After": "7"}, None, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, None, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:42 GMT"}, None, 42.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, None, 0.0),
        ({"retry-after": "86400"}, None, 300.0),
        ({}, "14s", 14.0),
        ({}, "0.5s", 0.5),
        ({}, "7200s", 300.0),
        ({"retry-after": "3"}, "14s", 3.0),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "nan"}, "soon", None),
        ({}, None, None),
    ],
)
def test_the_wait_is_read_and_bounded(headers: dict[str, str], delay: str | None, seconds: float | None) -> None:
    """Seconds, milliseconds, HTTP dates and Google's RetryInfo are understood; never negative, at most 300 s."""
    assert retry_after_seconds(headers, NOW, delay) == seconds
    failure = Failure("google", "m", "slow", status=429, headers=headers, retry_delay=delay)
    assert classify(failure, NOW).retry_after_seconds == seconds


def test_a_name_with_a_typo_gets_near_ones() -> None:
    """What is known to be near is shown with its provider, as it is to be written."""
    error = classify(Failure("anthropic", "claud", "no", status=404, near=("claude-1", "claude-2")), NOW)
    assert "Near names: anthropic:claude-1, anthropic:claude-2." in str(error)


def test_nothing_that_looks_like_a_key_is_shown() -> None:
    """A key is hidden when it is known, and when it only looks like one."""
    said = "sk-abc123def456 and tops3cret and AIzaSyA1234567890"
    text = str(classify(Failure(provider="openai", model="m", message=said, secrets=("tops3cret",)), NOW))
    assert not re.search("sk-abc|tops3cret|AIza", text)
