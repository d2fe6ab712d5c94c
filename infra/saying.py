"""What a run's model writes at this moment: its activity's newest heartbeat, asked of the server, not of a worker."""

from temporalio.client import WorkflowExecutionDescription
from temporalio.exceptions import TemporalError

from core.content import clean, one_line

ASKING = "ask_model"
SHOWN_CHARACTERS = 200


async def saying(description: WorkflowExecutionDescription) -> str:
    """Return the end of the reply that streams in; empty when none does, or when it can't be read."""
    for pending in description.raw_description.pending_activities:
        if pending.activity_type.name == ASKING and pending.heartbeat_details.payloads:
            try:
                (text,) = await description.data_converter.decode(pending.heartbeat_details.payloads[:1], [str])
            except (TemporalError, RuntimeError, ValueError):
                return ""
            return one_line(clean(text), SHOWN_CHARACTERS) if isinstance(text, str) else ""
    return ""
