"""A run on the real servers: turns, tools, results, the journal, and what is recorded of it."""

import json

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from core.chat import ChatRequest, ToolMessage
from core.entries import Closed, Entry, Replied, Started, ToolFinished
from core.runs import RunResult
from infra.demo.history import cost_of
from tests.running import FakeModel, Running, calls, replay, says

HEARTBEAT = {
    "agent": {"name": "a", "description": "b", "instructions": {"text": "c"}},
    "task": {"text": "d"},
    "heartbeat_timeout": "-PT5S",
}
"""A start that Temporal would choke on: fine but for one number."""


async def journal_of(running: Running, result: RunResult) -> list[Entry]:
    """Read a closed run's journal as a stranger would: from blob storage alone."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


async def test_an_answer_completes_the_run(running: Running, model: FakeModel) -> None:
    """One model call, and a typed result."""
    model.replies = [says("42 birds")]
    result = await running.result(await running.start(task="How many birds?"))
    assert (result.outcome, result.text.text, result.turns) == ("completed", "42 birds", 1)
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.cost_usd) == (10, 2, 0.001)
    assert model.requests[0].messages[0].model_dump()["text"] == "How many birds?"


async def test_a_tools_result_reaches_the_model(running: Running, model: FakeModel) -> None:
    """The model is asked again with what the tool returned."""
    model.replies = [calls(("echo", '{"text": "seven"}')), says("It said seven.")]
    result = await running.result(await running.start(tools=["echo"]))
    assert result.calls == {"echo": 1}
    last = model.requests[1].messages[-1]
    assert isinstance(last, ToolMessage)
    assert (last.text, last.failed) == ("seven", False)


async def test_each_tool_is_an_activity_of_its_own_name(running: Running, model: FakeModel) -> None:
    """The Temporal UI shows what ran, with a summary that a person can read."""
    model.replies = [calls(("echo", '{"text": "seven"}')), says("Done.")]
    handle = await running.start(tools=["echo"])
    await running.result(handle)
    history = await handle.fetch_history()
    assert cost_of(history).activities == {"open_run": 1, "ask_model": 2, "echo": 1, "close_run": 1}
    summaries = [event.user_metadata.summary.data.decode() for event in history.events]
    assert '"text=seven"' in summaries


async def test_calls_of_one_turn_run_together_and_are_recorded_in_order(running: Running, model: FakeModel) -> None:
    """Whatever ends first, the journal has them as they were called."""
    model.replies = [calls(("letters", '{"count": 500}'), ("echo", '{"text": "b"}'), ("nothing", "{}")), says("Done.")]
    result = await running.result(await running.start(tools=["letters", "echo", "nothing"]))
    finished = [entry.tool for entry in await journal_of(running, result) if isinstance(entry, ToolFinished)]
    assert finished == ["letters", "echo", "nothing"]


async def test_the_journal_tells_the_run_without_temporal(running: Running, model: FakeModel) -> None:
    """From the manifest to the entries, with nothing but the blob store."""
    model.replies = [calls(("echo", '{"text": "seven"}')), says("Done.")]
    handle = await running.start(tools=["echo"])
    await running.result(handle)
    manifest = await running.storage().manifest(handle.id, handle.result_run_id or "")
    entries = await running.storage().journal(handle.id).entries(manifest.head)
    assert [entry.kind for entry in entries] == ["started", "replied", "tool_finished", "replied", "closed"]
    assert isinstance(entries[0], Started)
    assert entries[0].tools[0].definition.description.startswith("Return the text.")
    assert isinstance(entries[-1], Closed)
    assert manifest.result.text.text == "Done."


@pytest.mark.parametrize("letters", [1_000, 1_000_000])
async def test_history_per_turn_does_not_grow_with_tool_outputs(
    running: Running, model: FakeModel, letters: int
) -> None:
    """1 KB or 1 MB: the workflow sees a reference and a preview."""
    turns = 30
    call = calls(("letters", json.dumps({"count": letters})))
    model.replies = [*(call for _ in range(turns)), says("Done.")]
    handle = await running.start(tools=["letters"])
    result = await running.result(handle)
    assert result.turns == turns + 1
    cost = cost_of(await handle.fetch_history())
    assert cost.size_bytes / cost.turns < 12_000
    assert cost.events / cost.turns < 13


async def test_the_conversation_is_not_in_the_history(running: Running, model: FakeModel) -> None:
    """What the 20th model call sends to Temporal is as small as what the first did."""
    model.replies = [*(calls(("letters", '{"count": 3000}')) for _ in range(20)), says("Done.")]
    handle = await running.start(tools=["letters"])
    await running.result(handle)
    inputs = [
        event.activity_task_scheduled_event_attributes.input.ByteSize()
        for event in (await handle.fetch_history()).events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "ask_model"
    ]
    assert max(inputs) < 24 * 1024
    assert len(model.requests[-1].messages) == 41


@pytest.mark.parametrize(
    ("tool", "failed", "shown"),
    [
        ("raises", True, "Failed: RuntimeError: the disk is upside down"),
        ("raises_a_lot", True, "Failed: RuntimeError: xxxxxxxx"),
        ("three_megabytes", False, "3.1 MB"),
        ("some_bytes", False, "256 bytes"),
        ("lone_surrogate", False, "before ��� after"),
        ("nuls", False, "a␀b"),
        ("nothing", False, "nothing returned"),
        ("leaves", True, "SystemExit"),
    ],
)
async def test_an_odd_tool_is_a_result_that_the_model_reads(
    running: Running, model: FakeModel, tool: str, failed: bool, shown: str
) -> None:
    """Nothing that a tool does hangs the run, ends it, or is lost."""
    model.replies = [calls((tool, "{}")), says("I see.")]
    result = await running.result(await running.start(tools=[tool]))
    assert result.outcome == "completed"
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert shown in message.text
    assert message.failed == failed


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fly", "{}", "there is no tool 'fly'. Your tools: echo."),
        ("echo", '{"text": ', "JSON"),
        ("echo", "[1]", "object"),
        ("echo", '{"text": 7}', "text"),
        ("echo", '{"text": "a", "extra": 1}', "extra"),
        ("echo", "{}", "text"),
        ("écho 'x'\n", "{}", "there is no tool"),
    ],
)
async def test_a_call_that_cannot_run_is_told_to_the_model(
    running: Running, model: FakeModel, name: str, arguments: str, told: str
) -> None:
    """It is never run with a guess, and the model can mend it."""
    model.replies = [calls((name, arguments)), calls(("echo", '{"text": "better"}')), says("Done.")]
    handle = await running.start(tools=["echo"])
    result = await running.result(handle)
    assert result.outcome == "completed"
    assert result.calls == {"echo": 1}
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.failed
    assert told in message.text


async def test_a_reply_of_any_length_is_kept_whole(running: Running, model: FakeModel) -> None:
    """Long text and long arguments are artifacts in the state, and whole in the next prompt."""
    long = "word " * 20_000

    def answer(request: ChatRequest) -> object:
        assert request.messages[1].model_dump()["text"] == long
        assert request.messages[1].model_dump()["calls"][0]["arguments"] == json.dumps({"text": long})
        return says(long)

    model.replies = [calls(("echo", json.dumps({"text": long})), text=long), answer]  # type: ignore[list-item]
    result = await running.result(await running.start(tools=["echo"]))
    assert result.text.artifact is not None
    assert await running.storage().artifacts(result.scope).read_text(result.text) == long


async def test_an_unknown_tool_of_the_agent_fails_the_run_at_once(running: Running, model: FakeModel) -> None:
    """It names the tool and those that there are; no model call is spent."""
    handle = await running.start(tools=["ehco"])
    with pytest.raises(WorkflowFailureError) as failed:
        await running.result(handle)
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InputError"
    assert "ehco" in failed.value.cause.message
    assert "echo" in failed.value.cause.message
    assert model.requests == []


async def test_an_empty_task_fails_the_run_at_once(running: Running) -> None:
    """Also when it did not come through the starter."""
    with pytest.raises(WorkflowFailureError) as failed:
        await running.result(await running.start(task="  "))
    assert isinstance(failed.value.cause, ApplicationError)
    assert "the task is empty" in failed.value.cause.message


@pytest.mark.parametrize("sent", [[], ["hello"], [{"agent": 1}], [None], [{}, {}], [HEARTBEAT]])
async def test_a_start_input_that_cannot_be_read_fails_with_the_reason(running: Running, sent: list[object]) -> None:
    """It does not hang."""
    handle = await running.client.start_workflow(
        "Agent", args=sent, id=f"{running.settings.task_queue}-{len(str(sent))}", task_queue=running.settings.task_queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert "start runs with starter.py start" in failed.value.cause.message
    await replay(handle)


async def test_replies_name_the_model_and_its_usage(running: Running, model: FakeModel) -> None:
    """The journal has what each model call cost."""
    model.replies = [says("Hm.")]
    result = await running.result(await running.start())
    replies = [entry for entry in await journal_of(running, result) if isinstance(entry, Replied)]
    assert [(entry.model, entry.usage.input_tokens) for entry in replies] == [("offline", 10)]
