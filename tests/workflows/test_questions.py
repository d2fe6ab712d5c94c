"""Questions of an agent to people: asked as a tool, answered by any of the ways, with a deadline."""

import json
from datetime import timedelta

import pytest

from core.asking import Asking
from core.chat import ToolMessage
from core.entries import Answered
from tests.running import FakeModel, Running, calls, says

ASK = ("ask_human", json.dumps({"question": "Which colour?", "options": ["red", "blue"]}))
WAITS = "the question waits"


def told(model: FakeModel) -> str:
    """What the model read last."""
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message.text


async def test_an_agent_asks_a_person_and_goes_on_with_the_answer(running: Running, model: FakeModel) -> None:
    """Other calls of the turn run meanwhile; the journal says who answered."""
    model.replies = [calls(ASK, ("echo", '{"text": "a"}')), says("Done.")]
    handle = await running.start(tools=["ask_human", "echo"])
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", WAITS)
    assert [(call.id, call.question) for call in state.pending] == [("t1c1", True)]
    await handle.signal("answer", {"text": "green", "by": "ana"})
    await handle.signal("approve", {"id": "t1c1"})
    state = await running.until(handle, lambda state: len(state.acts) == 2, "both are taken in")
    assert "'green' is none of the options: red, blue" in state.recent[-2]
    assert "t1c1 does not wait for approval; send answer" in state.recent[-1]
    await handle.signal("answer", {"text": " blue ", "by": "ana"})
    result = await running.result(handle)
    assert [message.text for message in model.requests[-1].messages[-2:]] == ["blue", "a"]
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    answers = [entry for entry in entries if isinstance(entry, Answered)]
    assert [(entry.call_id, entry.by, entry.text.text) for entry in answers] == [("t1c1", "ana", "blue")]


@pytest.mark.parametrize(("default", "shown"), [("take red", "take red"), ("", "Nobody answered in time.")])
async def test_a_question_that_nobody_answers_has_the_answer_of_the_policy(
    running: Running, model: FakeModel, default: str, shown: str
) -> None:
    """At its deadline, and the agent goes on."""
    model.replies = [calls(ASK), says("Done.")]
    asking = Asking(expires=timedelta(seconds=1), default_answer=default)
    result = await running.result(await running.start(tools=["ask_human"], approval={"ask_human": asking}))
    assert (result.outcome, told(model)) == ("completed", shown)


async def test_only_those_whom_the_policy_names_may_answer(running: Running, model: FakeModel) -> None:
    """As with approvals."""
    model.replies = [calls(ASK), says("Done.")]
    handle = await running.start(tools=["ask_human"], approval={"ask_human": Asking(approvers=("eve",))})
    await running.until(handle, lambda state: bool(state.pending), WAITS)
    await handle.signal("answer", {"text": "red", "by": "ana"})
    state = await running.until(handle, lambda state: len(state.acts) == 1, "it is refused")
    assert "ana may not decide on t1c1; may: eve" in state.recent[-1]
    await handle.signal("answer", {"text": "red", "by": "eve"})
    assert (await running.result(handle)).outcome == "completed"
    assert told(model) == "red"
