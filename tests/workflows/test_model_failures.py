"""Models that fail: each kind of failure has its own budget, and a run whose model is gone pauses and goes on."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import temporalio.client
import temporalio.worker
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from core.chat import ChatReply, ChatRequest
from core.entries import Paused, Resumed
from core.errors import ContentRefused, ModelError, ModelRefused, ModelUnavailable, ReplyMalformed
from core.failures import SHUT_DOWN
from core.ports import BlobStore, OnText
from core.retries import LOST_WORKERS, MALFORMED_TRIES, TRANSIENT_TRIES
from infra.settings import Settings
from tests.running import FakeModel, Running, calls, histories, says, worker_for
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
