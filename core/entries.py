"""What happens to a run, as entries of its journal: typed, timestamped, append-only.

`v` is the schema version of an entry; a change that old code can't read raises it and adds a migration.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from core.agents import PinnedAgent
from core.chat import StopReason, Usage
from core.content import ArtifactRef, Content
from core.frozen import Frozen
from core.tools import Call, PinnedTool

Outcome = Literal["completed", "failed", "cancelled"]
PauseCause = Literal["limit", "failure", "mistakes"]


class RunRef(Frozen):
    """Which run: Temporal's workflow id and run id, and the scope that owns its bytes."""

    scope: str
    workflow_id: str
    run_id: str


class EntryBase(Frozen):
    """What every entry has: the version of its form, when it happened, and in which turn (0: before the first)."""

    v: Literal[1] = 1
    at: AwareDatetime
    turn: int = 0


class Started(EntryBase):
    """The first entry: all that is fixed when a run opens. Later activities read their configuration here."""

    kind: Literal["started"] = "started"
    run: RunRef
    agent: PinnedAgent
    model: str
    tools: tuple[PinnedTool, ...]
    task: Content
    attachments: tuple[ArtifactRef, ...] = ()
    by: str = ""


class Replied(EntryBase):
    """A model's reply. `native` is the provider's own form, for the same model only."""

    kind: Literal["replied"] = "replied"
    text: Content
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end"
    model: str = ""
    native: Content | None = None
    seconds: float = 0.0


class ToolFinished(EntryBase):
    """The result of one call, as the model reads it."""

    kind: Literal["tool_finished"] = "tool_finished"
    call_id: str
    tool: str
    content: Content
    failed: bool = False
    artifacts: tuple[ArtifactRef, ...] = ()
    attempts: int = 0
    seconds: float = 0.0


class ApprovalRequested(EntryBase):
    """A call waits for a person."""

    kind: Literal["approval_requested"] = "approval_requested"
    call_id: str
    tool: str


class Decided(EntryBase):
    """A person's decision on one call."""

    kind: Literal["decided"] = "decided"
    call_id: str
    approved: bool
    by: str = ""
    reason: str = ""


class Refused(EntryBase):
    """An act of a person's that could not be carried out, and why: nothing that is sent is lost silently."""

    kind: Literal["refused"] = "refused"
    act: str
    why: str


class Told(EntryBase):
    """Something the model is told by the rules: an empty reply, one that was cut."""

    kind: Literal["told"] = "told"
    text: str


class Paused(EntryBase):
    """The run waits for a person to mend something, and says what."""

    kind: Literal["paused"] = "paused"
    cause: PauseCause
    why: str


class Resumed(EntryBase):
    """A person let the run go on; after a limit, this grants the same amount again."""

    kind: Literal["resumed"] = "resumed"
    by: str = ""


class Closed(EntryBase):
    """The last entry."""

    kind: Literal["closed"] = "closed"
    outcome: Outcome
    reason: str = ""


Entry = Annotated[
    Started | Replied | ToolFinished | ApprovalRequested | Decided | Refused | Told | Paused | Resumed | Closed,
    Field(discriminator="kind"),
]

ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


def size_bytes(entry: Entry) -> int:
    """Return how many bytes an entry takes in a payload."""
    return len(entry.model_dump_json())


def utc(at: datetime) -> str:
    """Write a time as people read it in lists."""
    return at.strftime("%H:%M:%S")
