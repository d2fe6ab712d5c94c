"""Watching a model write: the end of its reply, before it is there, at no cost in the history; and stopping it."""

import asyncio
from dataclasses import dataclass, field

from temporalio.client import Client

from core.chat import ChatReply, ChatRequest
from core.ports import OnText
from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.watch import Saying, follow
from tests.running import FakeModel, histories, says, worker_for
from tests.waiting import wait_until


@dataclass
class WritingModel(FakeModel):
    """A model that writes until a test lets it end."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: bool = False

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Stream the reply's text, and then a dot for ever and ever."""
        assert on_text is not None
        on_text((await super().reply(request)).text)
        try:
            while not self.may_end.is_set():
                on_text(".")
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.stopped = True
            raise
        return await super().reply(request)


async def test_a_watcher_sees_the_reply_as_it_comes(
    client: Client, own: Settings, blobs: S3BlobStore, runs: Runs
) -> None:
    """Its end, again and again; the history is that of a reply that came at once."""
    model, quick = WritingModel([says("There are 42 birds")]), FakeModel([says("There are 42 birds")])
    seen: list[str] = []
    async with worker_for(client, own, blobs, model) as running:
        handle = await running.start()
        async for event in follow(runs, handle.id):
            if isinstance(event, Saying):
                seen.append(event.text)
                if len(seen) == 2:
                    model.may_end.set()
        streamed = (await histories(handle))[0]
    assert seen[0].startswith("There are 42 birds")
    async with worker_for(client, own, blobs, quick) as running:
        at_once = await running.start()
        await running.result(at_once)
        assert len(streamed.events) == len((await histories(at_once))[0].events)


async def test_cancel_stops_the_model_call(client: Client, own: Settings, blobs: S3BlobStore, runs: Runs) -> None:
    """The run closes, and the call is cancelled, which closes its connection: nobody pays for what nobody reads."""
    model = WritingModel([says("A very long story")])
    async with worker_for(client, own, blobs, model) as running:
        handle = await running.start()

        async def writes() -> bool:
            return bool((await runs.info(handle.id)).saying)

        await wait_until(writes, description="the model writes")
        await handle.cancel()
        await wait_until(lambda: model.stopped, description="the call is stopped")
        assert (await running.state(handle)).phase == "cancelled"
