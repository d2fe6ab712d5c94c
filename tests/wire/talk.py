"""One conversation, as it is sent: a question, a reply with a call, its result, and more."""

from core.chat import AssistantMessage, ChatReply, ChatRequest, Message, ToolMessage, ToolSchema, UserMessage
from tests.wire.said import Called, Said

WEATHER = ToolSchema(
    name="weather",
    description="Say what the weather is.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
QUESTION = UserMessage(text="What is the weather in Köln?")
LOOKS = Said(
    texts=("I look at the weather of Köln 🌧.",),
    calls=(Called("call_1", "weather", '{"city": "Köln"}'),),
    stop="tool",
    thinks=True,
)
RAIN = Said(texts=("It rains.",))


def ask(model: str, *messages: Message) -> ChatRequest:
    """Return a prompt for this model, with one tool."""
    return ChatRequest(model=model, instructions="Be brief.", messages=messages or (QUESTION,), tools=(WEATHER,))


def then(reply: ChatReply, result: str = "rain, 12 °C") -> tuple[Message, ...]:
    """Return the conversation after a reply: question, reply as the journal keeps it, results."""
    kept = AssistantMessage(text=reply.text, calls=reply.calls, native=reply.native)
    results = (ToolMessage(call_id=call.id, name=call.name, text=result) for call in reply.calls)
    return (QUESTION, kept, *results)
