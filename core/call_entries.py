"""What happens to a call on its way to its result, as entries of the journal: people decide, time passes."""

from typing import Literal

from pydantic import AwareDatetime, Field

from core.content import ArtifactRef, Content
from core.entry import EntryBase
from core.frozen import Sparse
from core.tools import Call

DecisionScope = Literal["once", "run"]
Settlement = Literal["done", "run_again", "give_up"]
"""What became of a call whose end was not seen: done; not done, and to run again; not done, and left."""


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
    path: tuple[str, ...] = ()
    """The workflow ids of the runs above the one that asks, from the root on."""
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


class Edited(EntryBase):
    """A person approves a call with other arguments; they are checked before it counts.

    What follows is `Decided` with the call as it will run, or `Refused` with what is wrong with the arguments.
    """

    kind: Literal["edited"] = "edited"
    call_id: str
    arguments: Content
    by: str = ""
    reason: str = ""
    digest: str = ""
    """Of the request that the person saw."""
    signature: str = Field(default="", exclude_if=lambda value: not value)


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
    only: dict[str, str | int | float | bool | None] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """For `run`: only calls whose arguments fit this pattern (`core.patterns`); empty: all."""
    call: Call | None = Field(default=None, exclude_if=lambda value: value is None)
    """What was approved instead of what the model proposed: the same call with other arguments."""
    signature: str = Field(default="", exclude_if=lambda value: not value)
    """Checked, where the request has keys; it counts once."""


class Revoked(EntryBase):
    """A person takes back what was approved, before it has begun: one call, or a tool for the rest of the run."""

    kind: Literal["revoked"] = "revoked"
    call_id: str = ""
    tool: str = ""
    by: str = ""
    reason: str = ""
    signature: str = Field(default="", exclude_if=lambda value: not value)


class Delegated(EntryBase):
    """A call has started a sub-agent, with a share of what is left of the run's limits (None: no limit)."""

    kind: Literal["delegated"] = "delegated"
    call_id: str
    agent: str
    to: str
    """The workflow id of its run."""
    task: str = ""
    """In one line."""
    tokens: int | None = None
    cost_usd: float | None = None


class Forwarded(EntryBase):
    """A person's act on a call, or a pause, of a run below this one: it was passed on, and is decided there."""

    kind: Literal["forwarded"] = "forwarded"
    act: str
    to: str
    """The workflow id of the run right below this one."""
    target: str = ""
    """What the act is about, as that run knows it; empty: the run itself."""
    by: str = ""
    said: Content
    """The act as it was passed on, in JSON."""


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
