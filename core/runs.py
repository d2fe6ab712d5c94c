"""What goes into a run and what comes out: the typed input and result of workflow `Agent` and of its activities."""

from datetime import timedelta

from pydantic import Field

from core.agents import Limits, PinnedAgent
from core.chat import Usage
from core.content import ArtifactRef, Content
from core.entries import Entry, Outcome, Replied, RunRef
from core.frozen import Frozen
from core.journal import Head
from core.tools import Call, ToolPolicy

START_BYTES = 512 * 1024
"""Longest start input that is sent: far below the 2 MiB at which Temporal refuses a payload."""

ATTACHMENTS = 200
"""Most attachments of a run."""


class AgentInput(Frozen):
    """How a run starts. Made by the starter; everything long in it is content."""

    agent: PinnedAgent
    task: Content
    attachments: tuple[ArtifactRef, ...] = Field(default=(), max_length=ATTACHMENTS)
    model: str | None = None
    """Overrides the agent's model."""
    by: str = ""
    heartbeat_timeout: timedelta = timedelta(seconds=10)
    """After how long without a sign of life an activity is taken for dead and started elsewhere."""
    search_attributes: bool = False
    """Whether the namespace knows Perdure's search attributes; without them a run is only harder to find."""


class OpenInput(Frozen):
    """Input of activity `open_run`."""

    run: RunRef
    start: AgentInput


class RunSpec(Frozen):
    """What the workflow needs to decide, resolved on a worker when the run opened; never changes in flight."""

    run: RunRef
    agent: str
    model: str
    limits: Limits
    tools: tuple[ToolPolicy, ...]
    opening: Head
    heartbeat_timeout: timedelta

    def tool(self, name: str) -> ToolPolicy | None:
        """Return the policy of a tool, or None when the agent does not have it."""
        return next((tool for tool in self.tools if tool.name == name), None)


class AskInput(Frozen):
    """Input of activity `ask_model`: where the conversation is, and its newest entries; never the conversation."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]
    turn: int


class Asked(Frozen):
    """Result of `ask_model`. When `head` is set, the tail and the reply were committed up to it, else neither was."""

    reply: Replied
    head: Head | None = None


class CommitInput(Frozen):
    """Input of activity `commit`: the entries to write behind a head."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]


class CloseInput(Frozen):
    """Input of activity `close_run`: the last entries, `Closed` among them, and what the manifest shall say."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]
    agent: str
    result: "RunResult"


class ToolInput(Frozen):
    """Input of every tool's activity. The journal's first node (`opening`) has the run's configuration."""

    run: RunRef
    opening: Head
    call: Call
    turn: int


class RunResult(Frozen):
    """What a run has come to. `text` is the agent's last word; artifacts are those that tools made on purpose."""

    outcome: Outcome
    text: Content
    reason: str = ""
    artifacts: tuple[ArtifactRef, ...] = ()
    turns: int = 0
    calls: dict[str, int] = Field(default_factory=dict)
    """How often each tool was called."""
    usage: Usage = Usage()
    model: str = ""
    seconds: float = 0.0
    """Wall time from start to close, waiting included."""
    waited_seconds: float = 0.0
    """Of this, waiting for people."""
    scope: str = ""
    head: Head | None = None


class Manifest(Frozen):
    """Stored when a run closes, so that it can be read without Temporal."""

    run: RunRef
    agent: str
    head: Head
    result: RunResult
