"""Messages that are known from the call before: what keeps a prompt of a thousand turns as quick to build as of ten.

A conversation only grows, and its older exchanges give the same messages at every call. So a worker keeps those of its
last calls. They are a cache and nothing else: `prompt` gives the same with them and without them, and entries that are
not exactly those that the messages were made of are never answered with them.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from core.chat import AssistantMessage, Message
from core.content import ArtifactRef
from core.entries import Entry, Forked
from core.exchanges import last_starts
from core.messages import Texts, joined, word_for_word
from core.outline import NOTHING_OUTLINED, Outline

KNOWN_BYTES = 32 * 1024 * 1024
KNOWN_RUNS = 500


class Known(NamedTuple):
    """The first entries of a conversation, whole exchanges, and their messages; for this model, with these files."""

    model: str = ""
    attached: tuple[ArtifactRef, ...] = ()
    named: tuple[ArtifactRef, ...] = ()
    """The files that the prompt has named after these entries."""
    entries: tuple[Entry, ...] = ()
    messages: tuple[Message, ...] = ()
    """Joined where roles must alternate."""
    size_bytes: int = 0
    outline: Outline = NOTHING_OUTLINED
    """Of the whole conversation, also of what is not sent any more."""

    def covers(self, entries: Sequence[Entry], model: str, attached: Sequence[ArtifactRef]) -> int:
        """Return how many of the entries, from the first on, the messages are of: all that are known, or 0."""
        count = len(self.entries)
        same = self.model == model and self.attached == tuple(attached)
        # Entries that stayed in memory are the same objects, so this compares pointers.
        return count if same and tuple(islice(entries, count)) == self.entries else 0


UNKNOWN = Known()


def known_after(
    entries: Sequence[Entry], texts: Texts, model: str, attached: Sequence[ArtifactRef], known: Known
) -> Known:
    """Return the messages of all exchanges but the last one, to which results may still come.

    Args:
        entries: what goes out word for word.
        texts: the whole texts of those entries that are not known yet.
        model: the model that is asked.
        attached: the files that the prompt names already.
        known: what an earlier call returned; what does not fit is made anew.
    """
    last = next(iter(last_starts(entries, 1)), 0)
    done = known.covers(entries[:last], model, attached)
    before = known.messages if done else ()
    named = known.named if done else tuple(attached)
    fresh = tuple(word_for_word(entries[done:last], texts, model, named))
    return Known(
        model=model,
        attached=tuple(attached),
        entries=tuple(entries[:last]),
        messages=(*before[:-1], *joined([*before[-1:], *fresh])),
        named=named_after(entries[done:last], named),
        size_bytes=(known.size_bytes if done else 0) + sum(map(_size_bytes, fresh)),
        outline=known.outline,
    )


def named_after(entries: Iterable[Entry], named: Sequence[ArtifactRef]) -> tuple[ArtifactRef, ...]:
    """Return the files that the prompt has named after these entries: a fork may have attached further ones."""
    forks = (entry for entry in entries if entry.kind == "forked" and isinstance(entry, Forked))
    return (*named, *(ref for fork in forks for ref in fork.attachments))


def _size_bytes(message: Message) -> int:
    own = len(message.native or "") if isinstance(message, AssistantMessage) else 0
    return len(message.text) + own


class KnownPrompts:
    """What is known of the runs that this worker asked for last, bounded in bytes and runs. Not for several threads."""

    def __init__(self, limit_bytes: int = KNOWN_BYTES, limit_runs: int = KNOWN_RUNS) -> None:
        self._limit_bytes = limit_bytes
        self._limit_runs = limit_runs
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._size_bytes = 0

    def get(self, run_id: str) -> Known:
        """Return what is known of a run; perhaps nothing."""
        return self._known.get(run_id, UNKNOWN)

    def put(self, run_id: str, known: Known) -> None:
        """Keep what is known now; what was not asked for longest goes."""
        self._size_bytes += known.size_bytes - self._known.pop(run_id, UNKNOWN).size_bytes
        self._known[run_id] = known
        while self._size_bytes > self._limit_bytes or len(self._known) > self._limit_runs:
            self._size_bytes -= self._known.popitem(last=False)[1].size_bytes
