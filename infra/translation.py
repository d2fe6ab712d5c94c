"""Our neutral messages as pydantic-ai messages, and back.

A reply is kept in the provider's own form as well (`native`), so that signatures, thinking and ids go back unchanged as
long as the same model continues the conversation. The price: one more copy of each reply in the journal.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from core.chat import (
    AssistantMessage,
    ChatReply,
    ChatRequest,
    ProposedCall,
    StopReason,
    ToolMessage,
    Usage,
    UserMessage,
)
from core.content import clean

_HALVES: Final = re.compile("[\ud800-\udfff]")
_UNREADABLE: Final = re.compile(r"(?<!\\)(\\\\)*\\u(0000|d[89a-f])")
"""In JSON, an escape for what `readable` changes (or for half of a character that is whole: no harm)."""
_STOP_REASONS: Final[dict[str, StopReason]] = {
    "stop": "end",
    "length": "length",
    "content_filter": "refusal",
    "tool_call": "tool_calls",
}


def to_provider(request: ChatRequest) -> list[ModelMessage]:
    """Map the prompt to pydantic-ai messages; what stands between two replies becomes one message, results first."""
    messages: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            if waiting:
                messages.append(_to_request(waiting, request.instructions))
                waiting = []
            messages.append(_to_response(message, request.model))
        else:
            waiting.append(_to_part(message))
    if waiting or not messages:
        messages.append(_to_request(waiting, request.instructions))
    return messages


def to_parameters(request: ChatRequest) -> ModelRequestParameters:
    """Map the tools; their schemas go out as they are."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
            for tool in request.tools
        ]
    )


def from_provider(model: str, response: ModelResponse) -> ChatReply:
    """Map a reply to the neutral form, and keep the provider's own with the model's name."""
    calls = _calls(response)
    native = _native_form(model, response)
    return ChatReply(
        text=readable(response.text or ""),
        calls=calls,
        usage=Usage(
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cost_usd=_cost_usd(response),
        ),
        stop_reason=_stop_reason(response, has_calls=bool(calls)),
        native=native,
        original=native if _UNREADABLE.search(native) else None,
    )


def readable(text: str) -> str:
    """Return the text without lone surrogates and NULs; two halves of a character that came apart are joined."""
    return clean(_joined(text))


def _joined(text: str) -> str:
    if not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _native_form(model: str, response: ModelResponse) -> str:
    native = {"model": model, "response": ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]}
    text = json.dumps(native, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate can't be stored as UTF-8; as an escape it can, and stays what it was.
    return json.dumps(native, separators=(",", ":")) if _HALVES.search(text) else text


def _to_request(parts: Sequence[ModelRequestPart], instructions: str) -> ModelRequest:
    results_first = sorted(parts, key=lambda part: not isinstance(part, ToolReturnPart))
    return ModelRequest(parts=results_first, instructions=instructions or None)


def _to_part(message: UserMessage | ToolMessage) -> ModelRequestPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(content=message.text)
    return ToolReturnPart(
        tool_name=message.name,
        content=message.text,
        tool_call_id=message.call_id,
        outcome="failed" if message.failed else "success",
    )


def _to_response(message: AssistantMessage, model: str) -> ModelResponse:
    """Take the native form when the same model wrote it and nobody has changed the calls since; else build it anew."""
    native = _native(message, model)
    if native is not None and _calls(native) == message.calls and readable(native.text or "") == message.text:
        return native
    parts: list[ModelResponsePart] = [TextPart(content=message.text)] if message.text else []
    parts += [ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id) for call in message.calls]
    # A reply without content is refused by some providers, and leaving it out would merge two user messages.
    return ModelResponse(parts=parts or [TextPart(content="(no text)")])


def _native(message: AssistantMessage, model: str) -> ModelResponse | None:
    if message.native is None:
        return None
    # A native form of another version of pydantic-ai may not be readable: the neutral one always is.
    with suppress(ValidationError, ValueError, KeyError, TypeError):
        native = json.loads(message.native)
        if "\\ud" in message.native:
            native = json.loads(_joined(json.dumps(native, ensure_ascii=False)))
        if native["model"] == model:
            response = ModelMessagesTypeAdapter.validate_python([native["response"]])[0]
            return response if isinstance(response, ModelResponse) and response.parts else None
    return None


def _calls(response: ModelResponse) -> tuple[ProposedCall, ...]:
    return tuple(
        ProposedCall(
            id=readable(part.tool_call_id), name=readable(part.tool_name), arguments=readable(_raw_arguments(part.args))
        )
        for part in response.tool_calls
    )


def _raw_arguments(arguments: str | dict[str, Any] | None) -> str:
    """Return the arguments as the model wrote them; a provider that parsed them already gets them back as JSON."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


def _stop_reason(response: ModelResponse, *, has_calls: bool) -> StopReason:
    # Some OpenAI-compatible servers say "stop", or nothing, after a tool call.
    if has_calls and response.finish_reason in {"stop", "tool_call", None}:
        return "tool_calls"
    return _STOP_REASONS.get(response.finish_reason or "", "other")


def _cost_usd(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None
