"""Entries and specs as tests need them: short to write, with sensible values for what a test is not about."""

from datetime import UTC, datetime, timedelta

from core.agents import Limits, PinnedAgent
from core.asking import Approval
from core.chat import StopReason, ToolSchema, Usage
from core.content import ArtifactRef, inline
from core.entries import Replied, RunRef, Started, ToolFinished
from core.journal import Head
from core.runs import RunSpec
from core.state import RunState
from core.tools import Call, Effect, PinnedTool, ToolPolicy

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
RUN = RunRef(scope="run-1", workflow_id="run-1", run_id="0197")
OPENING = Head(number=1, sha256="0" * 64)
OPEN_STATE = RunState(head=OPENING, started_at=NOW, updated_at=NOW)
"""A run that has opened and has not asked the model yet."""


def policy(name: str, effect: Effect = "read", approval: Approval = "auto") -> ToolPolicy:
    """A tool's policy."""
    return ToolPolicy(name=name, effect=effect, timeout=timedelta(seconds=30), approval=approval)


def spec(*tools: ToolPolicy, limits: Limits | None = None) -> RunSpec:
    """A run's spec; without tools it has `look` (read, auto) and `publish` (write, ask)."""
    return RunSpec(
        run=RUN,
        agent="analyst",
        model="script:test.yaml",
        limits=limits or Limits(),
        tools=tools or (policy("look"), policy("publish", "write", "ask")),
        opening=OPENING,
        heartbeat_timeout=timedelta(seconds=2),
    )


def started(task: str = "Count the birds.", attachments: tuple[ArtifactRef, ...] = ()) -> Started:
    """A run's first entry."""
    tool = PinnedTool(
        definition=ToolSchema(name="look", description="Look.", parameters={"type": "object"}), policy=policy("look")
    )
    return Started(
        at=NOW,
        run=RUN,
        agent=PinnedAgent(name="analyst", description="Answers.", tools=("look",), instructions=inline("Be brief.")),
        model="script:test.yaml",
        tools=(tool,),
        task=inline(task),
        attachments=attachments,
    )


def call(call_id: str, name: str = "look", arguments: str = "{}", problem: str | None = None) -> Call:
    """A tool call."""
    return Call(id=call_id, provider_id=f"p-{call_id}", name=name, arguments=inline(arguments), problem=problem)


def reply(turn: int, *calls: Call, text: str = "", stop_reason: StopReason = "end", tokens: int = 10) -> Replied:
    """A model's reply."""
    usage = Usage(input_tokens=tokens, output_tokens=1, cost_usd=0.01)
    return Replied(at=NOW, turn=turn, text=inline(text), calls=calls, stop_reason=stop_reason, usage=usage)


def finished(call_id: str, text: str = "seen", *, failed: bool = False, tool: str = "look") -> ToolFinished:
    """A call's result, after one attempt."""
    return ToolFinished(
        at=NOW, turn=1, call_id=call_id, tool=tool, content=inline(text), failed=failed, attempts=1, seconds=0.1
    )


def artifact(number: int, size_bytes: int = 5000) -> ArtifactRef:
    """A reference to an artifact."""
    return ArtifactRef(
        sha256=f"{number:064x}", size_bytes=size_bytes, media_type="text/csv", name=f"data-{number}.csv", preview="a,b"
    )
