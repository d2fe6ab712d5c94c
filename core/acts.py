"""The acts of people as they are sent: raw JSON from the Temporal UI, its CLI or a script. Anything may stand in it."""

import json
from typing import Any, Literal

from pydantic import Field, ValidationError

from core.content import Content, clean
from core.entries import DecisionScope, Settlement
from core.patterns import Scalar
from core.signing import Signable
from core.wording import fault

ActName = Literal["approve", "reject", "revoke", "settle", "answer", "message", "pause", "raise_budget", "resume"]
ACT_NAMES: tuple[ActName, ...] = (
    "approve",
    "reject",
    "revoke",
    "settle",
    "answer",
    "message",
    "pause",
    "raise_budget",
    "resume",
)
ACT_BYTES = 16 * 1024
"""Longest act that is read."""


class Act(Signable):
    """What a person sends. All of it may be left out: `id` when only one call waits."""

    id: str = Field(default="", max_length=1000)
    """Of a call; of a call in a run below, or of that run itself: as `state` shows it, with a / in it."""
    reason: str = Field(default="", max_length=4000)
    scope: DecisionScope = "once"
    """For `approve`: `run` lets the tool run for the rest of the run without asking again."""
    only: dict[str, Scalar] = Field(default_factory=dict)
    """With scope `run`: only calls whose arguments fit this pattern (`core.patterns`); empty: all."""
    arguments: dict[str, Any] | None = None
    """For `approve`: what the call shall run with instead. Too long for an act: in `content`, as an artifact."""
    tool: str = Field(default="", max_length=100)
    """For `revoke`: the tool that shall be asked for again."""
    digest: str = Field(default="", max_length=64)
    """For `approve` and `reject`: the digest of what the person saw, or its beginning; another one is refused."""
    settlement: Settlement | None = None
    """For `settle`: what became of the call."""
    result: str = Field(default="", max_length=4000)
    """For `settle` with `done`: what the call returned, as the model shall read it."""
    text: str = Field(default="", max_length=4000)
    """For `message`: what the agent is told before it is asked again. For `answer`: the answer."""
    content: Content | None = None
    """For `message`, instead of `text`: one that is too long to be sent, as an artifact of the run's scope. For
    `approve`, instead of `arguments`."""
    turns: int = Field(default=0, ge=0, le=100_000)
    """For `raise_budget`: by how many turns, tokens and dollars the limits are raised."""
    tokens: int = Field(default=0, ge=0, le=10**12)
    cost_usd: float = Field(default=0, ge=0, le=10**6, allow_inf_nan=False)
    model: str = Field(default="", max_length=200)
    """For `resume`: the model with which the run goes on; empty: the one that it has."""
    expected_version: int | None = None
    """The version of the state that the person saw; the act is refused when the run has moved on. None: any."""


EXAMPLES: dict[ActName, str] = {
    "approve": '{"id": "t3c1", "by": "you", "reason": "why"}',
    "reject": '{"id": "t3c1", "by": "you", "reason": "why"}',
    "revoke": '{"id": "t3c1", "by": "you", "reason": "why"}',
    "settle": '{"id": "t3c1", "settlement": "done" or "run_again" or "give_up", "by": "you"}',
    "answer": '{"id": "t3c1", "text": "the answer", "by": "you"}',
    "message": '{"text": "what the agent shall know", "by": "you"}',
    "pause": '{"by": "you", "reason": "why"}',
    "raise_budget": '{"turns": 20, "tokens": 100000, "cost_usd": 2.5, "by": "you"}',
    "resume": '{"by": "you"} or {"model": "PROVIDER:NAME", "by": "you"}',
}


def read_act(raw: bytes, example: str = EXAMPLES["approve"]) -> Act | str:
    """Read raw JSON as an act, or say what is wrong with it. Nothing at all is an act without particulars."""
    if len(raw) > ACT_BYTES:
        return f"{len(raw)} bytes are too long; at most {ACT_BYTES}"
    try:
        value = json.loads(raw.decode() or "null")
    except (ValueError, RecursionError):
        return f"it is no JSON; send {example}"
    if value is None:
        return Act()
    if isinstance(value, str):
        value = {"id": value}
    try:
        return Act.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'} {fault(e)}" for e in error.errors()[:3])
        return f"{clean(problems)}; send {example}"
