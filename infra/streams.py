"""How one model call is watched while its answer comes: signs of life, its end, and servers that do not stream.

The clients see events, and not all that comes is one (a provider's pings, comments that keep a connection open). So the
bytes are watched, below the clients. The price: answers are asked for uncompressed, to see how they end.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final

import httpx2

TAIL_BYTES: Final = 4096
"""So much of an answer's end is kept, to look for its last event."""

FIRST_CHUNK_SETTING: Final = "PERDURE_MODEL_FIRST_CHUNK_TIMEOUT_SECONDS"
CHUNK_SETTING: Final = "PERDURE_MODEL_CHUNK_TIMEOUT_SECONDS"


@dataclass(frozen=True)
class StreamLimits:
    """How long an answer may let one wait: for its first chunk (the model may read a long prompt), and between two."""

    first_chunk: timedelta = timedelta(seconds=300)
    chunk: timedelta = timedelta(seconds=180)


class Stalled(Exception):
    """Nothing came for too long; the text says for how long, and which setting decides."""


@dataclass
class Watch:
    """One call. `on_life` is called for each chunk; `tail` is the end of the answer so far.

    `page` is what came instead of an answer (a web page). `whole` is an answer that came at once, though a stream was
    asked for: then it is read as one, without asking again.
    """

    on_life: Callable[[], None]
    tail: bytes = b""
    page: str | None = None
    whole: bytes | None = None
    opened: list[httpx2.Response] = field(default_factory=list)

    def saw(self, chunk: bytes) -> None:
        """Take note of a chunk."""
        self.tail = (self.tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        self.on_life()

    def ends_with(self, line: re.Pattern[bytes]) -> bool:
        """Say whether the end of the answer has such a line; in a text of the model a line break is escaped."""
        return line.search(self.tail) is not None


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@asynccontextmanager
async def watched(limits: StreamLimits, on_life: Callable[[], None] | None = None) -> AsyncGenerator[Watch]:
    """Watch the call that is made inside, in this task; one that stalls is cancelled, which closes its connection.

    Raises:
        Stalled: no first chunk, or no further one, within the limits.
    """
    loop = asyncio.get_running_loop()
    started = False

    def lives() -> None:
        nonlocal started
        started = True
        deadline.reschedule(loop.time() + limits.chunk.total_seconds())
        if on_life is not None:
            on_life()

    deadline = asyncio.timeout(limits.first_chunk.total_seconds())
    watch = Watch(lives)
    token = _watch.set(watch)
    try:
        async with deadline:
            yield watch
    except TimeoutError:
        if not deadline.expired():
            raise
        raise Stalled(_stalled(limits, started=started)) from None
    finally:
        _watch.reset(token)
        # A client that is cancelled at an unlucky moment forgets to.
        for response in watch.opened:
            await response.aclose()


def _stalled(limits: StreamLimits, *, started: bool) -> str:
    seconds = (limits.chunk if started else limits.first_chunk).total_seconds()
    setting = CHUNK_SETTING if started else FIRST_CHUNK_SETTING
    what = "the answer stalled: nothing more came" if started else "no answer began"
    return f"{what} within {seconds:g} s (a model that needs longer: raise {setting})"


@cache
def _trusted() -> ssl.SSLContext:
    """Return whom to trust, read once for all clients: it takes longer than anything else about them."""
    return httpx2.create_ssl_context()


class WatchedClient(httpx2.AsyncClient):
    """An HTTP client for one provider whose answers are watched."""

    def __init__(self) -> None:
        # The time limits of reading are the watch's; proxies come from the environment, as everywhere.
        super().__init__(
            verify=_trusted(),
            follow_redirects=True,
            headers={"accept-encoding": "identity"},
            timeout=httpx2.Timeout(None),
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send, and watch the answer; one that came whole is given again instead of being asked for again.

        Raises:
            httpx2.RemoteProtocolError: it is no stream (see `Watch`).
        """
        watch = _watch.get()
        if watch is None:
            return await super().send(request, **options)
        if watch.whole is not None:
            json = {"content-type": "application/json"}
            return httpx2.Response(200, headers=json, content=watch.whole, request=request)
        request.headers["accept-encoding"] = "identity"
        response = await super().send(request, **{**options, "stream": True})
        watch.opened.append(response)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _WatchedBytes(response.stream, watch)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code < 400 and kind in {"application/json", "text/html"}:
            body = await response.aread()
            await response.aclose()
            if kind == "text/html":
                watch.page = body.decode(errors="replace")
            else:
                watch.whole = body
            raise httpx2.RemoteProtocolError("the answer is no stream", request=request)
        if not options.get("stream"):
            await response.aread()
        return response


class _WatchedBytes(httpx2.AsyncByteStream):
    """The bytes of an answer, each chunk noted as it comes."""

    def __init__(self, stream: httpx2.AsyncByteStream, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._watch.saw(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
