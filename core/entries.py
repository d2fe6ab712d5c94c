"""What happens to a run, as entries of its journal: typed, timestamped, append-only.

`v` is the schema version of an entry; a change that old code can't read raises it and adds a migration.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from core.agents import PinnedAgent
from core.chat import StopReason, Usage
from core.content import ArtifactRef, Content
from core.frozen import Frozen, Sparse
from core.tools import Call, PinnedTool

Outcome = Literal["completed", "failed", "cancelled"]
PauseCause = Literal["limit", "failure", "mistakes", "loop", "person"]
DecisionScope = Literal["once", "run"]
Settlement = Literal["done", "run_again", "give_up"]
"""What became of a call whose end was not seen: done; not done, and to run again; not done, and left."""


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


class Configuration(EntryBase):
    """What is fixed when a run opens. Activities read it from the journal, at the head that the run opened with."""

    run: RunRef
    agent: PinnedAgent
    model: str
    tools: tuple[PinnedTool, ...]
    task: Content
    attachments: tuple[ArtifactRef, ...] = ()
    by: str = ""


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


class ApprovalRequested(Sparse, EntryBase):
    """A call waits for a person: for what exactly (`digest`), why, who may decide, how many must, until when."""

    kind: Literal["approval_requested"] = "approval_requested"
    call_id: str
    tool: str
    digest: str = ""
    reason: str = ""
    risk: str = ""
    approvers: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    keys: dict[str, str] = Field(default_factory=dict)
    """Public keys of those who may decide, by name; when there are any, only what they signed counts."""
    needed: int = 1
    expires_at: AwareDatetime | None = None
    remind_at: AwareDatetime | None = None
    escalated: bool = False
    question: bool = False
    """Whether the agent asks for an answer; else for leave to run the call."""
    options: tuple[str, ...] = ()
    """The answers that are taken; empty: any."""


class Answered(EntryBase):
    """A person's answer to a question of the agent's; `by` is empty when nobody did, and it is the policy's."""

    kind: Literal["answered"] = "answered"
    call_id: str
    text: Content
    by: str = ""


class Expired(EntryBase):
    """A request's deadline has passed: it is rejected, or put to other people (`escalate_to`)."""

    kind: Literal["expired"] = "expired"
    call_id: str
    tool: str
    escalate_to: tuple[str, ...] = ()


class Reminded(EntryBase):
    """A request still waits; `remind_at` is when that is said again."""

    kind: Literal["reminded"] = "reminded"
    call_id: str
    tool: str
    remind_at: AwareDatetime


class Decided(EntryBase):
    """A person's decision on one call."""

    kind: Literal["decided"] = "decided"
    call_id: str
    approved: bool
    by: str = ""
    reason: str = ""
    scope: DecisionScope = "once"
    """`run`: the tool may run for the rest of the run without being asked for."""
    digest: str = ""
    """Of what was decided on."""
    signature: str = Field(default="", exclude_if=lambda value: not value)
    """Checked, where the request has keys; it counts once."""


class Unsettled(EntryBase):
    """A call was started and its end not seen: it may or may not have taken effect. Nothing is guessed of it.

    `asks` says that a person must settle it: the tool can't find out by itself, or could not.
    """

    kind: Literal["unsettled"] = "unsettled"
    call_id: str
    tool: str
    why: str
    asks: bool


class Settled(EntryBase):
    """What became of it: found out by the tool's own `verify`, or said by a person; `content` is its result."""

    kind: Literal["settled"] = "settled"
    call_id: str
    settlement: Settlement
    by: str = ""
    reason: str = ""
    content: Content | None = None
    artifacts: tuple[ArtifactRef, ...] = ()


class Refused(EntryBase):
    """An act of a person's that could not be carried out, and why: nothing that is sent is lost silently."""

    kind: Literal["refused"] = "refused"
    act: str
    why: str


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
    | Decided
    | Unsettled
    | Settled
    | Refused
    | Told
    | Paused
    | Resumed
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
