"""The signals of a run, taken in the order in which they came, however many come at once.

After an outage thousands may wait, and the server hands over all in one workflow task, which has two seconds. So many
are taken in a task, the rest in tasks of their own.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from core.entries import Outcome, Paused
    from core.state import TAIL_HARD_BYTES

AT_ONCE = 500
KEPT = "signals wait until the tail is written"
SOON = timedelta(milliseconds=1)


Taken = TypeVar("Taken")
Entry_contra = TypeVar("Entry_contra", contravariant=True)


class Tailed(Protocol):
    """What a state has to say to those who want to change it: of an agent's run, and of a pipeline's."""

    @property
    def tail_bytes(self) -> int:
        """The size of what is not written yet."""

    @property
    def paused(self) -> Paused | None:
        """Whether the run is paused."""

    @property
    def outcome(self) -> Outcome | None:
        """How it ended."""


class Holder(Protocol[Entry_contra]):
    """Who holds a state, and takes entries in."""

    @property
    def state(self) -> Tailed:
        """The state."""

    def apply(self, entry: Entry_contra) -> None:
        """Take in an entry."""


class Inbox(Generic[Taken]):
    """Signals that are not taken yet. `held` is the state that they change."""

    def __init__(self, held: Holder[Taken]) -> None:
        self._held = held
        self._waiting: deque[Callable[[], Taken]] = deque()
        self._task_of_last = -1
        self._taken = 0
        self._emptying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Say how many are not taken yet."""
        return len(self._waiting)

    def put(self, take: Callable[[], Taken]) -> None:
        """Take a signal, now or behind those that wait: `take` reads it as it is when its turn comes."""
        full = not self._can_be_kept() and workflow.patched(KEPT)
        if self._waiting or full or not self._has_room():
            self._waiting.append(take)
            if self._emptying is None:
                self._emptying = asyncio.create_task(self._empty())
        else:
            self._held.apply(take())

    def _has_room(self) -> bool:
        """Count what is taken in this workflow task, and say whether one more may be."""
        task = workflow.info().get_current_history_length()
        if task != self._task_of_last:
            self._task_of_last, self._taken = task, 0
        self._taken += 1
        return self._taken <= AT_ONCE

    def _can_be_kept(self) -> bool:
        """Say whether what is refused has room in the journal's tail, or could not be written anyway."""
        state = self._held.state
        return state.tail_bytes <= TAIL_HARD_BYTES or state.paused is not None or state.outcome is not None

    async def _empty(self) -> None:
        while self._waiting:
            await workflow.sleep(SOON, summary=f"{len(self._waiting)} signals are still to be read")
            await workflow.wait_condition(self._can_be_kept)
            for _ in range(min(AT_ONCE, len(self._waiting))):
                if not self._can_be_kept():
                    break
                self._held.apply(self._waiting.popleft()())
        self._emptying = None
