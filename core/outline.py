"""What is asked of a whole conversation at every turn, kept from turn to turn: each then looks only at what is new."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from core.entries import Compacted, Entry, Forked, Started
from core.exchanges import last_compaction
from core.switching import with_model


class Outline(NamedTuple):
    """The landmarks of a conversation's first entries."""

    entries: tuple[Entry, ...] = ()
    opening: Started | Forked | None = None
    """The last one, with the model that is asked now."""
    compacted: Compacted | None = None
    """The compaction that holds."""
    replies: int = 0
    provider_ids: frozenset[str] = frozenset()
    """The ids of all calls so far, as the providers know them."""

    def of(self, entries: Sequence[Entry]) -> "Outline":
        """Return the outline of these entries; those that this one is of are not looked at again.

        Entries that stayed in memory are the same objects, so comparing them compares pointers.
        """
        count = len(self.entries)
        known = self if tuple(islice(entries, count)) == self.entries else NOTHING_OUTLINED
        fresh = entries[len(known.entries) :]
        if not fresh:
            return known
        replies = [entry for entry in fresh if entry.kind == "replied"]
        return Outline(
            entries=tuple(entries),
            opening=with_model(known.opening, fresh),
            compacted=last_compaction(fresh) or known.compacted,
            replies=known.replies + len(replies),
            provider_ids=known.provider_ids | {call.provider_id for reply in replies for call in reply.calls},
        )


NOTHING_OUTLINED = Outline()
