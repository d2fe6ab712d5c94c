"""What happens to a run, as entries of its journal: typed, timestamped, append-only.

`v` is the schema version of an entry; a change that old code can't read raises it and adds a migration.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.agents import PinnedAgent
from core.call_entries import (
    Answered,
    ApprovalRequested,
    Decided,
    DecisionScope,
    Delegated,
    Edited,
    Expired,
    Forwarded,
    Reminded,
    Revoked,
    Settled,
    Settlement,
    Unsettled,
)
from core.chat import StopReason, Usage
from core.content import ArtifactRef, Content
from core.entry import EntryBase
from core.frozen import Frozen
from core.tools import Call, PinnedTool

__all__ = [
    "ENTRY",
    "Answered",
    "ApprovalRequested",
    "Closed",
    "Compacted",
    "Configuration",
    "Decided",
    "DecisionScope",
    "Delegated",
    "Edited",
    "Entry",
    "EntryBase",
    "Expired",
    "Forked",
    "Forwarded",
    "Messaged",
    "Outcome",
    "PauseCause",
    "Paused",
    "Raised",
    "Refused",
    "Reminded",
    "Replied",
    "Resumed",
    "Revoked",
    "RunRef",
    "Settled",
    "Settlement",
    "Started",
    "Switched",
    "Told",
    "ToolFinished",
    "Unsettled",
    "size_bytes",
    "utc",
]

Outcome = Literal["completed", "failed", "cancelled"]
PauseCause = Literal["limit", "failure", "mistakes", "loop", "person"]


class RunRef(Frozen):
    """Which run: Temporal's workflow id and run id, and the scope that owns its bytes."""

    scope: str
    workflow_id: str
    run_id: str


class Configuration(EntryBase):
    """What is fixed when a run opens. Activities read it from the journal, at the head that the run opened with."""

    run: RunRef
    agent: PinnedAgent
    model: str
    tools: tuple[PinnedTool, ...]
    task: Content
    attachments: tuple[ArtifactRef, ...] = ()
    by: str = ""
    team: dict[str, PinnedAgent] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """The agents that may be handed tasks, here and below, by name."""


class Started(Configuration):
    """The first entry of a journal."""

    kind: Literal["started"] = "started"


class Forked(Configuration):
    """Here a new run goes on from another one's journal: all before is the origin's, up to the end of a turn of it."""

    kind: Literal["forked"] = "forked"
    origin: RunRef
    origin_turn: int


class Messaged(EntryBase):
    """What a person tells the agent; the model reads it with its next call."""

    kind: Literal["messaged"] = "messaged"
    by: str = ""
    text: Content


class Compacted(EntryBase):
    """From here on the model sees a summary instead of the entries before `keep_from` (their number, from 0).

    The journal keeps them all. `fallback` says that no summary could be had, and the oldest exchanges were dropped.
    """

    kind: Literal["compacted"] = "compacted"
    summary: Content
    keep_from: int = Field(ge=0)
    fallback: str = ""
    usage: Usage = Usage()
    prompt_tokens: int = 0
    """The size of the messages after it, without tools and instructions, estimated."""


class Replied(EntryBase):
    """A model's reply. `native` is the provider's own form, for the same model only."""

    kind: Literal["replied"] = "replied"
    text: Content
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason = "end"
    model: str = ""
    native: Content | None = None
    original: ArtifactRef | None = Field(default=None, exclude_if=lambda value: value is None)
    """What came, as JSON, when a text of it had to be changed to be one."""
    answer: Content | None = Field(default=None, exclude_if=lambda value: value is None)
    """The whole text, when this reply goes on with earlier ones that were cut at the output limit."""
    output: Content | None = Field(default=None, exclude_if=lambda value: value is None)
    """The answer as JSON, when the agent has a schema for it and this fits."""
    misfit: str = Field(default="", exclude_if=lambda value: not value)
    """Else why it does not fit."""
    seconds: float = 0.0
    prompt_tokens: int = 0
    """The size of the messages that it answers, without tools and instructions: as counted, or estimated."""


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
    untrusted: bool = False
    """Whether strangers wrote it: the model sees it fenced."""
    run: RunRef | None = Field(default=None, exclude_if=lambda value: value is None)
    """The sub-agent's run whose result it is."""
    usage: Usage = Field(default=Usage(), exclude_if=lambda value: value == Usage())
    """What that run has used, with all below it."""
    turns: int = Field(default=0, exclude_if=lambda value: not value)
    """How many turns it took."""


class Refused(EntryBase):
    """An act of a person's that could not be carried out, and why: nothing that is sent is lost silently."""

    kind: Literal["refused"] = "refused"
    act: str
    why: str
    call_id: str = Field(default="", exclude_if=lambda value: not value)
    """The call whose edited arguments can't be used: it waits for a decision again."""


class Told(EntryBase):
    """Something the model is told by the rules: an empty reply, one that was cut, a call made again and again."""

    kind: Literal["told"] = "told"
    text: str
    about: str = ""
    """What it warns of: the digest of a call that is made again and again, or a tool that fails; else a reply of no
    use."""


class Paused(EntryBase):
    """The run waits for a person: to mend something, and says what, or because one wanted it to."""

    kind: Literal["paused"] = "paused"
    cause: PauseCause
    why: str
    by: str = ""
    """Who paused it; empty when it did so by itself."""


class Resumed(EntryBase):
    """A person let the run go on; after a limit, this grants the same amount again."""

    kind: Literal["resumed"] = "resumed"
    by: str = ""
    model: str = Field(default="", exclude_if=lambda value: not value)
    """The model with which it goes on, when the person named one."""


class Switched(EntryBase):
    """A model failed for good; from here on the next one of the agent's list is asked."""

    kind: Literal["switched"] = "switched"
    model: str
    failed: str
    """The model that was asked before, and why it failed."""
    why: str


class Raised(EntryBase):
    """A person raised the run's limits by so much; a run that was paused at one goes on."""

    kind: Literal["raised"] = "raised"
    by: str = ""
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class Closed(EntryBase):
    """The last entry."""

    kind: Literal["closed"] = "closed"
    outcome: Outcome
    reason: str = ""


Entry = Annotated[
    Started
    | Forked
    | Messaged
    | Replied
    | ToolFinished
    | Compacted
    | ApprovalRequested
    | Answered
    | Reminded
    | Expired
    | Edited
    | Decided
    | Revoked
    | Forwarded
    | Delegated
    | Unsettled
    | Settled
    | Refused
    | Told
    | Paused
    | Resumed
    | Switched
    | Raised
    | Closed,
    Field(discriminator="kind"),
]

ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


def size_bytes(entry: Entry) -> int:
    """Return how many bytes an entry takes in a payload."""
    return len(entry.model_dump_json().encode())


def utc(at: datetime) -> str:
    """Write a time as people read it."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
