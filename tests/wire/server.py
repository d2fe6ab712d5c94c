"""A server of scripted HTTP answers: whole or in pieces of any size, broken off, or silent for ever."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Answer:
    """One answer. `piece_bytes` 0 sends all at once; `keeps` bytes are sent before it is dropped or falls silent.

    `keeps` -1 does not even send the headers.
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    piece_bytes: int = 0
    pause_seconds: float = 0
    ending: Literal["whole", "dropped", "silent"] = "whole"
    keeps: int = 0

    def head(self) -> bytes:
        """Return status line and headers; the body comes in chunks, and its end is told."""
        lines = [f"HTTP/1.1 {self.status} Status", f"content-type: {self.content_type}"]
        lines += ["transfer-encoding: chunked", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def pieces(self) -> list[bytes]:
        """Return what is sent of the body."""
        body = self.body if self.ending == "whole" else self.body[: max(self.keeps, 0)]
        size = self.piece_bytes or max(len(body), 1)
        return [body[start : start + size] for start in range(0, len(body), size)]

    def but(self, **changes: Any) -> "Answer":
        """Return the same answer, sent otherwise."""
        return replace(self, **changes)


def plain(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer that does not stream: JSON, or a web page when it is bytes."""
    if isinstance(body, bytes):
        return Answer(body, status, "text/html", headers or {})
    return Answer(json.dumps(body).encode(), status, headers=headers or {})


@dataclass(frozen=True)
class Received:
    """A request as it came in; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Wire:
    """The running server: where it is, what it was sent, and whether a client has hung up on a silent answer."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serve(answers: Sequence[Answer]) -> AsyncIterator[Wire]:
    """Serve the answers in order, one per request, on a free port; a request past the last one gets a 418."""
    waiting = list(answers)
    wire = Wire()
    talking: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking[asyncio.current_task()] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                wire.received.append(await _read(reader))
                await _send(waiting.pop(0) if waiting else Answer(b"{}", 418), reader, writer, wire)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        try:
            yield wire
        finally:
            for writer in talking.values():
                writer.close()
            await asyncio.gather(*(task for task in talking if task is not None))


async def _send(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
    if answer.ending == "whole" or answer.keeps >= 0:
        writer.write(answer.head())
    for piece in answer.pieces():
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
        await asyncio.sleep(answer.pause_seconds)
    if answer.ending == "whole":
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return
    if answer.ending == "silent":
        wire.silent.set()
        with suppress(ConnectionError):
            await reader.read(1)
        wire.hung_up.set()
    writer.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(head[0].split(" ")[1], headers, json.loads(body or b"null"))
