"""A pipeline as its file says: `pipelines/NAME.yaml`. What runs is this, pinned when the run starts.

Steps of one list run one after the other, unless `needs` says otherwise; those of a `parallel` all at once. Data flows
only where a step selects it (JMESPath): `inputs.NAME`, `steps.ID.output`, and in a `for_each` also `item` and `index`.

```
steps.ID.output      what the step gave: JSON as data, else its text; of a for_each a list, of a parallel an object
steps.ID.text        the same as it stands: never taken for JSON
steps.ID.status      done, failed, skipped, blocked, rejected
steps.ID.error       why it failed
steps.ID.artifacts   [{handle, name, media_type, size_bytes}]
steps.ID.items       of a for_each: for each item {item, STEP: {output, status, ...}}
```
"""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from core.asking import Asking
from core.frozen import Frozen

STEP_ID = r"^[a-z][a-z0-9_]{0,39}$"
SELECTION_CHARACTERS = 1000
STEPS = 200
"""Most steps of a file."""
DEPTH = 3
"""So deep steps may stand in steps."""

StepKind = Literal["agent", "tool", "gate", "for_each", "parallel"]
OnFailure = Literal["stop", "continue", "compensate"]
InputType = Literal["string", "number", "boolean", "list", "object"]

Selection = Annotated[str, Field(min_length=1, max_length=SELECTION_CHARACTERS)]
StepId = Annotated[str, Field(pattern=STEP_ID)]


class InputSpec(Frozen):
    """An input of the pipeline. Without a default it must be given."""

    type: InputType = "string"
    description: str = Field(default="", max_length=400)
    default: Any = None

    @model_validator(mode="after")
    def _default_fits(self) -> "InputSpec":
        if self.default is not None and not is_of(self.default, self.type):
            raise ValueError(f"the default is no {self.type}")
        return self


def is_of(value: object, kind: InputType) -> bool:
    """Say whether a value is of a type."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)


class Retry(Frozen):
    """How often a step is tried when it failed, and how long after the first failure; then twice as long each time."""

    attempts: int = Field(default=1, ge=1, le=20)
    wait: timedelta = Field(default=timedelta(seconds=1), ge=timedelta(0), le=timedelta(days=1))


class ToolUse(Frozen):
    """A call of a tool: arguments as they stand, and such as are selected."""

    tool: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(default_factory=dict)
    select: dict[str, Selection] = Field(default_factory=dict, max_length=50)
    retry: Retry = Retry()
    timeout: timedelta | None = Field(default=None, gt=timedelta(0))
    """Longest time of one attempt; None: as the tool says."""


class StepBase(Frozen):
    """What every step has."""

    id: StepId
    description: str = Field(default="", max_length=400)
    needs: tuple[StepId, ...] | None = None
    """Steps beside it that must have ended; left out: the one before it, in a `parallel` none."""
    when: str = Field(default="", max_length=SELECTION_CHARACTERS)
    """It is skipped unless this holds."""
    on_failure: OnFailure | None = None
    """None: as the pipeline says. For a gate, what follows when it is rejected; there None is `compensate`."""


class AgentStep(StepBase):
    """An agent's run: it is told `task`, and what is selected for it; its last word is the output."""

    kind: Literal["agent"]
    agent: str = Field(min_length=1, max_length=63)
    task: str = Field(min_length=1, max_length=16_000)
    select: dict[str, Selection] = Field(default_factory=dict, max_length=50)
    attach: str = Field(default="", max_length=SELECTION_CHARACTERS)
    """Selects handles of artifacts that it gets as files."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    retry: Retry = Retry()
    timeout: timedelta | None = Field(default=None, gt=timedelta(0))
    undo: ToolUse | None = None


class ToolStep(StepBase, ToolUse):
    """A call of a tool; its result is the output."""

    kind: Literal["tool"]
    approval: Asking | None = None
    """Whether a person is asked first; None: as the tool says."""
    undo: ToolUse | None = None
    """Takes back what the step did, also when it did only a part; runs when the pipeline compensates."""


class GateStep(StepBase):
    """A person approves or rejects; they are shown what is selected."""

    kind: Literal["gate"]
    ask: str = Field(min_length=1, max_length=2000)
    show: dict[str, Selection] = Field(default_factory=dict, max_length=50)
    approval: Asking = Asking()

    @model_validator(mode="after")
    def _asks(self) -> "GateStep":
        if self.approval.mode != "ask" or self.approval.when:
            raise ValueError("a gate always asks: leave mode out, and write a condition as the step's own `when`")
        return self


class ForEachStep(StepBase):
    """Runs its steps for each item of a list, so many items at once."""

    kind: Literal["for_each"]
    items: Selection
    at_once: int = Field(default=1, ge=1, le=50)
    steps: tuple["Step", ...] = Field(min_length=1)


class ParallelStep(StepBase):
    """Runs its steps at the same time."""

    kind: Literal["parallel"]
    at_once: int = Field(default=8, ge=1, le=50)
    steps: tuple["Step", ...] = Field(min_length=1)


Step = Annotated[AgentStep | ToolStep | GateStep | ForEachStep | ParallelStep, Field(discriminator="kind")]
Group = ForEachStep | ParallelStep


class PipelineFile(Frozen):
    """A whole pipeline."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    description: str = Field(min_length=1, max_length=400)
    inputs: dict[StepId, InputSpec] = Field(default_factory=dict, max_length=50)
    on_failure: OnFailure = "stop"
    on_cancel: Literal["stop", "compensate"] = "stop"
    """What a cancel does with steps that have an `undo`."""
    secrets: dict[str, str] = Field(default_factory=dict)
    """As in an agent's file: which secret its tools get under the name that they know."""
    steps: tuple[Step, ...] = Field(min_length=1)


def selections(step: AgentStep | ToolStep | GateStep | ForEachStep | ParallelStep) -> dict[str, str]:
    """Return all selections of a step by their field, such as `select.topic`; not those of steps in it."""
    found = {"when": step.when}
    match step:
        case AgentStep():
            found |= {"attach": step.attach, **{f"select.{name}": text for name, text in step.select.items()}}
        case ToolStep():
            found |= {f"select.{name}": text for name, text in step.select.items()}
        case GateStep():
            found |= {f"show.{name}": text for name, text in step.show.items()}
        case ForEachStep():
            found |= {"items": step.items}
        case ParallelStep():
            pass
    if isinstance(step, AgentStep | ToolStep) and step.undo is not None:
        found |= {f"undo.select.{name}": text for name, text in step.undo.select.items()}
    return {field: text for field, text in found.items() if text}
