"""Which runs to list: a phase as people name it, in Temporal's query language."""

from typing import Literal

from temporalio.client import Client

from core.errors import InputError
from infra.temporal import AGENT_PHASE, has_search_attributes

Phase = Literal["running", "awaiting_approval", "paused", "completed", "failed", "cancelled"]

_CLOSED: dict[Phase, str] = {
    "completed": "ExecutionStatus = 'Completed'",
    "failed": "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')",
    "cancelled": "ExecutionStatus = 'Canceled'",
}


async def selection(client: Client, phase: Phase | None) -> str:
    """Return the query for runs in this phase; None is all. `running` is all that is open and waits for nobody.

    Raises:
        InputError: the phase is known only by search attributes, which the namespace does not have.
    """
    if phase is None:
        return ""
    if phase in _CLOSED:
        return _CLOSED[phase]
    if await has_search_attributes(client):
        return f"ExecutionStatus = 'Running' AND {AGENT_PHASE.name} = '{phase}'"
    if phase == "running":
        return "ExecutionStatus = 'Running'"
    raise InputError(
        f"runs can't be listed by phase {phase}: the namespace has no search attribute {AGENT_PHASE.name}; "
        f"create it (`temporal operator search-attribute create --name {AGENT_PHASE.name} --type Keyword`), "
        "or list without --phase"
    )
