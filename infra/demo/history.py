"""What a run's Temporal history says of its cost: counted from the events, not from what the run says of itself."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

AGAIN = "-again-"
"""In the id of an activity that was started anew because its worker was lost: the same work once more."""

ENDED = frozenset(
    {
        EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
    }
)


@dataclass
class HistoryCost:
    """Counts over one history: events, bytes, and per activity type how often it ran and how often it was retried."""

    events: int = 0
    size_bytes: int = 0
    activities: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    ended_at: list[datetime] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """Model calls that ended well."""
        return self.activities["ask_model"]

    def first_end_after(self, moment: datetime) -> datetime | None:
        """Return when the first activity after a moment ended."""
        return next((at for at in self.ended_at if at > moment), None)


def cost_of(history: WorkflowHistory) -> HistoryCost:
    """Count a history's events, their bytes, and its activities with their retries."""
    cost = HistoryCost()
    names: dict[int, str] = {}
    for event in history.events:
        cost.events += 1
        cost.size_bytes += event.ByteSize()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            attributes = event.activity_task_scheduled_event_attributes
            names[event.event_id] = attributes.activity_type.name
            again = AGAIN in attributes.activity_id
            (cost.retries if again else cost.activities)[attributes.activity_type.name] += 1
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            cost.retries[names[started.scheduled_event_id]] += started.attempt - 1
        elif event.event_type in ENDED:
            cost.ended_at.append(_time(event))
    return cost


def _time(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime().astimezone()
