"""A model for long runs: it calls one tool again and again, keeps nothing of what it is sent, and costs nothing."""

import json
from dataclasses import dataclass

from core.chat import ChatReply, ChatRequest, ProposedCall, Usage
from core.content import INLINE_BYTES
from core.ports import ChatModel, OnText


@dataclass(frozen=True)
class Caller(ChatModel):
    """Calls `letters` for `turns` turns, then answers. The same model serves any number of runs at once.

    Each output has `tool_bytes` bytes; one that becomes an artifact has one byte more each turn, so that no two are the
    same and none is spared its place in the store by the one before.
    """

    turns: int
    tool_bytes: int

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return the reply for this point of the conversation: each turn before gave an assistant's and a tool's."""
        del on_text
        turn = len(request.messages) // 2
        usage = Usage(input_tokens=10, output_tokens=5)
        if turn >= self.turns:
            return ChatReply(text="Done.", usage=usage)
        more = turn if self.tool_bytes > INLINE_BYTES else 0
        arguments = json.dumps({"count": self.tool_bytes + more})
        call = ProposedCall(id=f"call_{turn}", name="letters", arguments=arguments)
        return ChatReply(calls=(call,), usage=usage, stop_reason="tool_calls")
