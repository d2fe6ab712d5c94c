"""What stays known of entries that a prompt leaves out, without any model: one line a turn, what people said, handles.

Everything here is deterministic and bounded. When the bound is reached, the newest is kept and the rest is named as
left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from core.content import Content, cut, one_line
from core.entries import Entry, ToolFinished
from core.exchanges import starts
from core.lines import arguments_line
from core.tools import Call

CALLS_SHOWN = 8
RECORD = "\n\nKept from what is left out:"
"""Begins what is added to every summary and digest; what stands before it is a model's or the digest's own text."""

_HANDLE = re.compile(r"(?<![0-9A-Za-z])a:[0-9a-f]{12}")
_WITH_TEXT = frozenset({"forked", "messaged", "replied", "tool_finished"})
_SAID_CHARACTERS = 160
_ARGUMENT_CHARACTERS = 80
_RESULT_CHARACTERS = 140
_QUOTE_CHARACTERS = 400


def digest(entries: Sequence[Entry], limit_bytes: int) -> str:
    """Return one line for each exchange among the entries, oldest first; the newest that fit into the limit."""
    begins = starts(entries)
    lines: list[str] = []
    room = limit_bytes
    for number, start in reversed(list(enumerate(begins))):
        end = begins[number + 1] if number + 1 < len(begins) else len(entries)
        line = _exchange_line(entries[start:end])
        room -= len(line.encode()) + 1
        if room < 0:
            lines.append(f"(turns {entries[begins[0]].turn} to {entries[start].turn} are left out here)")
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def with_record(text: str, entries: Sequence[Entry], quotes_bytes: int, handles_bytes: int) -> str:
    """Add to a summary of the entries what must not get lost: what people said, and the handles of artifacts."""
    said = _quotes(entries, quotes_bytes)
    handles = _handles(entries, handles_bytes, text + said)
    record = "\n".join(part for part in (said, handles) if part)
    return f"{text}{RECORD}\n{record}" if record else text


def without_record(text: str) -> str:
    """Return a summary as it was before `with_record`."""
    return text.partition(RECORD)[0]


def mentioned(entry: Entry) -> Iterator[str]:
    """Yield the handles of the artifacts that an entry shows: as its content, as made by a tool, or in its text."""
    if entry.kind not in _WITH_TEXT:
        return
    for content in _contents(entry):
        if content.artifact is not None:
            yield content.artifact.handle
        shown = content.shown()
        if "a:" in shown:  # the conversation may be long, and most texts have none
            yield from _HANDLE.findall(shown)
    if entry.kind == "tool_finished":
        yield from (ref.handle for ref in entry.artifacts)
    elif entry.kind == "forked":
        yield from (ref.handle for ref in entry.attachments)


def _contents(entry: Entry) -> Iterator[Content]:
    if entry.kind == "messaged":
        yield entry.text
    elif entry.kind == "tool_finished":
        yield entry.content
    elif entry.kind == "replied":
        yield entry.text
        yield from (call.arguments for call in entry.calls)


def _exchange_line(exchange: Sequence[Entry]) -> str:
    """Write an exchange in one line: the turn, what the model said, its calls with the first line of each result."""
    reply = exchange[0]
    if reply.kind != "replied":
        raise TypeError("an exchange begins with a reply")
    results = {entry.call_id: entry for entry in exchange if entry.kind == "tool_finished"}
    said = one_line(reply.text.shown(), _SAID_CHARACTERS)
    parts = [f'"{said}"'] if said else []
    parts += [_call(call, results.get(call.id)) for call in reply.calls[:CALLS_SHOWN]]
    if len(reply.calls) > CALLS_SHOWN:
        parts.append(f"{len(reply.calls) - CALLS_SHOWN} more calls")
    return f"turn {reply.turn}: {'; '.join(parts) or '(empty reply)'}"


def _call(call: Call, result: ToolFinished | None) -> str:
    line = f"{call.name}({one_line(arguments_line(call), _ARGUMENT_CHARACTERS)}) -> "
    if result is None:
        return f"{line}no result"
    shown = result.content.shown().lstrip()
    first = one_line(shown.splitlines()[0] if shown else "(nothing)", _RESULT_CHARACTERS)
    made = [ref.handle for ref in result.artifacts if ref.handle not in first]
    return f"{line}{'failed: ' if result.failed else ''}{first}{' [' + ', '.join(made) + ']' if made else ''}"


def _quotes(entries: Sequence[Entry], limit_bytes: int) -> str:
    messages = [entry for entry in entries if entry.kind == "messaged" and entry.text.shown().strip()]
    quotes = (
        f'- after turn {entry.turn}, {entry.by or "somebody"}: "{one_line(entry.text.shown(), _QUOTE_CHARACTERS)}"'
        for entry in reversed(messages)
    )
    kept = _fitting(quotes, limit_bytes)
    if not messages:
        return ""
    if len(kept) < len(messages):
        kept.append(f"- ({len(messages) - len(kept)} older messages are left out here)")
    return "\n".join(["What people said:", *reversed(kept)])


def _handles(entries: Sequence[Entry], limit_bytes: int, text: str) -> str:
    known = set(_HANDLE.findall(text))
    for entry in entries:
        if entry.kind == "started":
            known |= {ref.handle for ref in entry.attachments}
    handles = (handle for entry in reversed(entries) for handle in mentioned(entry))
    new = dict.fromkeys(handle for handle in handles if handle not in known)
    kept = _fitting(new, limit_bytes)
    if not new:
        return ""
    left_out = f" ({len(new) - len(kept)} older ones are left out here)" if len(kept) < len(new) else ""
    return f"Artifacts mentioned: {' '.join(reversed(kept))}{left_out}"


def _fitting(lines: Iterable[str], limit_bytes: int) -> list[str]:
    """Return the first lines that fit into the limit together; of the very first at least the beginning."""
    kept: list[str] = []
    for line in lines:
        limit_bytes -= len(line.encode()) + 1
        if limit_bytes < 0 and kept:
            break
        kept.append(line if limit_bytes >= 0 else cut(line, max(limit_bytes + len(line.encode()), 40)))
    return kept
