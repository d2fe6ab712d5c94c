"""What a run knows of its tools, and what a call of one is."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from core.asking import Approval, Asking, RuleVerdict
from core.chat import ToolSchema
from core.content import ArtifactRef, Content
from core.frozen import Frozen, Sparse

Effect = Literal["read", "idempotent_write", "write"]

Server = Literal["worker", "workflow", "agent"]

ATTEMPTS: dict[Effect, int] = {"read": 4, "idempotent_write": 6, "write": 1}
"""How often a tool may be started: what can't be repeated runs at most once."""


class ToolPolicy(Sparse):
    """What the workflow needs to decide on a tool: recorded when the run opens, so that it never changes in flight."""

    name: str
    effect: Effect
    timeout: timedelta
    approval: Approval
    asking: Asking = Asking()
    """How a person is asked, where the agent's file says more than whether."""
    definition_digest: str = ""
    """SHA-256 (hex) of what the model is told of it: part of what a person approves."""
    attempts: int | None = Field(default=None, ge=1, le=100)
    """How often it may be started because of its own errors; None: as its effect says."""
    heartbeat: timedelta | None = None
    """After how long without a sign of life an attempt is given up; None: as the run's settings say."""
    group: str = ""
    """Calls of tools with the same group share `at_once`; empty: those of this tool alone."""
    at_once: int | None = Field(default=None, ge=1)
    """How many calls of the group may run at the same time in a run; None: as many as the agent's limits allow."""
    task_queue: str | None = None
    """Where workers of its own wait for it; None: the run's task queue."""
    untrusted: bool = False
    """Whether what it returns was written by strangers: the model sees it fenced."""
    served_by: Server = "worker"
    """Who carries a call out: a worker, the workflow itself, which asks a person, or the run of a sub-agent."""
    verifies: bool = False
    """Whether it can find out by itself if a call has taken effect."""

    @property
    def most_attempts(self) -> int:
        """How often an attempt may be started in a row; a lost worker does not count."""
        return self.attempts or ATTEMPTS[self.effect]

    @property
    def shared(self) -> str:
        """The name under which calls are counted that must not run at the same time."""
        return self.group or self.name


class PinnedTool(Frozen):
    """A tool as it was when the run opened: what the model is told of it, and its policy."""

    definition: ToolSchema
    policy: ToolPolicy


class Call(Sparse):
    """One tool call of a model's reply.

    `id` is ours and unique in the run (`t3c1` is the first call of turn 3); `provider_id` is what the provider knows it
    by. `problem` says why the call can't run (arguments that are no JSON object, a reply cut in its middle): such a
    call is never run with a guess, its reason becomes a failed result.
    """

    id: str
    provider_id: str
    name: str
    arguments: Content
    problem: str | None = None
    rule: RuleVerdict | None = None
    """What the policy's rule says of the arguments; None when there is no rule."""


Verdict = Literal["done", "not_done", "unclear"]


def verify_activity(tool: str) -> str:
    """Return the name of the activity in which a tool finds out whether a call took effect."""
    return f"{tool}.verify"


class Verified(Frozen):
    """What a tool's `verify` found out of a call whose end was not seen; `why` is for people when it is unclear."""

    verdict: Verdict
    content: Content | None = None
    """What the call would have returned, when it was done."""
    why: str = ""
    artifacts: tuple[ArtifactRef, ...] = Field(default=(), max_length=20)


class ToolOutcome(Frozen):
    """What a tool activity returns: what the model reads, and the artifacts it made. Bounded by the content rule."""

    content: Content
    failed: bool = False
    artifacts: tuple[ArtifactRef, ...] = Field(default=(), max_length=20)
    attempt: int = 1
    seconds: float = 0.0
