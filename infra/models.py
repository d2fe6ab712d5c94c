"""The models behind the port `ChatModel`: which name goes where.

`offline` follows fixed rules, `script:FILE` plays back a file, `PROVIDER:NAME` asks a provider. All state is in the
request, so that any worker can answer it; what is kept here are open connections only.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.settings import ModelSettings

from core.chat import ChatReply, ChatRequest
from core.errors import ModelError, ModelRefused
from core.ports import ChatModel, OnText
from infra.model_errors import Failure, classify
from infra.offline.model import OfflineModel
from infra.providers import PROVIDERS, Access, Connection, connect
from infra.script import ScriptedModel, first_attempt
from infra.translation import from_provider, to_parameters, to_provider

# The adapters do not check the shape of a 200 before they reach into it.
_MISREAD: Final = (TypeError, AttributeError, LookupError, ValueError)

OFFLINE_MODEL: Final = "offline"
DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-terra",
}


def choose_default_model(
    explicit: str | None = None,
    *,
    anthropic_api_key: SecretStr | None = None,
    openai_api_key: SecretStr | None = None,
    openai_base_url: str | None = None,
) -> str:
    """Return the model of agents that name none: what is set, else by the first key there is, else `offline`."""
    if explicit:
        return explicit
    if anthropic_api_key and anthropic_api_key.get_secret_value():
        return DEFAULT_MODELS["anthropic"]
    if openai_base_url or (openai_api_key and openai_api_key.get_secret_value()):
        return DEFAULT_MODELS["openai"]
    return OFFLINE_MODEL


class Models(ChatModel):
    """All models of this process, by name. Made once per process; `close()` when done.

    `script_folder` is where relative script files are looked for. `attempt` says which attempt of the same call this
    is, from 1 (see `infra.script`). A key or address of None is one that isn't set.
    """

    def __init__(
        self,
        *,
        anthropic_api_key: SecretStr | None = None,
        anthropic_base_url: str | None = None,
        openai_api_key: SecretStr | None = None,
        openai_base_url: str | None = None,
        script_folder: Path = Path(),
        attempt: Callable[[], int] = first_attempt,
    ) -> None:
        openai = Access(provider="openai", api_key=openai_api_key, base_url=openai_base_url)
        self._access = {
            "anthropic": Access(provider="anthropic", api_key=anthropic_api_key, base_url=anthropic_base_url),
            "openai": openai,
            "openai-responses": openai.model_copy(update={"provider": "openai-responses"}),
            "bedrock": Access(provider="bedrock"),
        }
        self._connections: dict[Access, Connection] = {}
        self._offline = OfflineModel()
        self._scripted = ScriptedModel(script_folder, attempt)

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Answer by the model that `request.model` names; see `ChatModel`."""
        prefix, _, name = request.model.partition(":")
        if request.model == OFFLINE_MODEL:
            return await self._offline.reply(request, on_text)
        if prefix == "script" and name:
            return await self._scripted.reply(request, on_text)
        if prefix in self._access and name:
            return await request_reply(self._connection(prefix), name, request, on_text)
        known = ", ".join([OFFLINE_MODEL, "script:FILE", *(f"{provider}:NAME" for provider in PROVIDERS)])
        raise ModelRefused(
            f"Unknown model {request.model!r}; known: {known}. A run keeps its model: go on with another one by "
            "python starter.py fork RUN --at-turn N --model OTHER."
        )

    async def close(self) -> None:
        """Close all connections. Idempotent; a later request opens them again."""
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()

    def _connection(self, provider: str) -> Connection:
        access = self._access[provider]
        if access not in self._connections:
            self._connections[access] = connect(access)
        return self._connections[access]


async def request_reply(
    connection: Connection, name: str, request: ChatRequest, on_text: OnText | None = None
) -> ChatReply:
    """Send one request to the provider's model `name`. Repeating it costs tokens and does nothing else.

    Raises:
        ModelUnavailable: rate limit, 5xx, network, timeout or an answer that can't be read. Retried.
        ModelRefused: key, name, permission, credit or request not accepted. Not retried.
        ContextTooLong: the prompt does not fit. Not retried as it is.
    """
    messages = to_provider(request)
    failures: tuple[type[Exception], ...] = (AgentRunError, UserError, *_MISREAD, *connection.statuses)
    try:
        response = await model_request(
            connection.make(name),
            messages,
            model_settings=ModelSettings(max_tokens=request.max_output_tokens),
            model_request_parameters=to_parameters(request),
        )
    except failures as error:
        # Without the cause: Temporal records the texts of the whole chain, and a provider may echo the key in its own.
        raise _to_error(connection, name, error) from None
    reply = from_provider(request.model, response)
    if on_text is not None:
        on_text(reply.text)
    return reply


def _to_error(connection: Connection, name: str, error: Exception) -> ModelError:
    status, code, headers = _status(connection, error), None, None
    if isinstance(error, ModelHTTPError):
        code, headers = error.provider_error_code or error.provider_error_type, error.headers
    if isinstance(error, ModelContextWindowExceededError):
        status, code = status or 400, "context_length_exceeded"
    elif isinstance(error, ModelQuotaExceededError):
        status, code = status or 402, "insufficient_quota"
    failure = Failure(
        provider=connection.access.provider,
        model=name,
        message=_message(error),
        status=status,
        code=code,
        headers=headers or {},
        secrets=connection.access.secrets,
    )
    return classify(failure, datetime.now(UTC))


def _status(connection: Connection, error: Exception) -> int | None:
    """Return the HTTP status, or the one that an error without any is like; None for network and timeout."""
    if isinstance(error, ModelHTTPError):
        return error.status_code
    if isinstance(error, UserError):
        return 400
    known = {**connection.statuses, UnexpectedModelBehavior: 200, **dict.fromkeys(_MISREAD, 200)}
    return next((status for kind, status in known.items() if isinstance(error, kind)), None)


def _message(error: Exception) -> str:
    """Return the provider's own words where there are any, else the error's."""
    if isinstance(error, _MISREAD):
        return f"the answer is not in the form of this provider ({type(error).__name__}: {error})"
    if not isinstance(error, ModelHTTPError):
        return str(error)
    inner = error.body.get("error", error.body) if isinstance(error.body, dict) else error.body
    message = inner.get("message") if isinstance(inner, dict) else inner
    suggestion = f" Did you mean {error.suggested_model_id}?" if error.suggested_model_id else ""
    return f"{message}{suggestion}" if isinstance(message, str) and message else str(error)
