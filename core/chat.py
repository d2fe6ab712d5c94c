"""What one model call is sent and what comes back, in a form that no provider owns."""

from typing import Annotated, Any, Literal

from pydantic import Field

from core.frozen import Frozen


class ToolSchema(Frozen):
    """One tool as the model sees it; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ProposedCall(Frozen):
    """A tool call as the model wrote it. `arguments` is the raw text: it need not be JSON."""

    id: str
    name: str
    arguments: str


class UserMessage(Frozen):
    """What a person, or the system on a person's behalf, tells the model."""

    role: Literal["user"] = "user"
    text: str


class AssistantMessage(Frozen):
    """An earlier reply of the model. `native` is the provider's own form, sent back unchanged to the same provider."""

    role: Literal["assistant"] = "assistant"
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    native: str | None = None


class ToolMessage(Frozen):
    """The result of one call of the assistant message before it; `failed` tells the model that it did not work."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    text: str
    failed: bool = False


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Usage(Frozen):
    """Tokens of one call, or summed over calls. `cost_usd` is None when the price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Sum two usages; an unknown price stays unknown only when both are."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(known) if known else None,
        )


class ChatRequest(Frozen):
    """One prompt. `model` is a full name: `anthropic:...`, `script:FILE`, `offline`; the first message is a user's."""

    model: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    max_output_tokens: int = Field(default=4096, gt=0)
    replies: int = Field(default=0, ge=0)
    """How many replies the conversation has had; the messages may show fewer, since older ones are summed up."""


StopReason = Literal["end", "tool_calls", "length", "refusal", "other"]


class ChatReply(Frozen):
    """One reply. `text` and `calls` may both be there, or neither."""

    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end"
    native: str | None = None
    original: str | None = None
    """What came, as JSON in ASCII, when a text of it had to be changed to be one: a lone surrogate, a NUL."""
