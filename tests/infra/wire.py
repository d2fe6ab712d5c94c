"""A small HTTP server on loopback that answers like a model provider, for tests of the real clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 429: "Too Many Requests", 500: "Server Error"}


@dataclass(frozen=True)
class Answer:
    """What the server says next: a JSON value, or bytes as they are."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the whole HTTP answer; the connection ends after it."""
        raw = isinstance(self.body, bytes)
        body = self.body if raw else json.dumps(self.body).encode()
        headers = {
            "content-type": "text/html" if raw else "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **self.headers,
        }
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class Received:
    """A request as it came in; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Wire:
    """The running server: where it is, and what it was sent."""

    url: str
    received: list[Received] = field(default_factory=list)


@asynccontextmanager
async def serve(answers: Sequence[Answer]) -> AsyncIterator[Wire]:
    """Serve the answers in order, one per request, on a free port; requests past the last one get a 500."""
    waiting = list(answers)
    wire = Wire("")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wire.received.append(await _read(reader))
            answer = waiting.pop(0) if waiting else Answer({"error": {"message": "no answer left"}}, 500)
            writer.write(answer.encode())
            await writer.drain()
        finally:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield wire


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(head[0].split(" ")[1], headers, json.loads(body or b"null"))
