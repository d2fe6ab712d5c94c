"""What the offline model answers when it is asked to sum up a conversation: lines of it, by rules, and it says so."""

from typing import Final

from core.chat import ChatRequest
from core.content import one_line

LABEL: Final = "A digest by fixed rules, no language model's summary: the first words of each line, the newest lines."
_LINE_CHARACTERS: Final = 120
_MOST_BYTES: Final = 4000


def sum_up(request: ChatRequest) -> str:
    """Return the newest lines of the conversation, each cut, a quarter of its size at most. Pure."""
    text = "\n".join(message.text for message in request.messages)
    # The first and the last three lines frame the conversation; an earlier digest's label needs no repeating.
    inside = [line for line in text.splitlines()[1:-3] if line.strip() and not line.startswith(LABEL)]
    room = min(len(text.encode()) // 4, _MOST_BYTES) - len(LABEL)
    kept: list[str] = []
    for line in reversed(inside):
        short = one_line(line, _LINE_CHARACTERS)
        room -= len(short.encode()) + 1
        if room < 0:
            break
        kept.append(short)
    return "\n".join([LABEL, *reversed(kept)])
