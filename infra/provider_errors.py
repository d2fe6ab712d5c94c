"""What the clients of providers raise, as a `Failure`: the provider's own words, its status, and what is like one."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.models import known_model_names

from infra.model_errors import Failure
from infra.providers import Connection
from infra.streams import Stalled, Watch

# The adapters do not check the shape of a 200 before they reach into it.
_MISREAD: Final = (TypeError, AttributeError, LookupError, ValueError, AssertionError)
RAISED: Final[tuple[type[Exception], ...]] = (AgentRunError, UserError, Stalled, *_MISREAD)
"""What a call may raise; a connection adds what its own client does."""

NEAR_NAMES: Final = 3
_PAGE: Final = re.compile(r"^\s*(<!doctype html|<html)", re.IGNORECASE)
_PYDANTIC_NOISE: Final = re.compile(r"\s*(\[type=[^\n]*\]|For further information visit \S+)")
_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)

# Some providers say by their code what others say by their status (Google: a wrong key is a 400), and an error in the
# middle of a stream has no status at all. The first kind that fits decides.
_LIKE: Final[Mapping[type[Exception], int]] = {
    ModelQuotaExceededError: 402,
    ModelAuthenticationError: 401,
    ModelNotFoundError: 404,
}


def to_failure(connection: Connection, model: str, error: Exception, watch: Watch) -> Failure:
    """Describe what went wrong with a call to the provider's model of this name."""
    provider = connection.access.provider
    if (told := _told(watch)) is not None:
        return replace(told, provider=provider, model=model, secrets=connection.access.secrets)
    status = _status(connection, error, watch)
    body = error.body if isinstance(error, ModelAPIError) else None
    return Failure(
        provider=provider,
        model=model,
        message=_message(error, watch),
        status=status,
        code=_code(error),
        headers=(error.headers if isinstance(error, ModelHTTPError) else None) or {},
        retry_delay=_retry_delay(body),
        near=near_names(provider, model) if status == 404 or isinstance(error, UserError) else (),
        secrets=connection.access.secrets,
        sent=not isinstance(error, (UserError, *(kind for kind, like in connection.statuses.items() if like >= 400))),
    )


def _told(watch: Watch) -> Failure | None:
    """Return the error in an answer that says 200 and has nothing else, as gateways give it."""
    try:
        body = json.loads(watch.whole or b"null")
    except ValueError:
        return None
    error = body.get("error") if isinstance(body, dict) else None
    if not error:
        return None
    said = error if isinstance(error, dict) else {"message": str(error)}
    code = str(said.get("code") or said.get("type") or "")
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else None
    return Failure("", "", str(said.get("message") or error), status, code or None)


def near_names(provider: str, model: str) -> tuple[str, ...]:
    """Return names of models of this provider that look like this one: of those that pydantic-ai knows."""
    prefix = f"{provider.removesuffix('-responses')}:"
    names = [name.removeprefix(prefix) for name in known_model_names() if name.startswith(prefix)]
    return tuple(difflib.get_close_matches(model, names, n=NEAR_NAMES, cutoff=0.5))


def _status(connection: Connection, error: Exception, watch: Watch) -> int | None:
    """Return the HTTP status, or the one that the error is like; None for network, timeout and stall."""
    if watch.page is not None:
        return 200
    like = next((status for kind, status in _LIKE.items() if isinstance(error, kind)), None)
    if isinstance(error, ModelHTTPError):
        # A 403 is no wrong key, and a used-up quota has its code.
        return error.status_code if like is None or error.status_code in {402, 403, 429} else like
    if like is not None or isinstance(error, ModelConnectionError | Stalled):
        return like
    if isinstance(error, UserError | ModelRequestRejectedError):
        return 400
    if isinstance(error, ModelAPIError) and (error.in_stream or type(error) is not ModelAPIError):
        return None
    known = {**connection.statuses, UnexpectedModelBehavior: 200, ModelAPIError: 200, **dict.fromkeys(_MISREAD, 200)}
    return next((status for kind, status in known.items() if isinstance(error, kind)), None)


def _code(error: Exception) -> str | None:
    if isinstance(error, ModelContextWindowExceededError):
        return "context_length_exceeded"
    if isinstance(error, ModelQuotaExceededError):
        return "insufficient_quota"
    return error.provider_error_code or error.provider_error_type if isinstance(error, ModelAPIError) else None


def _message(error: Exception, watch: Watch) -> str:
    """Return the provider's own words where there are any, else the error's."""
    if watch.page is not None:
        return f"{_page(watch.page)} instead of an answer: this address is none of a model"
    if isinstance(error, ModelConnectionError):
        return _connection_trouble(error)
    if isinstance(error, _MISREAD):
        return f"the answer is not in the form of this provider ({type(error).__name__}: {error})"
    if not isinstance(error, ModelHTTPError):
        return _PYDANTIC_NOISE.sub("", str(error))
    inner = _error_of(error.body)
    message = inner.get("message") or inner.get("Message") or inner.get("detail") if isinstance(inner, dict) else inner
    if not isinstance(message, str) or not message:
        return str(error)
    return _page(message) if _PAGE.match(message) else message


def _connection_trouble(error: Exception) -> str:
    """Name what was tried and the cause beneath it: the clients themselves only say that there is an error."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 8:
        causes.append(cause)
    said = [f"{type(one).__name__}: {one}" for one in causes[1:] if str(one) and str(one) != str(error)]
    return f"the connection failed or broke off: {str(error).rstrip('.')}" + (f" ({said[0]})" if said else "")


def _error_of(body: object) -> Any:
    """Return the part of an error body that has the message: under `error`, or AWS's `Error`, or the whole."""
    if isinstance(body, list) and body:
        return _error_of(body[0])
    if not isinstance(body, dict):
        return body
    return body.get("error") or body.get("Error") or body


def _retry_delay(body: object) -> str | None:
    """Return Google's RetryInfo, a duration such as "14s", from the details of an error."""
    inner = _error_of(body)
    details = inner.get("details") if isinstance(inner, dict) else None
    found = [one.get("retryDelay") for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return next((delay for delay in found if isinstance(delay, str)), None)


def _page(html: str) -> str:
    title = _TITLE.search(html)
    named = f" (“{' '.join(title.group(1).split())[:80]}”)" if title else ""
    return f"the server sent a web page{named}"
