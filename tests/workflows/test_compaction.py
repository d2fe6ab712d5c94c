"""A conversation that outgrows the model's window, on the real servers."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from temporalio.client import Client, WorkflowHandle

from core.agents import Context, Limits
from core.chat import AssistantMessage, ChatReply, ChatRequest, ToolMessage, Usage
from core.entries import Compacted, Entry, Replied, ToolFinished
from core.errors import ContextTooLong, ModelRefused, ModelUnavailable
from core.messages import message_tokens
from core.ports import BlobStore, ChatModel, OnText
from core.runs import RunResult
from core.state import TOKEN_BYTES
from core.summaries import is_summary_request
from infra.settings import Settings
from tests.running import Running, calls, histories, says, worker_for
from workflows.agent import Agent

LETTERS = ("letters", '{"count": 1000}')
LIMITS = Limits(output_tokens=100, turns=100)
SMALL = Context(window_tokens=2000, keep_turns=4)
SUMMARY = "So far there were only x."


def handle_of(turn: int) -> str:
    """An artifact handle that the model mentions in a turn."""
    return f"a:{turn:012x}"


def summed_up(_: ChatRequest) -> ChatReply:
    """A summary as a model should write it."""
    return says(SUMMARY)


@dataclass
class Counting(ChatModel):
    """Asks for 1,000 letters in each of so many turns, counts tokens as a provider does, and takes only so many."""

    turns: int = 40
    takes_tokens: int = 1_000_000
    sum_up: Callable[[ChatRequest], ChatReply] = summed_up
    answered: int = 0
    requests: list[ChatRequest] = field(default_factory=list)
    summaries: list[ChatRequest] = field(default_factory=list)

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return the next reply, or a summary when it is asked for one."""
        del on_text
        if is_summary_request(request):
            self.summaries.append(request)
            return self.sum_up(request)
        self.requests.append(request)
        input_tokens = size_tokens(request)
        if input_tokens > self.takes_tokens:
            raise ContextTooLong(f"{input_tokens} tokens, at most {self.takes_tokens}")
        self.answered += 1
        more = self.answered <= self.turns
        reply = calls(LETTERS, text=f"Turn {self.answered}, {handle_of(self.answered)}.") if more else says("Done.")
        return reply.model_copy(update={"usage": Usage(input_tokens=input_tokens, output_tokens=20)})


def size_tokens(request: ChatRequest) -> int:
    """The size of a request: messages, tools and instructions."""
    beside = len(request.instructions) + sum(len(tool.model_dump_json()) for tool in request.tools)
    return message_tokens(request.messages) + beside // TOKEN_BYTES


@pytest.fixture
def model() -> Counting:
    """A model for 40 turns."""
    return Counting()


@pytest.fixture
async def running(client: Client, tested: Settings, blobs: BlobStore, model: Counting) -> AsyncIterator[Running]:
    """A worker with that model."""
    async with worker_for(client, tested, blobs, model) as running:
        yield running


async def begin(running: Running, context: Context = SMALL) -> "WorkflowHandle[Agent, RunResult]":
    """Start the run."""
    return await running.start(tools=["letters"], limits=LIMITS, context=context)


async def journal_of(running: Running, result: RunResult) -> list[Entry]:
    """The entries of a closed run."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


async def activities_of(handle: "WorkflowHandle[Agent, RunResult]", name: str) -> list[str]:
    """The summaries of all activities of this name, as the Temporal UI shows them."""
    return [
        event.user_metadata.summary.data.decode()
        for history in await histories(handle)
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == name
    ]


def replies_in(request: ChatRequest) -> int:
    """How many of its replies the model is shown word for word."""
    return sum(isinstance(message, AssistantMessage) for message in request.messages)


async def test_a_run_goes_on_far_beyond_the_window(running: Running, model: Counting) -> None:
    """Every prompt fits, the journal keeps all, and every handle that was mentioned stays mentioned."""
    handle = await begin(running)
    result = await running.result(handle)
    assert (result.outcome, result.turns, result.calls) == ("completed", 41, {"letters": 40})
    assert max(size_tokens(request) for request in model.requests) + LIMITS.output_tokens <= 1500
    for turn, request in enumerate(model.requests):
        text = request.model_dump_json()
        assert all(handle_of(earlier) in text for earlier in range(1, turn + 1))
        assert isinstance(request.messages[-1], ToolMessage) or turn == 0
    entries = await journal_of(running, result)
    compacted = [entry for entry in entries if isinstance(entry, Compacted)]
    assert len(compacted) == len(model.summaries) >= 5
    assert all(entry.fallback == "" and entry.summary.shown().startswith(SUMMARY) for entry in compacted)
    assert sum(isinstance(entry, Replied) for entry in entries) == 41
    assert sum(isinstance(entry, ToolFinished) for entry in entries) == 40
    shown = await activities_of(handle, "compact")
    assert len(shown) == len(compacted)
    assert all(summary.startswith('"sum up') and "offline" in summary for summary in shown)


async def test_summaries_cost_what_they_cost(running: Running, model: Counting) -> None:
    """They are in the run's usage."""
    model.turns = 8
    result = await running.result(await begin(running))
    entries = await journal_of(running, result)
    spent = [entry.usage for entry in entries if isinstance(entry, Replied | Compacted)]
    assert sum((usage for usage in spent), Usage()) == result.usage
    assert result.usage.cost_usd == pytest.approx(0.001 * len(model.summaries))


def refuses(_: ChatRequest) -> ChatReply:
    """No summary of this."""
    raise ModelRefused("400: no summaries here")


@pytest.mark.parametrize(
    ("sum_up", "why"),
    [
        (lambda _: says(""), "the model's summary was empty"),
        (lambda request: says(request.messages[0].text * 3), "was longer than what it sums up"),
        (refuses, "ModelRefused: 400: no summaries here"),
    ],
    ids=["empty", "longer", "refused"],
)
async def test_a_run_goes_on_without_a_usable_summary(
    running: Running, model: Counting, sum_up: Callable[[ChatRequest], ChatReply], why: str
) -> None:
    """A digest stands for the older turns; the model and the journal are told why."""
    model.turns, model.sum_up = 12, sum_up
    result = await running.result(await begin(running))
    assert (result.outcome, result.turns) == ("completed", 13)
    entries = await journal_of(running, result)
    compacted = [entry for entry in entries if isinstance(entry, Compacted)]
    assert all(why in entry.fallback for entry in compacted)
    first = model.requests[-1].messages[0].text
    assert "no summary of it could be had" in first
    assert "letters(count=1000) -> xxx" in first
    assert max(size_tokens(request) for request in model.requests) + LIMITS.output_tokens <= 1500


async def test_a_summary_is_asked_for_again_while_the_model_is_down(running: Running, model: Counting) -> None:
    """A moment's failure costs no summary."""

    def down_once(request: ChatRequest) -> ChatReply:
        if len(model.summaries) == 1:
            raise ModelUnavailable("503: overloaded", retry_after_seconds=0.1)
        return summed_up(request)

    model.turns, model.sum_up = 6, down_once
    result = await running.result(await begin(running))
    compacted = [entry for entry in await journal_of(running, result) if isinstance(entry, Compacted)]
    assert [entry.fallback for entry in compacted] == [""] * len(compacted)
    assert len(model.summaries) == len(compacted) + 1


async def test_a_provider_that_takes_less_than_it_was_said_to_leads_to_compaction(
    running: Running, model: Counting
) -> None:
    """The window in the agent's file may be wrong, or our count of tokens."""
    model.turns, model.takes_tokens = 20, 1500
    handle = await begin(running, Context(window_tokens=100_000, keep_turns=4))
    result = await running.result(handle)
    assert (result.outcome, result.turns, result.calls) == ("completed", 21, {"letters": 20})
    assert len(model.requests) > 21
    assert len(await activities_of(handle, "compact")) >= 2


async def test_a_conversation_that_never_fits_pauses_the_run(running: Running, model: Counting) -> None:
    """After bounded attempts, each of which kept less; the reason says what does not fit, and resume goes on."""
    model.turns = 90
    handle = await begin(running, Context(window_tokens=100_000, keep_turns=4))
    await running.until(handle, lambda state: state.turn >= 4, "some turns are done")
    model.takes_tokens = 10
    state = await running.until(handle, lambda state: state.phase == "paused", "the run pauses")
    assert state.paused is not None
    assert "does not fit 100000 tokens, even compacted" in state.paused
    shown = await activities_of(handle, "compact")
    assert [summary.split()[0] for summary in shown] == ['"sum', '"drop', '"drop']
    assert replies_in(model.requests[-1]) == 1
    model.takes_tokens, model.turns = 1_000_000, 0
    await handle.signal("resume")
    assert (await running.result(handle)).outcome == "completed"


@pytest.mark.parametrize("policy", ["accumulate", "reset"])
async def test_other_policies_pause_at_once(running: Running, model: Counting, policy: str) -> None:
    """Nothing is summed up that was not to be."""
    model.takes_tokens = 10
    context = Context.model_validate({"policy": policy, "window_tokens": 2000})
    handle = await begin(running, context)
    state = await running.until(handle, lambda state: state.phase == "paused", "the run pauses")
    assert state.paused is not None
    assert "tokens, at most 10" in state.paused
    assert len(model.requests) == 1
    assert await activities_of(handle, "compact") == []
    model.takes_tokens, model.turns = 1_000_000, 2
    await handle.signal("resume")
    assert (await running.result(handle)).outcome == "completed"


async def test_accumulate_sends_everything(running: Running, model: Counting) -> None:
    """Each prompt begins with the one before."""
    model.turns = 6
    result = await running.result(await begin(running, Context(policy="accumulate", window_tokens=2000)))
    assert result.outcome == "completed"
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


async def test_reset_shows_the_last_turns_and_a_digest(running: Running, model: Counting) -> None:
    """However long the run, its prompts have the same size; no summary is asked for."""
    model.turns = 20
    context = Context(policy="reset", window_tokens=4000, keep_turns=2)
    result = await running.result(await begin(running, context))
    assert (result.outcome, result.turns) == ("completed", 21)
    assert max(replies_in(request) for request in model.requests) == 2
    last = model.requests[-1].messages[0].text
    assert 'turn 18: "Turn 18, a:000000000012."; letters(count=1000) -> xxx' in last
    assert all(handle_of(turn) in last for turn in range(1, 19))
    assert model.summaries == []
    assert max(size_tokens(request) for request in model.requests) < 3000
