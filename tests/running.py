"""How tests run agents: a worker with a model of the test's choice, runs, and the replay of each that has ended."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer

from core.agents import Context, Limits, OnFailure, PinnedAgent
from core.asking import Approval, Asking
from core.chat import ChatReply, ChatRequest, ProposedCall, StopReason, Usage
from core.content import ArtifactRef, inline
from core.errors import ModelRefused
from core.ports import BlobStore, ChatModel, OnText
from core.runs import EVENTS_PER_GENERATION, Above, AgentInput, RunResult
from core.storage import Storage
from core.view import StateView
from infra.payloads import data_converter
from infra.settings import Settings
from tests.waiting import wait_until
from worker import build_worker, workflow_runner
from workflows.agent import Agent
from workflows.pipeline import Pipeline

Reply = ChatReply | Exception | Callable[[ChatRequest], ChatReply]


@dataclass
class FakeModel(ChatModel):
    """A model that gives the replies of a test, the next one for each reply that the conversation has had."""

    replies: Sequence[Reply]
    requests: list[ChatRequest] = field(default_factory=list)

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return the reply for this point of the conversation; an exception among them is raised once."""
        self.requests.append(request)
        number = request.replies
        if number >= len(self.replies):
            raise ModelRefused(f"the test has {len(self.replies)} replies only")
        reply = self.replies[number]
        if isinstance(reply, Exception):
            raise reply
        reply = reply if isinstance(reply, ChatReply) else reply(request)
        if on_text is not None:
            on_text(reply.text)
        return reply


def says(text: str, stop_reason: StopReason = "end") -> ChatReply:
    """A reply of text."""
    return ChatReply(text=text, stop_reason=stop_reason, usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.001))


def calls(*named: tuple[str, str], text: str = "") -> ChatReply:
    """A reply that calls tools: (name, raw arguments) each."""
    proposed = tuple(
        ProposedCall(id=f"call_{number}_{uuid4().hex[:6]}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(named)
    )
    return ChatReply(text=text, calls=proposed, stop_reason="tool_calls", usage=Usage(input_tokens=10, output_tokens=5))


@dataclass
class Running:
    """A worker at work for a test, with all that a test asks of it."""

    client: Client
    settings: Settings
    blobs: BlobStore

    async def start(  # noqa: PLR0913 - each is one thing that a test may vary
        self,
        *,
        tools: Sequence[str] = (),
        approval: Mapping[str, Approval | Asking] | None = None,
        secrets: dict[str, str] | None = None,
        attachments: Sequence[ArtifactRef] = (),
        limits: Limits | None = None,
        task: str = "Do it.",
        run_id: str = "",
        model: str | None = None,
        models: Sequence[str] = (),
        on_failure: OnFailure = "pause",
        output: dict[str, Any] | None = None,
        context: Context | None = None,
        events_per_generation: int = EVENTS_PER_GENERATION,
        execution_timeout: timedelta = timedelta(minutes=10),
        above: Above | None = None,
    ) -> "WorkflowHandle[Agent, RunResult]":
        """Start a run of an agent with these tools."""
        agent = PinnedAgent(
            name="tested",
            description="An agent of the tests.",
            model=models[0] if models else None,
            fallbacks=tuple(models[1:]),
            on_failure=on_failure,
            output=output,
            tools=tuple(tools),
            approval={name: Asking.model_validate(asking) for name, asking in (approval or {}).items()},
            secrets=secrets or {},
            limits=_patient(limits or Limits()),
            context=context or Context(),
            instructions=inline("Do what the test says."),
        )
        start = AgentInput(
            agent=agent,
            task=inline(task),
            attachments=tuple(attachments),
            model=model,
            by="tests",
            heartbeat_timeout=self.settings.heartbeat_timeout,
            events_per_generation=events_per_generation,
            search_attributes=True,
            above=above,
        )
        return await self.client.start_workflow(
            "Agent",
            start,
            id=run_id or f"test-{uuid4().hex[:12]}",
            task_queue=self.settings.task_queue,
            task_timeout=self.settings.workflow_task_timeout,
            execution_timeout=execution_timeout,
            result_type=RunResult,
        )

    def storage(self) -> Storage:
        """Return the storage as another process sees it: with empty caches."""
        return Storage(self.blobs)

    async def state(self, handle: "WorkflowHandle[Agent, RunResult]") -> StateView:
        """Return the run's state."""
        state: StateView = await handle.query("state", result_type=StateView)
        return state

    async def until(
        self, handle: "WorkflowHandle[Agent, RunResult]", holds: Callable[[StateView], bool], what: str
    ) -> StateView:
        """Wait until something holds of the run's state, and return it."""
        seen: list[StateView] = []

        async def check() -> bool:
            seen.append(await self.state(handle))
            return holds(seen[-1])

        await wait_until(check, timeout=timedelta(seconds=60), description=what)
        return seen[-1]

    async def result(self, handle: "WorkflowHandle[Agent, RunResult]") -> RunResult:
        """Wait for the run's end, replay its history, and return its result."""
        try:
            return await handle.result()
        finally:
            await replay(handle)


def _patient(limits: Limits) -> Limits:
    """Let a model call the same tool again and again, unless a test says how often: most tests' models do."""
    return limits if "repeats" in limits.model_fields_set else limits.model_copy(update={"repeats": None})


async def replay(handle: "WorkflowHandle[Any, Any]") -> None:
    """Replay a run's histories with the workflow as it is now; raises when it would take another way."""
    for history in await histories(handle):
        await replayer().replay_workflow(history)


async def histories(handle: "WorkflowHandle[Any, Any]") -> list[WorkflowHistory]:
    """Return the histories of all Temporal runs that the run went through, oldest first."""
    found: list[WorkflowHistory] = []
    run_id = handle.first_execution_run_id or handle.result_run_id
    while run_id:
        one = await handle._client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        found.append(one)
        run_id = one.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


def replayer() -> Replayer:
    """Return a replayer that is set up as the worker is."""
    return Replayer(
        workflows=[Agent, Pipeline],
        data_converter=data_converter,
        workflow_runner=workflow_runner(),
    )


@asynccontextmanager
async def worker_for(client: Client, settings: Settings, blobs: BlobStore, model: ChatModel) -> AsyncIterator[Running]:
    """Run a worker on a task queue of its own, with this model, while the block runs."""
    own = settings.model_copy(update={"task_queue": f"test-{uuid4().hex[:12]}"})
    async with build_worker(client, own, blobs, model):
        yield Running(client, own, blobs)
