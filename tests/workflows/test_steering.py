"""People steer a run: messages that the agent reads, and pauses, whenever they come."""

import pytest
from temporalio.client import Client

from core.agents import Limits
from core.chat import ChatReply, ChatRequest, UserMessage
from core.entries import Entry, Messaged, Paused, Refused, Resumed
from core.ports import BlobStore, OnText
from core.runs import RunResult
from infra.settings import Settings
from tests.entries import artifact
from tests.running import FakeModel, Running, calls, says, worker_for

ECHO = ("echo", '{"text": "a"}')


async def entries_of(running: Running, result: RunResult) -> list[Entry]:
    """Read a closed run's journal."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


async def test_a_message_is_read_before_the_model_is_asked_again(running: Running, model: FakeModel) -> None:
    """Behind the results of the turn in which it came; the journal says who said it."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "the call waits")
    await handle.signal("message", {"text": "Look at March, too.", "by": "ana"})
    await handle.signal("approve")
    result = await running.result(handle)
    assert model.requests[-1].messages[-1] == UserMessage(text="Look at March, too.")
    told = [entry for entry in await entries_of(running, result) if isinstance(entry, Messaged)]
    assert [(entry.by, entry.text.text) for entry in told] == [("ana", "Look at March, too.")]


async def test_a_message_that_comes_with_the_answer_lets_the_agent_go_on(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """It was sent while the model answered: the answer is none yet, and the message is not lost."""

    class Interrupted(FakeModel):
        async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
            del on_text
            if request.replies:
                return says("March and April.")
            await handle.signal("message", {"text": "And April?"})
            return says("Only March.")

    async with worker_for(client, tested, blobs, Interrupted([])) as running:
        handle = await running.start(run_id=f"{running.settings.task_queue}-run")
        result = await running.result(handle)
    assert (result.text.text, result.turns) == ("March and April.", 2)


async def test_a_paused_run_starts_nothing_and_goes_on_with_what_it_had(running: Running, model: FakeModel) -> None:
    """A second pause is refused, an approval is taken, and nothing runs before the resume."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "the call waits")
    await handle.signal("pause", {"by": "ana", "reason": "lunch"})
    await handle.signal("approve")
    state = await running.until(handle, lambda state: not state.pending, "the approval is taken")
    assert (state.phase, state.paused, state.running) == ("paused", "by ana: lunch", ())
    await handle.signal("pause", {})
    await handle.signal("resume", {"by": "ben"})
    result = await running.result(handle)
    assert result.calls == {"echo": 1}
    acts = [entry for entry in await entries_of(running, result) if isinstance(entry, Paused | Resumed | Refused)]
    assert [entry.kind for entry in acts] == ["paused", "refused", "resumed"]


@pytest.mark.parametrize(
    ("act", "why"),
    [
        ({"text": ""}, "it is empty"),
        ({"text": "\u0000\u0007 \n"}, "it is empty"),
        ({"text": "x" * 5000}, "text"),
        ({"text": 7}, "text must be a text"),
        ({}, "it is empty"),
    ],
)
async def test_a_message_that_says_nothing_of_use_is_refused(
    running: Running, model: FakeModel, act: dict[str, object], why: str
) -> None:
    """With the reason, in the journal; the run does not hang on it."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "the call waits")
    await handle.signal("message", act)
    state = await running.until(handle, lambda state: "refused" in state.recent[-1], "it is refused")
    assert why in state.recent[-1]
    await handle.signal("reject")
    assert (await running.result(handle)).outcome == "completed"


async def test_a_message_that_can_not_be_read_is_told_as_such(running: Running, model: FakeModel) -> None:
    """A reference to nothing wedges no run: the agent goes on and knows."""
    model.replies = [calls(ECHO), says("Done.")]
    handle = await running.start(tools=["echo"], approval={"echo": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "the call waits")
    reference = {"artifact": artifact(7).model_dump(mode="json")}
    await handle.signal("message", {"content": reference, "by": "ana"})
    await handle.signal("approve")
    assert (await running.result(handle)).outcome == "completed"
    assert model.requests[-1].messages[-1].text.startswith("(A message of ana can't be read:")


async def test_raised_limits_let_a_run_go_on_and_add_up(running: Running, model: FakeModel) -> None:
    """By as much as was said, and no more; a raise by nothing is refused."""
    model.replies = [*([calls(ECHO)] * 6), says("Done.")]
    handle = await running.start(tools=["echo"], limits=Limits(turns=2))
    await running.until(handle, lambda state: state.phase == "paused", "it is at its limit")
    await handle.signal("raise_budget", {"by": "ana"})
    await handle.signal("raise_budget", {"turns": 2, "by": "ana"})
    state = await running.until(handle, lambda state: state.turn == 4 and state.phase == "paused", "it is at it again")
    assert "limit of 4 turns reached" in state.paused
    await handle.signal("raise_budget", {"turns": 3, "tokens": 5, "by": "ben"})
    result = await running.result(handle)
    assert (result.outcome, result.turns) == ("completed", 7)
    kinds = [entry.kind for entry in await entries_of(running, result) if entry.kind in {"raised", "refused", "paused"}]
    assert kinds == ["paused", "refused", "raised", "paused", "raised"]
