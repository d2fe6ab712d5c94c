"""The errors of the providers, as they document them: one row for each thing that goes wrong."""

from dataclasses import dataclass

from core.errors import ContentRefused, ContextTooLong, ModelError, ModelRefused, ModelUnavailable
from tests.wire.said import Fault

DATE = "Thu, 01 Jan 2099 00:00:00 GMT"


@dataclass(frozen=True)
class Row:
    """What goes wrong, what it becomes, what the error says, and how long the provider asks to wait."""

    name: str
    error: type[ModelError]
    says: str
    anthropic: Fault
    openai: Fault
    google: Fault
    bedrock: Fault
    wait_seconds: float | None = None

    def by(self, provider: str) -> Fault:
        """Return how this provider reports it; the two APIs of OpenAI do it alike."""
        fault: Fault = getattr(self, provider.removesuffix("-responses"))
        return fault


def everywhere(name: str, error: type[ModelError], says: str, fault: Fault, wait: float | None = None) -> Row:
    """Return a row of an error that looks the same everywhere (a proxy's, or one told by its status alone)."""
    return Row(name, error, says, fault, fault, fault, fault, wait)


def slow(**headers: str) -> tuple[tuple[str, str], ...]:
    """Return headers that ask to wait."""
    return tuple((name.replace("_", "-"), value) for name, value in headers.items())


ROWS = (
    everywhere("seconds", ModelUnavailable, "HTTP 429: slow", Fault(429, "x", "slow", slow(retry_after="7")), 7.0),
    everywhere("milliseconds", ModelUnavailable, "HTTP 429", Fault(429, "x", "slow", slow(retry_after_ms="1500")), 1.5),
    everywhere("date", ModelUnavailable, "HTTP 503", Fault(503, "x", "later", slow(retry_after=DATE)), 300.0),
    Row(
        "rate limit",
        ModelUnavailable,
        "HTTP 429: slow down",
        Fault(429, "rate_limit_error", "slow down"),
        Fault(429, "rate_limit_exceeded", "slow down"),
        Fault(429, "RESOURCE_EXHAUSTED", "slow down", quota="RequestsPerMinute"),
        Fault(429, "ThrottlingException", "slow down"),
    ),
    Row(
        "overloaded",
        ModelUnavailable,
        "HTTP 5",
        Fault(529, "overloaded_error", "Overloaded"),
        Fault(503, "server_is_overloaded", "Overloaded"),
        Fault(503, "UNAVAILABLE", "The model is overloaded"),
        Fault(503, "ServiceUnavailableException", "Overloaded"),
    ),
    everywhere("server error", ModelUnavailable, "HTTP 500: oops", Fault(500, "InternalServerException", "oops")),
    everywhere("timeout", ModelUnavailable, "HTTP 408", Fault(408, "ModelTimeoutException", "too late")),
    Row(
        "wrong key",
        ModelRefused,
        "check ",
        Fault(401, "authentication_error", "invalid x-api-key"),
        Fault(401, "invalid_api_key", "Incorrect API key provided: key-that-must-not-show"),
        Fault(400, "INVALID_ARGUMENT", "API key not valid", reason="API_KEY_INVALID"),
        Fault(403, "UnrecognizedClientException", "The security token included in the request is invalid"),
    ),
    Row(
        "no permission",
        ModelRefused,
        "HTTP 403.*may not",
        Fault(403, "permission_error", "no access"),
        Fault(403, "permission_denied", "no access"),
        Fault(403, "PERMISSION_DENIED", "no access"),
        Fault(403, "AccessDeniedException", "no access"),
    ),
    Row(
        "no credit",
        ModelRefused,
        "no credit left",
        Fault(400, "invalid_request_error", "Your credit balance is too low to access the API"),
        Fault(429, "insufficient_quota", "You exceeded your current quota"),
        Fault(429, "RESOURCE_EXHAUSTED", "quota", quota="GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        Fault(400, "ServiceQuotaExceededException", "quota"),
    ),
    Row(
        "prompt too long",
        ContextTooLong,
        "must shrink",
        Fault(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Fault(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
        Fault(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)"),
        Fault(400, "ValidationException", "Input is too long for requested model."),
    ),
    everywhere("request too large", ContextTooLong, "HTTP 413", Fault(413, "request_too_large", "too large")),
    Row(
        "content filter",
        ContentRefused,
        "Change what the prompt says",
        Fault(400, "invalid_request_error", "Output blocked by content filtering policy"),
        Fault(400, "content_policy_violation", "Your request was rejected by the safety system"),
        Fault(400, "INVALID_ARGUMENT", "The prompt was blocked: PROHIBITED_CONTENT"),
        Fault(400, "ValidationException", "The request was blocked by the guardrail"),
    ),
    everywhere("bad request", ModelRefused, "same error", Fault(400, "ValidationException", "max_tokens: 9 > 8")),
)

IN_STREAM = (
    Row(
        "overloaded",
        ModelUnavailable,
        "verloaded",
        Fault(529, "overloaded_error", "Overloaded"),
        Fault(503, "server_is_overloaded", "Overloaded"),
        Fault(503, "UNAVAILABLE", "Overloaded"),
        Fault(503, "ServiceUnavailableException", "Overloaded"),
    ),
    Row(
        "unheard of",
        ModelUnavailable,
        "strange",
        Fault(500, "unheard_of", "strange"),
        Fault(500, "unheard_of", "strange"),
        Fault(500, "UNHEARD_OF", "strange"),
        Fault(500, "InternalServerException", "strange"),
    ),
    Row(
        "content filter",
        ContentRefused,
        "Change what the prompt says",
        Fault(400, "invalid_request_error", "Output blocked by content filtering policy"),
        Fault(400, "content_filter", "The response was filtered"),
        Fault(400, "INVALID_ARGUMENT", "The prompt was blocked: PROHIBITED_CONTENT"),
        Fault(400, "ValidationException", "The request was blocked by the guardrail"),
    ),
)
