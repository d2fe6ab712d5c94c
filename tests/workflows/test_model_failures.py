"""Models that fail: each kind of failure has its own budget, and a run whose model is gone pauses and goes on."""

from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
import temporalio.client
import temporalio.worker
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from core.chat import AssistantMessage, ChatReply, ChatRequest
from core.entries import Closed, Paused, Replied, Resumed, Switched
from core.errors import ContentRefused, ModelError, ModelRefused, ModelUnavailable, ReplyMalformed
from core.failures import SHUT_DOWN
from core.ports import BlobStore, OnText
from core.retries import LOST_WORKERS, MALFORMED_TRIES, TRANSIENT_TRIES
from infra.settings import Settings
from tests.running import FakeModel, Reply, Running, calls, histories, says, worker_for
from tests.workflows.test_agent import journal_of

SOON_SECONDS = 0.01


class TroubledModel(FakeModel):
    """A model that fails, in this order, before it gives the replies of the test; `for_ever` is what it does then."""

    troubles: list[ModelError]
    for_ever: ModelError | None = None
    asked: Counter[str]

    def __init__(self, *troubles: ModelError) -> None:
        super().__init__([says("Done.")])
        self.troubles = list(troubles)
        self.asked = Counter()

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Fail, or reply."""
        self.asked[request.model] += 1
        if self.troubles:
            raise self.troubles.pop(0)
        if self.for_ever is not None:
            raise self.for_ever
        return await super().reply(request, on_text)


def busy() -> ModelUnavailable:
    """A provider that limits the rate, and says when to come back."""
    return ModelUnavailable("Model p:m: HTTP 429: slow down.", SOON_SECONDS)


def garbled() -> ReplyMalformed:
    """An answer that can't be read."""
    return ReplyMalformed("Model p:m: HTTP 200: this is no JSON.")


def fails_for(name: str, reply: Reply) -> Callable[[ChatRequest], ChatReply]:
    """A reply that one model does not give: its key is wrong."""

    def answer(request: ChatRequest) -> ChatReply:
        if request.model == name:
            raise ModelRefused(f"{name}: HTTP 401: bad key.")
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ChatReply) else reply(request)

    return answer


class LosesWorkers(temporalio.client.Interceptor, temporalio.worker.Interceptor):
    """Ends so many model calls as a worker does that is shut down."""

    def __init__(self, times: int) -> None:
        self.times = times

    def intercept_activity(
        self, inner: temporalio.worker.ActivityInboundInterceptor
    ) -> temporalio.worker.ActivityInboundInterceptor:
        """Wrap each activity."""
        return _Lost(inner, self)


class _Lost(temporalio.worker.ActivityInboundInterceptor):
    def __init__(self, inner: temporalio.worker.ActivityInboundInterceptor, losing: LosesWorkers) -> None:
        super().__init__(inner)
        self._losing = losing

    async def execute_activity(self, work: temporalio.worker.ExecuteActivityInput) -> object:
        if work.fn.__name__ == "ask_model" and self._losing.times:
            self._losing.times -= 1
            raise ApplicationError("its worker was shut down", type=SHUT_DOWN)
        return await super().execute_activity(work)


@pytest.fixture
def model() -> TroubledModel:
    """A model without troubles; the test makes them."""
    return TroubledModel()


@pytest.fixture
async def losing(client: Client, tested: Settings, blobs: BlobStore, model: FakeModel) -> AsyncIterator[Running]:
    """A worker that loses as many model calls as are allowed."""
    config = client.config()
    config["interceptors"] = [LosesWorkers(LOST_WORKERS)]
    async with worker_for(Client(**config), tested, blobs, model) as running:
        yield running


async def test_each_kind_of_failure_has_its_own_budget(losing: Running, model: TroubledModel) -> None:
    """A call outlives the most of each: rate limits, garbage, lost workers; the journal has one reply."""
    model.troubles = [*(busy() for _ in range(TRANSIENT_TRIES - 1)), garbled(), busy(), garbled(), busy()]
    result = await losing.result(await losing.start())
    assert (result.outcome, result.turns, model.troubles) == ("completed", 1, [])


async def test_a_provider_that_stays_away_pauses_the_run_and_resume_goes_on(
    running: Running, model: TroubledModel
) -> None:
    """Within its budget of tries; nothing is lost, and no try is left in the history."""
    model.replies = [calls(("echo", '{"text": "seven"}')), says("It said seven.")]
    model.for_ever = busy()
    handle = await running.start(tools=["echo"])
    state = await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    assert state.paused == (
        f"Model p:m: HTTP 429: slow down. (tried {TRANSIENT_TRIES} times)"
        " - resume tries again; resume --model OTHER goes on with another model"
    )
    assert model.asked.total() == TRANSIENT_TRIES
    model.for_ever = None
    await handle.signal("resume", {"by": "ana"})
    result = await running.result(handle)
    assert (result.outcome, result.text.text, result.calls) == ("completed", "It said seven.", {"echo": 1})
    kinds = [type(entry) for entry in await journal_of(running, result)]
    assert (kinds.count(Paused), kinds.count(Resumed)) == (1, 1)
    assert len((await histories(handle))[0].events) < 60


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        (garbled(), MALFORMED_TRIES),
        (ModelRefused("Model p:m: HTTP 401: bad key. The provider did not accept the key: check X."), 1),
        (ContentRefused("Model p:m: HTTP 400: blocked. Change what the prompt says, or choose another model."), 1),
    ],
)
async def test_what_trying_does_not_mend_pauses_soon(
    running: Running, model: TroubledModel, failure: ModelError, tries: int
) -> None:
    """It says what the adapter says, with the cure, and what lets the run go on."""
    model.for_ever = failure
    handle = await running.start()
    state = await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    assert str(failure) in state.paused
    assert "resume" in state.paused
    assert model.asked.total() == tries
    model.for_ever = None
    await handle.signal("resume")
    assert (await running.result(handle)).outcome == "completed"


async def test_a_run_that_has_paused_goes_on_with_another_model(running: Running, model: TroubledModel) -> None:
    """From the same journal: the other provider gets the neutral form of earlier replies, and all see which it is."""
    native = calls(("echo", '{"text": "seven"}')).model_copy(update={"native": '{"of": "p:a"}'})
    answer = says("It said seven.")
    model.replies = [native, fails_for("p:a", answer)]
    handle = await running.start(tools=["echo"], model="p:a")
    await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    await handle.execute_update("resume", {"by": "ana", "model": "q:b"})
    result = await running.result(handle)
    assert (result.outcome, result.text.text, result.model) == ("completed", "It said seven.", "q:b")
    forms = {
        request.model: [message.native for message in request.messages if isinstance(message, AssistantMessage)]
        for request in model.requests[1:]
    }
    assert forms == {"p:a": ['{"of": "p:a"}'], "q:b": [None]}
    replies = [entry.model for entry in await journal_of(running, result) if isinstance(entry, Replied)]
    assert replies == ["p:a", "q:b"]
    assert (await running.state(handle)).model == "q:b"


async def test_the_next_model_of_the_agent_takes_over(running: Running, model: TroubledModel) -> None:
    """When the first fails for good; the switch is in the journal, and the run stays with the second."""
    answer = says("It said seven.")
    model.replies = [fails_for("p:a", calls(("echo", '{"text": "seven"}'))), answer]
    handle = await running.start(tools=["echo"], models=["p:a", "q:b"])
    result = await running.result(handle)
    assert (result.outcome, result.model, dict(model.asked)) == ("completed", "q:b", {"p:a": 1, "q:b": 2})
    (switch,) = [entry for entry in await journal_of(running, result) if isinstance(entry, Switched)]
    assert (switch.model, switch.failed, switch.why) == ("q:b", "p:a", "p:a: HTTP 401: bad key.")


async def test_a_run_whose_models_all_fail_pauses_once(running: Running, model: TroubledModel) -> None:
    """It names each with its reason, and resume asks them all again."""
    model.replies = [fails_for("p:a", fails_for("q:b", says("Done.")))]
    handle = await running.start(models=["p:a", "q:b"])
    state = await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    assert state.paused.startswith("all 2 models failed. p:a: p:a: HTTP 401: bad key. q:b: q:b: HTTP 401: bad key. - ")
    model.replies = [says("Done.")]
    await handle.signal("resume")
    assert (await running.result(handle)).model == "q:b"


async def test_an_agent_can_fail_instead_of_pausing(running: Running, model: TroubledModel) -> None:
    """With the reason, for Temporal and for who reads the journal, which is closed."""
    model.for_ever = ModelRefused("p:a: HTTP 401: bad key.")
    handle = await running.start(on_failure="fail")
    with pytest.raises(WorkflowFailureError) as failed:
        await running.result(handle)
    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, failed.value.cause.message) == ("RunFailed", "p:a: HTTP 401: bad key.")
    manifest = await running.storage().manifest(handle.id, handle.result_run_id or "")
    entries = await running.storage().journal(handle.id).entries(manifest.head)
    assert isinstance(entries[-1], Closed)
    assert (entries[-1].outcome, entries[-1].reason) == ("failed", "p:a: HTTP 401: bad key.")
