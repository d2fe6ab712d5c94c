"""What goes into a run and what comes out: the typed input and result of workflow `Agent` and of its activities."""

from datetime import timedelta
from typing import Literal

from pydantic import AwareDatetime, Field

from core.agents import Context, Limits, OnFailure, PinnedAgent
from core.chat import Usage
from core.content import ArtifactRef, Content
from core.entries import Compacted, Entry, Outcome, Replied, RunRef
from core.frozen import Frozen
from core.journal import Head
from core.state import RunState
from core.tools import Call, ToolPolicy

START_BYTES = 512 * 1024
"""Longest start input that is sent: far below the 2 MiB at which Temporal refuses a payload."""

ATTACHMENTS = 200
"""Most attachments of a run."""


EVENTS_PER_GENERATION = 4000
"""A run goes on in a new Temporal run at this many events, before Temporal's own advice (4,096 events or 4 MB)."""


class ForkFrom(Frozen):
    """Where a fork begins: after turn `turn` of another run, of which `head` (and `tail`, not yet written) is known."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...] = ()
    turn: int = Field(ge=0)
    message: Content | None = None
    """What the agent is told at this point."""


class Above(Frozen):
    """The run right above another one, and the workflow ids of all above it, from the root on, that one last."""

    workflow_id: str
    path: tuple[str, ...]


class AgentInput(Frozen):
    """How a run starts. Made by the starter; everything long in it is content."""

    kind: Literal["start"] = "start"
    agent: PinnedAgent
    task: Content
    attachments: tuple[ArtifactRef, ...] = Field(default=(), max_length=ATTACHMENTS)
    model: str | None = None
    """Overrides the agent's model."""
    by: str = ""
    heartbeat_timeout: timedelta = Field(default=timedelta(seconds=10), gt=timedelta(0), le=timedelta(hours=1))
    """After how long without a sign of life an activity is taken for dead and started elsewhere."""
    fork: ForkFrom | None = None
    team: dict[str, PinnedAgent] = Field(default_factory=dict)
    """The agents that may be handed tasks, here and below, by name."""
    scope: str = Field(default="", max_length=1000, exclude_if=lambda value: not value)
    """The root run, when this one is a part of it: they share artifacts. Empty: it is a root itself."""
    above: Above | None = None
    """The run that is told of what waits here, and passes on what people decide there."""
    events_per_generation: int = Field(default=EVENTS_PER_GENERATION, ge=50, le=20_000)
    search_attributes: bool = False
    """Whether the namespace knows Perdure's search attributes; without them a run is only harder to find."""


class OpenInput(Frozen):
    """Input of activity `open_run`. `started_at` is when the run was started."""

    run: RunRef
    start: AgentInput
    started_at: AwareDatetime


class RunSpec(Frozen):
    """What the workflow needs to decide, resolved on a worker when the run opened; never changes in flight."""

    run: RunRef
    agent: str
    task: str = ""
    """The task in one line, for people."""
    by: str = ""
    """Who started the run."""
    model: str
    """The model that it began with; `core.switching` says which is asked now."""
    models: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """The agent's list, when it names several: each is asked when the one before fails for good."""
    on_failure: OnFailure = Field(default="pause", exclude_if=lambda value: value == "pause")
    limits: Limits
    context: Context = Context()
    tools: tuple[ToolPolicy, ...]
    tool_tokens: int = 0
    """What the tools' definitions and the instructions take of every prompt, estimated."""
    opening: Head
    heartbeat_timeout: timedelta
    events_per_generation: int = EVENTS_PER_GENERATION
    search_attributes: bool = False
    above: Above | None = None
    override: str | None = None
    """The model that was named at the start, for this run and all below it, instead of the agents' own."""

    def tool(self, name: str) -> ToolPolicy | None:
        """Return the policy of a tool, or None when the agent does not have it."""
        return next((tool for tool in self.tools if tool.name == name), None)


class Opened(Frozen):
    """Result of `open_run`: what never changes, and the state that the run begins with (a fork's is its origin's)."""

    spec: RunSpec
    state: RunState


class Continued(Frozen):
    """How a run goes on in a new Temporal run: all that the workflow knows. `generation` counts them, from 2."""

    kind: Literal["continued"] = "continued"
    spec: RunSpec
    state: RunState
    generation: int


class Position(Frozen):
    """Answer to query `position`: where the journal is, and the entries that are not yet in it."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]


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
    """Input of activity `commit`: the entries to write behind a head, and calls whose long arguments to store."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]
    calls: tuple[Call, ...] = ()


class Committed(Frozen):
    """Result of `commit`: the new head, and the calls with all but short arguments as artifacts."""

    head: Head
    calls: tuple[Call, ...] = ()


class CompactInput(Frozen):
    """Input of activity `compact`. `drop` asks for the way that needs no model: the oldest exchanges go."""

    run: RunRef
    head: Head
    tail: tuple[Entry, ...]
    turn: int
    drop: bool = False


class CompactedResult(Frozen):
    """Result of `compact`. When `head` is set, the tail and the entry were committed up to it, else neither was."""

    entry: Compacted
    head: Head | None = None


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


class DelegateInput(Frozen):
    """Input of activity `prepare_child`: a call of `delegate`, and what its run may use."""

    spec: RunSpec
    call: Call
    limits: Limits
    """Its own limits hold, too."""


class Child(Frozen):
    """Result of `prepare_child`: how the sub-agent's run starts, or why it can't, as the model reads it."""

    start: AgentInput | None = None
    problem: str = ""


class CheckInput(Frozen):
    """Input of activity `check_arguments`: a call, and the arguments that a person gave it instead of its own."""

    run: RunRef
    call: Call
    arguments: Content


class RunResult(Frozen):
    """What a run has come to. `text` is the agent's last word; artifacts are those that tools made on purpose."""

    outcome: Outcome
    text: Content
    output: Content | None = None
    """The answer as JSON, where the agent's file has a schema for it; it fits."""
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
    tainted: bool = False
    """Whether the model has read what strangers wrote."""
    late_acts: int = 0
    """Acts of people that came in while the run closed, too many to write: refused, and not in the journal."""
    scope: str = ""
    head: Head | None = None


class Manifest(Frozen):
    """Stored when a run closes, so that it can be read without Temporal."""

    v: Literal[1] = 1
    run: RunRef
    agent: str
    head: Head
    result: RunResult
    closed_at: AwareDatetime
