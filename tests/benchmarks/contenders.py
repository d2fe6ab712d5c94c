"""What Perdure is measured against: the least that a turn can cost, and the way that most integrations go.

`Floor` is a bare workflow with two tiny activities a turn. `WholeConversation` passes all messages to each model call,
so what it sends grows with every turn.
"""

from datetime import timedelta

from pydantic import BaseModel, ConfigDict
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

TIMEOUT = timedelta(minutes=1)


class Job(BaseModel):
    """How many turns, and how many bytes a tool gives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: int
    tool_bytes: int


class Conversation(BaseModel):
    """All that was said so far."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[str, ...]


@activity.defn
async def floor_ask(turn: int) -> int:
    """Stand for a model call."""
    return turn


@activity.defn
async def floor_tool(turn: int) -> int:
    """Stand for a tool."""
    return turn


@activity.defn
async def whole_ask(conversation: Conversation) -> str:
    """Stand for a model call that is sent everything."""
    return f"call {len(conversation.messages)}"


@activity.defn
async def whole_tool(size_bytes: int) -> str:
    """Stand for a tool whose output goes back through Temporal."""
    return "x" * size_bytes


@workflow.defn
class Floor:
    """Two tiny activities a turn, one after the other."""

    @workflow.run
    async def run(self, job: Job) -> None:
        """Take the turns, and a last model call as Perdure's runs have one."""
        for turn in range(job.turns):
            asked = await workflow.execute_activity(floor_ask, turn, start_to_close_timeout=TIMEOUT)
            await workflow.execute_activity(floor_tool, asked, start_to_close_timeout=TIMEOUT)
        await workflow.execute_activity(floor_ask, job.turns, start_to_close_timeout=TIMEOUT)


@workflow.defn
class WholeConversation:
    """A model call that gets all messages, and a tool."""

    @workflow.run
    async def run(self, job: Job) -> None:
        """Take the turns."""
        messages: tuple[str, ...] = ("Do it.",)
        for _ in range(job.turns):
            asked = await workflow.execute_activity(
                whole_ask, Conversation(messages=messages), start_to_close_timeout=TIMEOUT
            )
            told = await workflow.execute_activity(whole_tool, job.tool_bytes, start_to_close_timeout=TIMEOUT)
            messages = (*messages, asked, told)
        await workflow.execute_activity(whole_ask, Conversation(messages=messages), start_to_close_timeout=TIMEOUT)


def contenders_worker(client: Client, task_queue: str) -> Worker:
    """A worker for both, set up as Perdure's is."""
    passed_through = SandboxRestrictions.default.with_passthrough_modules("tests.benchmarks")
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[Floor, WholeConversation],
        activities=[floor_ask, floor_tool, whole_ask, whole_tool],
        workflow_runner=SandboxedWorkflowRunner(restrictions=passed_through),
    )
