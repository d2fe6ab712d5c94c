"""What the histories of a run say of its turns: when each began, and what it added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import pairwise

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory


@dataclass
class Turn:
    """From a model call's schedule to the next one's. `began_ms` is the server's time; a continue-as-new counts in."""

    began_ms: float
    events: int = 0
    size_bytes: int = 0


def turns_of(histories: Iterable[WorkflowHistory], ask: str = "ask_model") -> list[Turn]:
    """Return the turns of a run, over all its Temporal runs; what came before the first one is left out."""
    turns: list[Turn] = []
    for event in (event for history in histories for event in history.events):
        if scheduled(event) == ask:
            turns.append(Turn(began_ms=event.event_time.ToDatetime(tzinfo=UTC).timestamp() * 1000))
        if turns:
            turns[-1].events += 1
            turns[-1].size_bytes += event.ByteSize()
    return turns


def scheduled(event: HistoryEvent) -> str:
    """Return the name of the activity that an event schedules; empty when it is another event."""
    if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
        return ""
    return event.activity_task_scheduled_event_attributes.activity_type.name


def latencies_ms(turns: Sequence[Turn]) -> list[float]:
    """Return how long each turn took until the next one began; the last one's end is not known."""
    return [after.began_ms - turn.began_ms for turn, after in pairwise(turns)]


def size_bytes(history: WorkflowHistory) -> int:
    """Return the bytes of a history's events."""
    return sum(event.ByteSize() for event in history.events)
