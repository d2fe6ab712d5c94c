"""The activity `compact`, without a server: what it does with what a model answers, or fails to answer."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.compaction import TRIES, CompactionActivities
from core.chat import ChatReply, ChatRequest, Usage, UserMessage
from core.content import inline
from core.entries import Compacted, Entry, Messaged
from core.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable, PerdureError
from core.exchanges import starts
from core.journal import Head
from core.ports import ChatModel, OnText
from core.prompt import prompt_tokens
from core.runs import CompactedResult, CompactInput
from core.steps import TAIL_BYTES
from core.storage import Storage
from core.summaries import is_summary_request
from infra.offline.model import OfflineModel
from infra.offline.summary import LABEL
from tests.entries import NOW, RUN
from tests.fakes import BrokenBlobStore, MemoryBlobStore
from tests.talks import MODEL, SMALL, talk, turn_of

SUMMARY = "Nothing but x was seen."


@dataclass
class Answering(ChatModel):
    """A model that always gives the same answer, or error."""

    answer: str | ModelError = SUMMARY
    requests: list[ChatRequest] = field(default_factory=list)

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return the answer."""
        del on_text
        self.requests.append(request)
        if isinstance(self.answer, PerdureError):
            raise self.answer
        return ChatReply(text=self.answer, usage=Usage(input_tokens=500, output_tokens=20, cost_usd=0.25))


class Compacting:
    """A run whose conversation is compacted: its journal in a store in memory."""

    def __init__(self, model: ChatModel, entries: Sequence[Entry]) -> None:
        self.blobs = BrokenBlobStore(MemoryBlobStore())
        self.storage = Storage(self.blobs)
        self.model = model
        self.entries = list(entries)
        self.store_is_down = False

    async def compact(self, *, drop: bool = False, attempt: int = 1, tail: int = 0) -> CompactedResult:
        """Compact a conversation of which so many entries are not written yet; keep what comes back."""
        written, unwritten = self.entries[: len(self.entries) - tail], self.entries[len(self.entries) - tail :]
        head: Head = await self.storage.journal(RUN.scope).append(None, written)
        if self.store_is_down:
            self.blobs.fail("get", "unavailable")
        environment = ActivityEnvironment()
        environment.info = dataclasses.replace(environment.info, attempt=attempt)
        request = CompactInput(run=RUN, head=head, tail=tuple(unwritten), turn=9, drop=drop)
        compact = CompactionActivities(Storage(self.blobs), self.model).compact
        result = await environment.run(compact, request)
        assert isinstance(result, CompactedResult)
        self.entries.append(result.entry)
        return result


async def test_a_models_summary_stands_for_the_older_exchanges() -> None:
    """With what it cost, and with the size of the prompt that follows."""
    model = Answering()
    run = Compacting(model, talk(9))
    entry = (await run.compact()).entry
    assert entry.summary.shown().startswith(SUMMARY)
    assert (entry.fallback, entry.turn) == ("", 9)
    assert entry.keep_from == starts(run.entries)[-2]
    assert entry.usage == Usage(input_tokens=500, output_tokens=20, cost_usd=0.25)
    assert entry.prompt_tokens == prompt_tokens(run.entries, MODEL, SMALL) < 1000
    (request,) = model.requests
    assert is_summary_request(request)
    assert (request.model, request.tools) == (MODEL, ())


async def test_the_next_summary_goes_on_from_the_last() -> None:
    """The model reads its own summary, and what happened since; not what came before."""
    model = Answering()
    run = Compacting(model, talk(9))
    await run.compact()
    run.entries += [entry for number in range(10, 16) for entry in turn_of(number)]
    await run.compact()
    text = model.requests[1].messages[0].text
    assert f"Summary of what came before:\n{SUMMARY}" in text
    assert "turn 8" in text
    assert "turn 7" not in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("  \n", "the model's summary was empty"),
        ("much " * 5000, "was longer than what it sums up"),
        (ModelRefused("401: the key is wrong"), "ModelRefused: 401: the key is wrong"),
        (ContextTooLong("200,001 tokens"), "ContextTooLong: 200,001 tokens"),
    ],
)
async def test_without_a_usable_summary_a_digest_says_why(answer: str | ModelError, why: str) -> None:
    """The run goes on, and nobody is left to believe that this is a summary."""
    entry = (await Compacting(Answering(answer), talk(9)).compact()).entry
    assert why in entry.fallback
    assert "turn 7: look(at=7) -> xxx" in entry.summary.shown()
    assert entry.usage.input_tokens == (0 if isinstance(answer, PerdureError) else 500)


async def test_a_model_that_is_down_is_asked_again_before_a_digest_is_taken() -> None:
    """Temporal retries the activity; only then does it go on without a summary."""
    model = Answering(ModelUnavailable("503", retry_after_seconds=7))
    run = Compacting(model, talk(9))
    with pytest.raises(ApplicationError) as raised:
        await run.compact(attempt=TRIES)
    assert (raised.value.type, raised.value.non_retryable) == ("ModelUnavailable", False)
    entry = (await run.compact(attempt=TRIES + 1)).entry
    assert entry.fallback == "ModelUnavailable, 4 times: 503"
    assert "turn 7: look" in entry.summary.shown()


async def test_dropping_asks_no_model_and_keeps_less_each_time() -> None:
    """Down to the last exchange; then the entry says that there is nothing left to do."""
    model = Answering()
    run = Compacting(model, talk(9, text="short"))
    kept = [len(starts(run.entries, (await run.compact(drop=drop)).entry.keep_from)) for drop in (False, True, True)]
    assert kept == [4, 2, 1]
    assert len(model.requests) == 1
    before = run.entries[-1]
    assert isinstance(before, Compacted)
    nothing = (await run.compact(drop=True)).entry
    assert nothing.fallback.startswith("nothing to compact: ")
    assert (nothing.summary, nothing.keep_from) == (before.summary, before.keep_from)
    assert nothing.prompt_tokens == before.prompt_tokens


async def test_one_exchange_alone_is_not_compacted() -> None:
    """The size stays what it is, so that the run pauses instead of asking for ever."""
    model = Answering()
    run = Compacting(model, talk(1, text="x" * 4000))
    entry = (await run.compact()).entry
    assert entry.fallback == "nothing to compact: the task and the last exchange alone are too long"
    assert entry.prompt_tokens > 1000
    assert model.requests == []


async def test_a_long_summary_is_an_artifact() -> None:
    """The content rule holds here, too."""
    context = SMALL.model_copy(update={"window_tokens": 60_000})
    entries = talk(60, context)
    entries[1:1] = [Messaged(at=NOW, by="ana", text=inline(f"Message {number}: {'m' * 300}")) for number in range(90)]
    run = Compacting(Answering(), entries)
    entry = (await run.compact()).entry
    assert entry.summary.artifact is not None
    text = await run.storage.artifacts(RUN.scope).read_text(entry.summary)
    assert text.startswith(SUMMARY)
    assert entry.prompt_tokens > len(text) // 4


async def test_the_tail_is_written_when_it_is_long() -> None:
    """As with a model call; a store that is down only postpones it."""
    run = Compacting(Answering(), talk(9))
    assert (await run.compact(tail=2)).head is None
    run = Compacting(Answering(), talk(9))
    result = await run.compact(tail=2 * (TAIL_BYTES // 1000 + 1))
    assert result.head is not None
    assert await run.storage.journal(RUN.scope).entries(result.head) == run.entries


async def test_a_store_that_is_down_is_retried() -> None:
    """The conversation can't be read: nothing is made up."""
    run = Compacting(Answering(), talk(9))
    run.store_is_down = True
    with pytest.raises(ApplicationError) as raised:
        await run.compact()
    assert (raised.value.type, raised.value.non_retryable) == ("StoreUnavailable", False)


async def test_the_offline_model_sums_up_by_rules_and_says_so() -> None:
    """A demo without a key compacts, too."""
    run = Compacting(OfflineModel(), talk(9))
    entry = (await run.compact()).entry
    assert entry.fallback == ""
    assert entry.summary.shown().startswith(LABEL)
    assert "result of t7c1: xxx" in entry.summary.shown()
    request = ChatRequest(model="offline", instructions="", messages=(UserMessage(text="Hi."),))
    assert LABEL not in (await OfflineModel().reply(request)).text
