"""What goes into a run of a pipeline and what comes out: the typed inputs and results of workflow and activities."""

from datetime import timedelta
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from core.agents import PinnedAgent
from core.asking import Asking
from core.content import ArtifactRef, Content
from core.entries import Outcome, RunRef
from core.frozen import Frozen, Sparse
from core.journal import Head
from core.pipelines.entries import PipelineEntry
from core.pipelines.file import PipelineFile
from core.pipelines.fold import Stored
from core.pipelines.state import PipelineState, StepState
from core.runs import EVENTS_PER_GENERATION, RunSpec
from core.tools import Call


class Reuse(Frozen):
    """A rerun: what another run has come to, up to a step, is not done again."""

    origin: RunRef
    step: str
    runs: dict[str, StepState] = Field(default_factory=dict)


class PipelineInput(Frozen):
    """How a run of a pipeline starts: all of it pinned, so that editing a file changes no run."""

    kind: Literal["start"] = "start"
    pipeline: PipelineFile
    inputs: Content
    """A JSON object."""
    agents: dict[str, PinnedAgent] = Field(default_factory=dict)
    """Those of its steps, and those that they may hand tasks to."""
    model: str | None = None
    """For all agents whose step names none, instead of their own."""
    by: str = ""
    heartbeat_timeout: timedelta = Field(default=timedelta(seconds=10), gt=timedelta(0), le=timedelta(hours=1))
    events_per_generation: int = Field(default=EVENTS_PER_GENERATION, ge=50, le=20_000)
    search_attributes: bool = False
    reuse: Reuse | None = None


class PipelineSpec(Frozen):
    """What the workflow needs to decide and to run steps; never changes in flight."""

    run: RunRef
    pipeline: PipelineFile
    inputs: Content
    agents: dict[str, PinnedAgent] = Field(default_factory=dict)
    model: str | None = None
    by: str = ""
    tools: RunSpec
    """As of a run of an agent that has all the tools: by what policy they run."""
    reads: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Which steps a step selects from; under `ID-undo` those of its undo."""
    rerun_from: str = ""

    def team(self, name: str) -> dict[str, PinnedAgent]:
        """Return the agents that this one may hand tasks to, and those that they may."""
        found: dict[str, PinnedAgent] = {}
        todo = list(self.agents[name].agents)
        while todo:
            other = todo.pop()
            if other not in found and other in self.agents:
                found[other] = self.agents[other]
                todo += self.agents[other].agents
        return found


class OpenPipelineInput(Frozen):
    """Input of activity `open_pipeline`."""

    run: RunRef
    start: PipelineInput
    started_at: AwareDatetime


class OpenedPipeline(Frozen):
    """Result of `open_pipeline`."""

    spec: PipelineSpec
    state: PipelineState


class ContinuedPipeline(Frozen):
    """How a run goes on in a new Temporal run."""

    kind: Literal["continued"] = "continued"
    spec: PipelineSpec
    state: PipelineState
    generation: int


class Known(Sparse):
    """What a step may select of a run of another one."""

    key: str
    step: str
    status: str
    error: str = ""
    output: Content | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    items: int | None = None
    given: Content | None = None
    """The items of a `for_each`."""
    members: tuple[str, ...] = ()
    """The steps in a group, in their order."""


class Loop(Frozen):
    """Which item a step runs for."""

    items: Content
    index: int


class SelectInput(Sparse):
    """Input of activity `select`: the expressions of a step, and only what they may read."""

    run: RunRef
    key: str
    kind: Literal["agent", "tool", "gate", "for_each", "parallel"]
    inputs: Content
    known: tuple[Known, ...] = ()
    loop: Loop | None = None
    when: str = ""
    select: dict[str, str] = Field(default_factory=dict)
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What a tool is called with besides."""
    tool: str = ""
    asking: Asking | None = None
    task: str = ""
    items: str = ""
    attach: str = ""


class Selected(Sparse):
    """Result of `select`: what the step is given; or that it is skipped, or why it can't be given anything."""

    given: Content | None = None
    attachments: tuple[ArtifactRef, ...] = ()
    items: int | None = None
    call: Call | None = None
    skipped: bool = False
    problem: str = ""


class RecordInput(Frozen):
    """Input of activity `record`: the entries to write behind a head, and texts to store."""

    run: RunRef
    head: Head | None
    tail: tuple[PipelineEntry, ...]
    texts: dict[str, Stored] = Field(default_factory=dict)


class Recorded(Frozen):
    """Result of `record`."""

    head: Head
    texts: dict[str, Stored] = Field(default_factory=dict)


class ClosePipelineInput(Frozen):
    """Input of activity `close_pipeline`."""

    run: RunRef
    head: Head | None
    tail: tuple[PipelineEntry, ...]
    result: "PipelineResult"


class StepResult(Sparse):
    """What a run of a step has come to."""

    status: str
    output: Content | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    error: str = ""
    by: str = ""
    undo_error: str = ""
    attempts: int = 0


class PipelineResult(Frozen):
    """What a run of a pipeline has come to."""

    pipeline: str
    outcome: Outcome
    reason: str = ""
    output: Content | None = None
    """What the last step gave."""
    steps: dict[str, StepResult] = Field(default_factory=dict)
    """By run of a step; of a large run the first ones."""
    undo_failed: tuple[str, ...] = ()
    """What could not be taken back: it is still there."""
    seconds: float = 0.0
    waited_seconds: float = 0.0
    scope: str = ""
    head: Head | None = None


class PipelineManifest(Frozen):
    """Stored when a run closes, so that it can be read without Temporal."""

    v: Literal[1] = 1
    run: RunRef
    head: Head
    result: PipelineResult
    closed_at: AwareDatetime
