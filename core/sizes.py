"""How large entries are: in a prompt, and in a payload."""

from collections.abc import Sequence

from core.content import inline
from core.entries import Entry, Messaged, Replied, ToolFinished, size_bytes
from core.state import TOKEN_BYTES, RunState

COMMIT_BYTES = 256 * 1024
"""Longest tail that is sent at once."""


def tokens(entry: Entry) -> int:
    """Estimate how many tokens an entry adds to a prompt: a token has about four bytes of text."""
    match entry:
        case ToolFinished():
            return len(entry.content.shown()) // TOKEN_BYTES + 8
        case Messaged():
            return len(entry.text.shown()) // TOKEN_BYTES + 8
        case Replied():
            return entry.usage.output_tokens or size_bytes(entry) // TOKEN_BYTES
        case _:
            return 8


def first_part(tail: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a tail that go into one commit: in one payload, whatever has gathered."""
    size = 0
    part: list[Entry] = []
    for entry in tail:
        size += size_bytes(entry)
        if part and size > COMMIT_BYTES:
            break
        part.append(entry)
    return tuple(part)


def carried_bytes(state: RunState) -> int:
    """Return how long a state is when it goes on in a new Temporal run: no tail, arguments as artifacts."""
    bare = tuple(
        entry.model_copy(update={"call": entry.call.model_copy(update={"arguments": inline("")})})
        for entry in state.open_calls
    )
    return len(state.model_copy(update={"open_calls": bare, "tail": ()}).model_dump_json())
