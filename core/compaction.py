"""What a compaction leaves out and what stands for it: pure rules over the journal.

The last `keep_turns` exchanges stay word for word, fewer when they take more than half of the room that messages have,
one at least. Each attempt that did not help keeps fewer than the one before; the last one keeps one exchange. What was
put in place of earlier entries is made anew from the last summary that a model wrote, so that no digest is digested.
"""

from collections.abc import Sequence

from core.content import Content, cut
from core.digest import digest, with_record, without_record
from core.entries import Entry
from core.exchanges import attempts, exchange_of, last_compaction, starts
from core.frozen import Frozen
from core.messages import tokens_of
from core.prompt import configuration_of, fitting_exchanges, room_tokens
from core.state import TOKEN_BYTES
from core.steps import COMPACTIONS

LEAST_SUMMARY_TOKENS = 100
MOST_SUMMARY_TOKENS = 4000
LEAST_DIGEST_BYTES = 120


class Plan(Frozen):
    """Entries before `keep_from` are left out; `previous` is a model's summary of those before `since` (None: of none).

    `summary_tokens` is what the new summary may take; a digest may take half of that after each attempt in vain.
    """

    since: int
    keep_from: int
    previous: Content | None
    summary_tokens: int
    digest_bytes: int
    room_bytes: int


def plan(entries: Sequence[Entry], *, drop: bool = False) -> Plan | None:
    """Return what to leave out next, or None when nothing can be: only the last exchange is left.

    `drop` says that what was left out before was not enough.
    """
    configuration = configuration_of(entries)
    context = configuration.agent.context
    last, summed = last_compaction(entries), last_compaction(entries, summed=True)
    now = starts(entries, exchange_of(entries, last.keep_from) if last else 0)
    if len(now) < 2:
        return None
    room, tried = room_tokens(configuration), attempts(entries)
    fitting = fitting_exchanges(entries, context.keep_turns, room // 2, configuration.model)
    keep = len(fitting)
    if drop or keep >= len(now):
        keep = min(keep, len(now) // 2)
    if drop and tried + 1 >= COMPACTIONS:
        keep = 1
    return Plan(
        since=exchange_of(entries, summed.keep_from) if summed else 0,
        keep_from=now[-keep],
        previous=summed.summary if summed else None,
        summary_tokens=min(max(room // 10, LEAST_SUMMARY_TOKENS), MOST_SUMMARY_TOKENS),
        digest_bytes=(room * TOKEN_BYTES // 8) >> tried,
        room_bytes=room * TOKEN_BYTES,
    )


def unusable(text: str, planned: Plan, entries: Sequence[Entry], previous: str) -> str:
    """Say why a model's summary can't be used; empty when it can."""
    if not text.strip():
        return "the model's summary was empty"
    source_bytes = _source_bytes(planned, entries, previous)
    size_bytes = len(text.encode())
    if size_bytes >= source_bytes:
        return f"the model's summary ({size_bytes} bytes) was longer than what it sums up ({source_bytes} bytes)"
    return ""


def summed_up(text: str, planned: Plan, entries: Sequence[Entry]) -> str:
    """Return what stands for the entries that are left out: a model's summary, and what must not depend on it."""
    return _recorded(cut(text.strip(), 2 * planned.summary_tokens * TOKEN_BYTES), planned, entries)


def digested(planned: Plan, entries: Sequence[Entry], previous: str) -> str:
    """Return what stands for the entries that are left out without a new summary: the previous one and a digest."""
    limit_bytes = max(min(planned.digest_bytes, _source_bytes(planned, entries, previous) // 2), LEAST_DIGEST_BYTES)
    kept = cut(without_record(previous).strip(), limit_bytes) if previous else ""
    lines = digest(entries[planned.since : planned.keep_from], limit_bytes)
    return _recorded("\n\n".join(part for part in (kept, lines) if part), planned, entries)


def _source_bytes(planned: Plan, entries: Sequence[Entry], previous: str) -> int:
    left_out = entries[planned.since : planned.keep_from]
    return tokens_of(left_out, configuration_of(entries).model) * TOKEN_BYTES + len(previous.encode())


def _recorded(text: str, planned: Plan, entries: Sequence[Entry]) -> str:
    return with_record(
        text,
        entries[: planned.keep_from],
        quotes_bytes=planned.room_bytes // 20,
        handles_bytes=planned.room_bytes // 8,
    )
