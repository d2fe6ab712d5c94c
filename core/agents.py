"""An agent as its file says, and as it is pinned when a run starts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from core.asking import Asking
from core.content import Content
from core.frozen import Frozen
from core.redaction import SECRET_NAME
from core.roles import ROLES, expanded

REFERENCE = "secret:"
"""What stands before the name of a secret."""
_REFERENCE = re.compile(REFERENCE + SECRET_NAME.pattern)
_CURE = f"write LOCAL_NAME: {REFERENCE}NAME, and give its value to the workers: a secret is never written here"


DELEGATE = "delegate"
"""The tool by which an agent hands a task to another one."""


class Limits(Frozen):
    """When a run stops and asks: it pauses, and `resume` grants the same again. None means no limit."""

    turns: int = Field(default=50, ge=1, le=100_000)
    tokens: int | None = Field(default=None, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    output_tokens: int = Field(default=8192, ge=1)
    parallel_calls: int = Field(default=8, ge=1, le=50)
    """Calls of one turn that run at the same time."""
    calls_per_turn: int = Field(default=50, ge=1, le=200)
    """Calls of one turn that are run at all; the model is told of the others that they were not."""
    repeats: int | None = Field(default=3, ge=2)
    """So many equal calls with equal results, and the model is told; at twice as many the run pauses."""
    failures: int | None = Field(default=3, ge=2)
    """So many failures of a tool in a row, and the model is told to stop using it."""
    depth: int = Field(default=3, ge=0, le=10)
    """So many levels of sub-agents there may be below this agent."""
    delegations: int = Field(default=50, ge=0, le=1000)
    """So many sub-agents a run may start, one after the other or at once."""


OnFailure = Literal["pause", "fail"]
MODELS = 10
"""Most models of an agent."""

ContextPolicy = Literal["accumulate", "compact", "reset"]


class Context(Frozen):
    """What of the conversation a model call is sent.

    `accumulate`: all of it, until the model takes no more. `compact`: when the prompt would pass `share` of the window,
    older exchanges become a summary. `reset`: each call sees the task, a digest of the results, and the last exchanges.
    """

    policy: ContextPolicy = "compact"
    window_tokens: int = Field(default=128_000, ge=1_000)
    """The model's context window, prompt and reply together."""
    share: float = Field(default=0.75, gt=0, lt=1)
    """The part of the window that prompt, tools and reserved output may take before the conversation is compacted."""
    keep_turns: int = Field(default=6, ge=1, le=100)
    """How many of the last exchanges stay word for word."""


class AgentHeader(Frozen):
    """The front matter of an agent's file."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    description: str = Field(min_length=1, max_length=400)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """In a file also a list: the first is the model, the others are its `fallbacks`."""
    fallbacks: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=MODELS - 1, exclude_if=lambda value: not value
    )
    """Models that are asked, in this order, when the one before has failed for good."""
    output: dict[str, Any] | None = Field(default=None, exclude_if=lambda value: value is None)
    """The JSON Schema of its final answer; in a file also the path of one. None: its answer is a text."""
    on_failure: OnFailure = Field(default="pause", exclude_if=lambda value: value == "pause")
    """What a run does whose model fails for good or makes no sense: it waits for a person, or ends."""
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """Agents to which it may hand tasks, by the tool `delegate`."""
    roles: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, max_length=ROLES, exclude_if=lambda value: not value
    )
    """Groups of people, by name: where a policy names one, these people are meant."""
    approval: dict[str, Asking] = Field(default_factory=dict)
    limits: Limits = Limits()
    context: Context = Context()
    secrets: dict[str, str] = Field(default_factory=dict)
    """Which secret (`secret:NAME`) its tools get under the name that they know; unnamed: the one of that name."""

    @model_validator(mode="before")
    @classmethod
    def _roles_are_written_out(cls, fields: Any) -> Any:
        return expanded(fields) if isinstance(fields, Mapping) else fields

    @field_validator("secrets", mode="before")
    @classmethod
    def _secrets_are_named(cls, secrets: object) -> object:
        """Refuse what is no reference, before any other check: it may be a secret, and no text may repeat it."""
        if not isinstance(secrets, dict):
            raise ValueError(f"must be names with references; {_CURE}")  # noqa: TRY004 - pydantic wants a ValueError
        for number, (name, reference) in enumerate(secrets.items(), start=1):
            if not (isinstance(name, str) and SECRET_NAME.fullmatch(name)):
                raise ValueError(f"what stands before the colon of number {number} is no name; {_CURE}")
            if not (isinstance(reference, str) and _REFERENCE.fullmatch(reference)):
                raise ValueError(f"{name} is no reference; {_CURE}")
        return secrets

    @model_validator(mode="before")
    @classmethod
    def _several_models(cls, fields: object) -> object:
        """Take a list of models apart."""
        if not isinstance(fields, dict) or not isinstance(fields.get("model"), list):
            return fields
        if not fields["model"]:
            raise ValueError("model is an empty list; name one, or leave it out")
        if fields.get("fallbacks"):
            raise ValueError("model is a list already: leave fallbacks out")
        first, *others = fields["model"]
        return {**fields, "model": first, "fallbacks": others}

    @model_validator(mode="after")
    def _models_are_different(self) -> "AgentHeader":
        if self.fallbacks and self.model is None:
            raise ValueError("fallbacks without a model: write model: [first, second]")
        if len(set(self.models)) < len(self.models):
            raise ValueError("model names one twice")
        return self

    @property
    def models(self) -> tuple[str, ...]:
        """All models, in their order; none when the worker's default is used."""
        return (self.model, *self.fallbacks) if self.model is not None else ()

    @field_validator("tools")
    @classmethod
    def _no_tool_twice(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({name for name in tools if tools.count(name) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return tools

    @model_validator(mode="after")
    def _agents_are_delegated_to(self) -> "AgentHeader":
        if self.agents and DELEGATE not in self.tools:
            raise ValueError(f"agents says to whom it may hand tasks: add {DELEGATE} to tools, or leave agents out")
        if DELEGATE in self.tools and not self.agents:
            raise ValueError(f"tools has {DELEGATE}: say in agents to whom it may hand tasks, such as [researcher]")
        return self

    @model_validator(mode="after")
    def _approval_is_about_own_tools(self) -> "AgentHeader":
        strangers = sorted(set(self.approval) - set(self.tools))
        if strangers:
            raise ValueError(f"approval names tools that the agent does not have: {', '.join(strangers)}")
        return self


class AgentFile(AgentHeader):
    """A whole agent file: the front matter and the instructions below it."""

    instructions: str = Field(min_length=1)


class PinnedAgent(AgentHeader):
    """The agent of a run: what its file said when the run was started. Long instructions are an artifact."""

    instructions: Content
