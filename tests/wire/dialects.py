"""The dialects by name: which model speaks it, where it is sent, how it replies and how it fails."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from infra.accounts import Accounts
from infra.models import Models
from infra.streams import StreamLimits
from tests.wire.bedrock_dialect import EVENT_STREAM, bedrock_fault, bedrock_fault_in_stream, bedrock_stream
from tests.wire.said import Fault, Said
from tests.wire.server import Answer, Wire, serve
from tests.wire.sse_dialects import (
    SSE,
    anthropic_fault,
    anthropic_stream,
    chat_stream,
    event,
    google_fault,
    google_stream,
    openai_fault,
    responses_stream,
)

KEY = "key-that-must-not-show"


@dataclass(frozen=True)
class Dialect:
    """How one provider's API is spoken."""

    model: str
    path: str
    stream: Callable[[Said], list[bytes]]
    fault: Callable[[Fault], dict[str, Any]]
    closing_events: int
    content_type: str = SSE

    @property
    def provider(self) -> str:
        """The prefix of the model's name."""
        return self.model.partition(":")[0]

    def says(self, said: Said) -> Answer:
        """Return a whole streamed answer."""
        return Answer(b"".join(self.stream(said)), content_type=self.content_type)

    def ends_early(self, said: Said) -> Answer:
        """Return an answer that is complete as HTTP, has all its content, and lacks the events that say it is whole."""
        return Answer(b"".join(self.stream(said)[: -self.closing_events]), content_type=self.content_type)

    def fails(self, fault: Fault) -> Answer:
        """Return an error before any answer."""
        headers = {**dict(fault.headers), "x-amzn-errortype": fault.code}
        return Answer(json.dumps(self.fault(fault)).encode(), fault.status, headers=headers)

    def fails_in_stream(self, said: Said, fault: Fault) -> Answer:
        """Return an answer that begins well and then turns into an error."""
        begun = self.stream(said)[:4]
        if self.content_type == EVENT_STREAM:
            error = bedrock_fault_in_stream(fault)
        elif self.provider == "openai-responses":
            told = {"type": "error", "sequence_number": 9, "param": None}
            error = event({**told, "code": fault.code, "message": fault.message}, named=True)
        else:
            error = event(self.fault(fault), named=self.provider == "anthropic")
        return Answer(b"".join([*begun, error]), content_type=self.content_type)


DIALECTS = {
    dialect.provider: dialect
    for dialect in (
        Dialect("anthropic:claude-haiku-4-5", "/v1/messages", anthropic_stream, anthropic_fault, 1),
        Dialect("openai:gpt-4o", "/v1/chat/completions", chat_stream, openai_fault, 3),
        Dialect("openai-responses:gpt-6.1-terra", "/v1/responses", responses_stream, openai_fault, 1),
        Dialect(
            "google:gemini-3.8-flash",
            "/v1beta/models/gemini-3.8-flash:streamGenerateContent",
            google_stream,
            google_fault,
            1,
        ),
        Dialect(
            "bedrock:anthropic.claude-haiku-4-5-20251001-v1:0",
            "/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream",
            bedrock_stream,
            bedrock_fault,
            2,
            EVENT_STREAM,
        ),
    )
}


def accounts_at(url: str) -> Accounts:
    """Return accounts of which every one leads to this address."""
    key = SecretStr(KEY)
    return Accounts(
        anthropic_api_key=key,
        anthropic_base_url=url,
        openai_api_key=key,
        openai_base_url=f"{url}/v1",
        google_api_key=key,
        google_base_url=url,
        bedrock_base_url=url,
    )


@asynccontextmanager
async def models_on(
    answers: Sequence[Answer], limits: StreamLimits | None = None
) -> AsyncIterator[tuple[Models, Wire]]:
    """Serve the answers, and open models that ask there whatever the provider."""
    async with serve(answers) as wire:
        models = Models(accounts_at(wire.url), limits)
        try:
            yield models, wire
        finally:
            await models.close()
