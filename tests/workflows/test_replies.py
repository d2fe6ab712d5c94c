"""Replies that are odd, cut, empty or too much: told to the model, bounded, and nothing of them is lost."""

import json
from itertools import pairwise

import pytest

from core.chat import ChatReply, ChatRequest, ProposedCall, ToolMessage
from core.content import Content
from core.entries import Paused, Replied
from core.steps import GO_ON, MISTAKES
from infra.demo.history import cost_of
from tests.running import FakeModel, Running, calls, says
from tests.workflows.test_agent import journal_of

ECHO = '{"text": "seven"}'


@pytest.mark.parametrize("size", [10, 3000])
async def test_a_text_that_was_cut_goes_on_and_the_answer_is_whole(
    running: Running, model: FakeModel, size: int
) -> None:
    """The model is told to go on where it ended; the result is all parts, also when they are long."""
    parts = ["one " * size, "two " * size, "three"]
    model.replies = [says(parts[0], "length"), says(parts[1], "length"), says(parts[2])]
    result = await running.result(await running.start())
    assert await running.storage().artifacts(result.scope).read_text(result.text) == "".join(parts)
    assert model.requests[-1].messages[-1].text == GO_ON
    replies = [entry for entry in await journal_of(running, result) if isinstance(entry, Replied)]
    assert [entry.answer is None for entry in replies] == [True, False, False]


async def test_a_call_that_was_cut_never_runs_and_ends_no_text(running: Running, model: FakeModel) -> None:
    """Also when its arguments happen to be whole; what is answered later stands alone."""
    cut = calls(("echo", ECHO), text="I call").model_copy(update={"stop_reason": "length"})
    model.replies = [cut, says("I can't.")]
    result = await running.result(await running.start(tools=["echo"]))
    assert (result.calls, result.text.text) == ({}, "I can't.")
    told = model.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert "call again, shorter" in told.text


async def test_text_that_never_ends_pauses(running: Running, model: FakeModel) -> None:
    """After as many tries as any mistake has; resume goes on with the same text."""
    model.replies = [*(says("ha", "length") for _ in range(MISTAKES)), says("!")]
    handle = await running.start()
    await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    await handle.signal("resume")
    assert (await running.result(handle)).text.text == "ha" * MISTAKES + "!"


async def test_useless_replies_for_ever_pause(running: Running, model: FakeModel) -> None:
    """Empty ones and unknown tools in turn: none of them makes the other count anew."""
    model.replies = [says("") if number % 2 else calls(("fly", "{}")) for number in range(20)]
    handle = await running.start(tools=["echo"])
    state = await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    assert state.paused == f"{MISTAKES} unusable replies in a row; resume lets it try again"
    assert len(model.requests) == MISTAKES
    await handle.cancel()


async def test_a_reply_that_stopped_for_no_known_reason_is_asked_for_again(running: Running, model: FakeModel) -> None:
    """It may be half an answer."""
    model.replies = [says("The birds", "other"), says("The birds are 42.")]
    result = await running.result(await running.start())
    assert result.text.text == "The birds are 42."
    assert "unknown reason" in model.requests[1].messages[-1].text


async def test_what_can_not_be_text_is_mended_and_kept_as_it_came(running: Running, model: FakeModel) -> None:
    """The prompt and the tool get clean text; the original is an artifact, byte for byte."""
    odd = ChatReply(
        text="half \ud83d",
        calls=(ProposedCall(id="call_1", name="echo", arguments='{"text": "a\0b"}'),),
        stop_reason="tool_calls",
    )
    model.replies = [odd, says("Fine.")]
    result = await running.result(await running.start(tools=["echo"]))
    first, second = [entry for entry in await journal_of(running, result) if isinstance(entry, Replied)]
    assert first.text.text == "half " + "\ufffd" * 3
    assert second.original is None
    assert first.original is not None
    artifacts = running.storage().artifacts(result.scope)
    kept = json.loads(await artifacts.read_text(Content(artifact=first.original)))
    assert kept == {"text": odd.text, "calls": [odd.calls[0].model_dump()]}


async def test_five_hundred_calls_in_one_reply_are_bounded(running: Running, model: FakeModel) -> None:
    """As many run as the agent allows; the model is told of the others, and the history stays small."""
    ids = [*("same" for _ in range(300)), *(f"id-{number}-{'x' * 500}" for number in range(200))]
    many = ChatReply(
        calls=tuple(ProposedCall(id=each, name="echo", arguments=ECHO) for each in ids), stop_reason="tool_calls"
    )

    def answer(request: ChatRequest) -> ChatReply:
        results = [message for message in request.messages if isinstance(message, ToolMessage)]
        assert len({message.call_id for message in results}) == len(results) == 200
        assert all(len(message.call_id) <= 64 for message in results)
        assert sum(message.failed for message in results) == 150
        return says("Done.")

    model.replies = [many, answer]
    handle = await running.start(tools=["echo"])
    result = await running.result(handle)
    assert (result.outcome, result.calls) == ("completed", {"echo": 50})
    assert cost_of(await handle.fetch_history()).size_bytes < 1024 * 1024
    assert not [entry for entry in await journal_of(running, result) if isinstance(entry, Paused)]


async def test_each_prompt_begins_with_the_one_before(running: Running, model: FakeModel) -> None:
    """Whatever is said, called, told and answered: a provider's cache takes all but what is new."""
    long = json.dumps({"count": 50_000})
    model.replies = [
        calls(("letters", long), ("echo", ECHO), text="I look. " * 1000),
        says(""),
        calls(("fly", "{}")),
        calls(("echo", json.dumps({"text": "x" * 9000}))),
        says("Once upon", "length"),
        says(" a time."),
    ]
    result = await running.result(await running.start(tools=["letters", "echo"]))
    assert result.outcome == "completed"
    assert len(model.requests) == 6
    for before, after in pairwise(model.requests):
        texts = [[message.model_dump_json() for message in each.messages] for each in (before, after)]
        assert texts[1][: len(texts[0])] == texts[0]
        assert (before.instructions, before.tools) == (after.instructions, after.tools)
