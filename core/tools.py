"""What a run knows of its tools, and what a call of one is."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from core.chat import ToolSchema
from core.content import ArtifactRef, Content
from core.frozen import Frozen

Effect = Literal["read", "idempotent_write", "write"]
Approval = Literal["auto", "ask"]

ATTEMPTS: dict[Effect, int] = {"read": 4, "idempotent_write": 6, "write": 1}
"""How often a tool may be started: what can't be repeated runs at most once."""


class ToolPolicy(Frozen):
    """What the workflow needs to decide on a tool: recorded when the run opens, so that it never changes in flight."""

    name: str
    effect: Effect
    timeout: timedelta
    approval: Approval


class PinnedTool(Frozen):
    """A tool as it was when the run opened: what the model is told of it, and its policy."""

    definition: ToolSchema
    policy: ToolPolicy


class Call(Frozen):
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


class ToolOutcome(Frozen):
    """What a tool activity returns: what the model reads, and the artifacts it made. Bounded by the content rule."""

    content: Content
    failed: bool = False
    artifacts: tuple[ArtifactRef, ...] = Field(default=(), max_length=20)
    attempt: int = 1
    seconds: float = 0.0
