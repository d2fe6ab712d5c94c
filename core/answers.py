"""Answers that came in several replies, because each was cut at the model's output limit: they are one text again."""

from collections.abc import Sequence

from core.content import Content
from core.entries import Entry, Replied

_BETWEEN = frozenset({"told", "paused", "resumed", "switched", "refused", "raised"})
"""What may stand between a reply that was cut and the one that goes on with it."""


def begun(entries: Sequence[Entry]) -> Content | None:
    """Return the text that the next reply goes on with; None when the last one was not cut, or more was said since."""
    for entry in reversed(entries):
        if isinstance(entry, Replied):
            cut = entry.stop_reason == "length" and not entry.calls and bool(entry.text.shown().strip())
            return (entry.answer or entry.text) if cut else None
        if entry.kind not in _BETWEEN:
            return None
    return None
