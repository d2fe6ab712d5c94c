"""Sub-agents: runs below a run, with a journal of their own; their results, costs and requests come up."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from core.agents import Limits, PinnedAgent
from core.asking import Asking
from core.chat import ChatReply, ChatRequest, ToolMessage
from core.content import inline
from core.entries import Delegated, Entry, ToolFinished
from core.errors import ModelRefused
from core.ports import BlobStore, OnText
from core.runs import AgentInput, RunResult
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, replay, says, worker_for
from workflows.agent import Agent

Handle = WorkflowHandle[Agent, RunResult]


class Team(FakeModel):
    """A model for each agent, by the first line of its instructions."""

    def __init__(self, **agents: Any) -> None:
        super().__init__([])
        self.agents = {name: FakeModel(replies) for name, replies in agents.items()}

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Answer as the agent whose instructions these are."""
        return await self.agents[request.instructions.split("\n")[0].strip()].reply(request, on_text)


def agent(
    name: str, *tools: str, agents: tuple[str, ...] = (), limits: Limits | None = None, **more: Any
) -> PinnedAgent:
    """An agent whose instructions are its name."""
    return PinnedAgent(
        name=name,
        description=f"Is called {name}.",
        tools=(*tools, *(["delegate"] if agents else [])),
        agents=agents,
        limits=limits or Limits(repeats=None),
        instructions=inline(name),
        **more,
    )


def handing(*named: tuple[str, str]) -> ChatReply:
    """A reply that hands tasks to agents."""
    return calls(*(("delegate", json.dumps({"agent": name, "task": task})) for name, task in named))


Start = Callable[..., Any]


@pytest.fixture
async def start(client: Client, tested: Settings, blobs: BlobStore) -> AsyncIterator[Start]:
    """Start a lead with a team, whose models say what the test wants."""
    async with worker_for(client, tested, blobs, model := Team()) as running:

        async def begin(team: list[PinnedAgent], **replies: Any) -> tuple[Running, Handle]:
            model.agents = {name: FakeModel(each) for name, each in replies.items()}
            lead, *others = team
            began = AgentInput(
                agent=lead,
                task=inline("Lead."),
                by="tests",
                team={other.name: other for other in others},
                heartbeat_timeout=running.settings.heartbeat_timeout,
                search_attributes=True,
            )
            handle: Handle = await running.client.start_workflow(
                "Agent",
                began,
                id=f"test-{uuid4().hex[:12]}",
                task_queue=running.settings.task_queue,
                execution_timeout=timedelta(minutes=10),
                result_type=RunResult,
            )
            return running, handle

        begin.model = model  # type: ignore[attr-defined]  # what the agents were asked
        yield begin


async def entries_of(running: Running, result: RunResult) -> list[Entry]:
    """A closed run's journal."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


def told(start: Any, name: str) -> list[ToolMessage]:
    """The results that an agent's model read last."""
    return [each for each in start.model.agents[name].requests[-1].messages if isinstance(each, ToolMessage)]


async def test_tasks_are_handed_to_sub_agents_at_once_and_their_results_come_back(start: Any, tmp_path: Path) -> None:
    """Only what they said and made comes up, not how they came to it; what they used is the run's."""
    team = [agent("lead", agents=("one", "two")), agent("one", "letters"), agent("two")]
    running, handle = await start(
        team,
        lead=[handing(("one", "Make letters."), ("two", "Say two.")), says("All done.")],
        one=[calls(("letters", '{"count": 50000}')), says("One.")],
        two=[says("Two.")],
    )
    result = await running.result(handle)
    assert (result.outcome, result.turns, result.calls) == ("completed", 2, {"delegate": 2})
    first, second = told(start, "lead")
    assert first.text.startswith("One.")
    assert second.text == "Two."
    (request, *_) = start.model.agents["two"].requests
    assert [message.text for message in request.messages] == ["Say two."]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10 * 5, 5 + 2 + 5 + 2 + 2)
    entries = await entries_of(running, result)
    assert [(entry.agent, entry.to) for entry in entries if isinstance(entry, Delegated)] == [
        ("one", f"{handle.id}.t1c1"),
        ("two", f"{handle.id}.t1c2"),
    ]
    child: Handle = running.client.get_workflow_handle(f"{handle.id}.t1c1", result_type=RunResult)
    below = await running.result(child)
    assert (below.scope, below.calls) == (result.scope, {"letters": 1})
    assert {ref.sha256 for ref in below.artifacts} <= {ref.sha256 for ref in result.artifacts}
    definition = next(tool for tool in start.model.agents["lead"].requests[0].tools if tool.name == "delegate")
    assert "- one: Is called one." in definition.description


async def test_what_cannot_be_handed_on_is_told_to_the_model(start: Any) -> None:
    """Unknown agents, no task, artifacts that there are not, and more levels than there may be."""
    team = [
        agent("lead", agents=("lead",), limits=Limits(depth=2, repeats=None)),
        agent("lead", agents=("lead",), limits=Limits(depth=2, repeats=None)),
    ]
    wrong = calls(
        ("delegate", '{"agent": "nobody", "task": "x"}'),
        ("delegate", '{"agent": "lead", "task": "  "}'),
        ("delegate", '{"agent": "lead", "task": "x", "attachments": ["a:123456789012"]}'),
        ("delegate", '{"agent": "lead", "task": "Go on."}'),
    )
    running, handle = await start(team, lead=[wrong, says("Enough.")])
    result = await running.result(handle)
    assert (result.outcome, result.turns) == ("completed", 2)
    texts = [message.text for message in told(start, "lead")]
    assert "there is no agent 'nobody' to hand a task to; there are: lead" in texts[0]
    assert "the task is empty" in texts[1]
    assert "a:123456789012" in texts[2]
    assert any("no sub-agents below this agent" in message.text for message in _all_told(start, "lead"))


def _all_told(start: Any, name: str) -> list[ToolMessage]:
    requests = start.model.agents[name].requests
    return [each for request in requests for each in request.messages if isinstance(each, ToolMessage)]


async def test_a_request_two_levels_down_is_decided_at_the_root(start: Any, tmp_path: Path) -> None:
    """The root waits for people then, and a pause of it reaches them all."""
    note = ("note", json.dumps({"path": str(tmp_path / "a"), "text": "hello"}))
    team = [
        agent("lead", agents=("middle",)),
        agent("middle", agents=("low",)),
        agent("low", "note", approval={"note": Asking()}),
    ]
    running, handle = await start(
        team,
        lead=[handing(("middle", "Let it be noted.")), says("Noted.")],
        middle=[handing(("low", "Note it.")), says("It is.")],
        low=[calls(note), says("Done.")],
    )
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", "the root waits")
    middle = f"{handle.id}.t1c1"
    assert [call.id for call in state.pending] == [f"{middle}/{middle}.t1c1/t1c1"]
    await handle.signal("pause", {"by": "ana"})
    low: Handle = running.client.get_workflow_handle(f"{middle}.t1c1", result_type=RunResult)
    await running.until(low, lambda state: bool(state.paused), "the lowest is paused, too")
    await handle.signal("resume", {"by": "ana"})
    await running.until(low, lambda state: not state.paused, "it goes on")
    await handle.execute_update("approve", {"id": state.pending[0].id, "by": "ana"})
    result = await running.result(handle)
    assert (result.outcome, (tmp_path / "a").read_text()) == ("completed", "hello\n")
    assert result.waited_seconds > 0


async def test_a_sub_agent_that_fails_is_a_failed_result_at_once(start: Any) -> None:
    """With its reason; the lead goes on."""
    team = [agent("lead", agents=("one",)), agent("one", "nothing_like_it")]
    running, handle = await start(team, lead=[handing(("one", "Try.")), says("It failed.")], one=[])
    assert (await running.result(handle)).outcome == "completed"
    (message,) = told(start, "lead")
    assert (message.failed, "unknown tool 'nothing_like_it'" in message.text) == (True, True)


async def test_a_cancel_reaches_sub_agents_that_wait(start: Any, tmp_path: Path) -> None:
    """Each journal is closed properly."""
    note = ("note", json.dumps({"path": str(tmp_path / "a"), "text": "hello"}))
    team = [agent("lead", agents=("low",)), agent("low", "note", approval={"note": Asking()})]
    running, handle = await start(team, lead=[handing(("low", "Note it."))], low=[calls(note)])
    await running.until(handle, lambda state: bool(state.pending), "it waits below")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await running.result(handle)
    low: Handle = running.client.get_workflow_handle(f"{handle.id}.t1c1", result_type=RunResult)
    with pytest.raises(WorkflowFailureError):
        await low.result()
    state = await running.state(low)
    assert (state.outcome, state.calls) == ("cancelled", {})
    await replay(low)


async def test_the_limits_are_those_of_the_tree(start: Any) -> None:
    """What is left is shared among those that start at once; what they do not use is there for the next."""
    limits = Limits(tokens=1000, repeats=None)
    team = [agent("lead", agents=("one", "two"), limits=limits), agent("one"), agent("two")]
    running, handle = await start(
        team,
        lead=[handing(("one", "Try."), ("two", "Try.")), handing(("one", "Again.")), says("Done.")],
        one=[says("One.")],
        two=[says("Two.")],
    )
    result = await running.result(handle)
    entries = await entries_of(running, result)
    shares = [entry.tokens for entry in entries if isinstance(entry, Delegated)]
    assert shares[0] == (1000 - 15) // 2
    assert shares[2] is not None
    assert shares[0] < shares[2] < 1000
    used = [entry.usage.input_tokens for entry in entries if isinstance(entry, ToolFinished)]
    assert used == [10, 10, 10]


async def test_a_model_that_refuses_pauses_the_sub_agent_and_that_shows_above(start: Any) -> None:
    """It is resumed from there."""
    team = [agent("lead", agents=("one",)), agent("one")]
    running, handle = await start(team, lead=[handing(("one", "Try.")), says("Done.")], one=[ModelRefused("no key")])
    state = await running.until(handle, lambda state: any(run.paused for run in state.below), "its pause shows")
    assert "no key" in state.below[0].paused
    start.model.agents["one"].replies = [says("One.")]
    await handle.signal("resume", {"id": f"{handle.id}.t1c1/", "by": "ana"})
    assert (await running.result(handle)).outcome == "completed"
