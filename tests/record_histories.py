"""`make histories`: record runs of this version, which every later version must replay.

Recorded histories are never changed nor removed: a run that was started by an old version goes on with the new one.
"""

import asyncio
import tempfile
import tomllib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.client import WorkflowFailureError, WorkflowHandle

from core.agents import Limits, PinnedAgent
from core.asking import Asking
from core.chat import ChatReply, ChatRequest
from core.content import inline
from core.errors import ModelRefused
from core.runs import Above, AgentInput, RunResult
from infra.acts import make_act
from infra.s3 import S3BlobStore
from infra.signing_keys import Signer, public_key
from infra.stack import LocalStack
from infra.temporal import connect
from tests.running import FakeModel, Running, calls, says, worker_for
from workflows.agent import Agent

FOLDER = Path(__file__).parent / "histories"
Handle = WorkflowHandle[Agent, RunResult]
Scenario = Callable[[Running, FakeModel], Awaitable[Handle]]

ECHO = ("echo", '{"text": "a"}')


async def answer(running: Running, model: FakeModel) -> Handle:
    """One reply."""
    model.replies = [says("42")]
    return await running.start()


async def parallel_tools(running: Running, model: FakeModel) -> Handle:
    """Several calls a turn, an artifact, a failed tool, an unknown one."""
    turn = calls(ECHO, ("letters", '{"count": 50000}'), ("raises", "{}"), ("fly", "{}"))
    model.replies = [turn, turn, says("Done.")]
    return await running.start(tools=["echo", "letters", "raises"])


async def settlement(running: Running, model: FakeModel) -> Handle:
    """Two writes whose end was not seen: one is looked up by its tool, of the other a person says what became of it."""
    with tempfile.NamedTemporaryFile(suffix=".book", delete=False) as book:
        lost = f'{{"path": "{book.name}", "what": "tea", "loses": "after"}}'
    model.replies = [calls(("order", lost), ("ship", lost)), says("Done.")]
    handle = await running.start(tools=["order", "ship"])
    await running.until(handle, lambda state: bool(state.pending), "a person is asked")
    await handle.signal("settle", {"id": "t1c2", "settlement": "done", "by": "ana"})
    return handle


async def question(running: Running, model: FakeModel) -> Handle:
    """A question that a person answers, and a request that goes to other people at its deadline; limits raised."""
    model.replies = [calls(("ask_human", '{"question": "Why?"}'), ECHO), calls(ECHO), says("Done.")]
    asking = Asking(expires=timedelta(seconds=1), at_deadline="escalate", escalate_to=("eve", "ben"), needed=2)
    approval = {"echo": asking.model_copy(update={"when": "text != 'b'"})}
    handle = await running.start(tools=["ask_human", "echo"], approval=approval, limits=Limits(turns=1))
    await handle.signal("message", {"text": "Be quick.", "by": "ana"})
    await running.until(handle, lambda state: any("escalated" in line for line in state.recent), "it is escalated")
    await handle.signal("approve", {"id": "t1c2", "by": "eve"})
    await handle.signal("approve", {"id": "t1c2", "by": "ben", "scope": "run"})
    await handle.signal("answer", {"text": "Because.", "by": "ana"})
    await running.until(handle, lambda state: state.phase == "paused", "it is at its limit")
    await handle.execute_update("raise_budget", {"turns": 5, "by": "ana"})
    return handle


async def circle(running: Running, model: FakeModel) -> Handle:
    """A model that goes round in circles is told, then the run pauses; a person resumes it."""
    model.replies = [*(calls(ECHO) for _ in range(6)), says("Done.")]
    handle = await running.start(tools=["echo"], limits=Limits(repeats=3))
    await running.until(handle, lambda state: state.phase == "paused", "it pauses")
    await handle.signal("resume", {"by": "ana"})
    return handle


async def long_tail(running: Running, model: FakeModel) -> Handle:
    """A run whose journal is committed on the way."""
    model.replies = [*(calls(("letters", '{"count": 3500}')) for _ in range(15)), says("Done.")]
    return await running.start(tools=["letters"])


async def approvals(running: Running, model: FakeModel) -> Handle:
    """One call approved, one rejected, and acts that are refused."""
    model.replies = [calls(ECHO, ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: len(state.pending) == 2, "both wait")
    await handle.signal("approve", {})
    await handle.signal("nonsense", {})
    await handle.signal("approve", {"id": "t1c1", "by": "ana"})
    await handle.signal("reject", {"id": "t1c2", "by": "ana", "reason": "once is enough"})
    return handle


async def pause(running: Running, model: FakeModel) -> Handle:
    """A model that refuses, and a person who resumes."""
    model.replies = [calls(ECHO), ModelRefused("no key")]
    handle = await running.start(tools=["echo"])
    await running.until(handle, lambda state: state.phase == "paused", "it pauses")
    model.replies = [model.replies[0], says("Done.")]
    await handle.signal("resume", {"by": "ana"})
    return handle


async def cancel(running: Running, model: FakeModel) -> Handle:
    """A run that is cancelled while a call waits."""
    model.replies = [calls(ECHO), says("Never.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: state.phase == "awaiting_approval", "it waits")
    await handle.cancel()
    return handle


async def edits(running: Running, model: FakeModel) -> Handle:
    """Other arguments, refused and taken; an approval taken back; a tool allowed for some arguments."""
    model.replies = [calls(ECHO, ECHO), calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: len(state.pending) == 2, "both wait")
    await handle.signal("approve", {"id": "t1c1", "by": "ana", "arguments": {"text": 5}})
    await running.until(handle, lambda state: len(state.acts) == 2, "that is refused")
    await handle.signal("pause", {"by": "ana"})
    await handle.signal("approve", {"id": "t1c2", "by": "ana"})
    await handle.signal("revoke", {"id": "t1c2", "by": "ana"})
    await handle.signal("resume", {"by": "ana"})
    await handle.signal("approve", {"id": "t1c1", "by": "ana", "arguments": {"text": "other"}})
    await handle.signal("approve", {"id": "t1c2", "by": "ana", "scope": "run", "only": {"text": "a*"}})
    return handle


async def signed(running: Running, model: FakeModel) -> Handle:
    """A decision that must be signed: one that is not, and one that is."""
    key = Ed25519PrivateKey.generate()
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": Asking(keys={"ana": public_key(key)})})
    state = await running.until(handle, lambda state: bool(state.pending), "it waits")
    signer = Signer(key=key, file=Path("ana.pem"), lasts=timedelta(days=3650))
    await handle.signal("approve", {"by": "ana"})
    await handle.signal("approve", signer.sign(state, "approve", make_act(call="t1c1", by="ana")))
    return handle


async def above(running: Running, model: FakeModel) -> Handle:
    """A run that is told what waits below it, and passes on what is decided."""
    root, _ = await _family(running, model)
    return root


async def below(running: Running, model: FakeModel) -> Handle:
    """The run below that one."""
    root, child = await _family(running, model)
    await root.result()
    return child


async def _family(running: Running, model: FakeModel) -> tuple[Handle, Handle]:
    model.replies = [calls(ECHO), says("Done.")]
    root = await running.start(tools=["echo"], approval={"echo": "ask"})
    over = Above(workflow_id=root.id, path=(root.id,))
    child = await running.start(tools=["echo"], approval={"echo": "ask"}, above=over)
    await running.until(root, lambda state: len(state.pending) == 2, "both wait")
    await root.signal("approve", {"id": f"{child.id}/t1c1", "by": "ana"})
    await child.result()
    await running.until(root, lambda state: len(state.pending) == 1, "one is decided")
    await root.signal("approve", {"by": "ana"})
    return root, child


async def delegation(running: Running, model: FakeModel) -> Handle:
    """Two sub-agents at once, of which one can't start; the other one waits, is paused and goes on, from above."""
    hand = [("delegate", f'{{"agent": "{name}", "task": "Echo."}}') for name in ("low", "nobody")]
    lead, low = FakeModel([calls(*hand), says("Done.")]), FakeModel([calls(ECHO), says("Echoed.")])
    model.replies = [lambda request: _of(lead, low, request) for _ in range(2)]
    agents = {
        name: PinnedAgent(
            name=name,
            description=f"Is called {name}.",
            tools=("delegate",) if name == "lead" else ("echo",),
            agents=("low",) if name == "lead" else (),
            approval={"echo": Asking()} if name == "low" else {},
            instructions=inline(name),
        )
        for name in ("lead", "low")
    }
    start = AgentInput(agent=agents["lead"], task=inline("Lead."), team={"low": agents["low"]}, search_attributes=True)
    handle: Handle = await running.client.start_workflow(
        "Agent", start, id="recorded-lead", task_queue=running.settings.task_queue, result_type=RunResult
    )
    state = await running.until(handle, lambda state: bool(state.pending), "it waits below")
    await handle.signal("pause", {"by": "ana"})
    await handle.signal("resume", {"by": "ana"})
    await handle.signal("approve", {"id": state.pending[0].id, "by": "ana"})
    return handle


def _of(lead: FakeModel, low: FakeModel, request: ChatRequest) -> ChatReply:
    reply = (lead if request.instructions.startswith("lead") else low).replies[request.replies]
    if not isinstance(reply, ChatReply):
        raise TypeError("the models of the scenario say what is written here")
    return reply


SCENARIOS: tuple[Scenario, ...] = (
    answer,
    parallel_tools,
    long_tail,
    approvals,
    settlement,
    question,
    circle,
    pause,
    cancel,
    edits,
    signed,
    above,
    below,
    delegation,
)


async def record() -> None:
    """Run every scenario on a stack of its own and write its history."""
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    with tempfile.TemporaryDirectory() as folder:
        async with LocalStack(Path(folder) / "stack", flush_interval=None) as stack:
            settings = stack.settings().model_copy(update={"tools": ("tests.tools",), "data_dir": Path(folder)})
            blobs = S3BlobStore.from_settings(settings)
            for scenario in SCENARIOS:
                model = FakeModel([])
                async with worker_for(await connect(settings), settings, blobs, model) as running:
                    handle = await scenario(running, model)
                    with suppress(WorkflowFailureError):  # a cancelled run is a recorded one, too
                        await running.result(handle)
                    # Stack traces name the machine, and no replay reads them.
                    text = (await handle.fetch_history()).to_json().replace(f"{Path.cwd()}/", "")
                path = FOLDER / f"{version}-{scenario.__name__}.json"
                path.write_text(text)
                print(f"{path.name}: {len(text)} bytes")  # noqa: T201 - this is a command
            await blobs.close()


if __name__ == "__main__":
    asyncio.run(record())
