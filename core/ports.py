"""What the rules and the activities need from the outside, as protocols.

`infra` implements them, `worker.py` wires them, tests put plain fakes in their place.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pydantic import Field

from core.chat import ChatReply, ChatRequest
from core.frozen import Frozen

OnText: TypeAlias = Callable[[str], None]
"""Is given each new piece of a reply's text as it comes, and "" for a piece without text, as a sign of life."""


class BlobInfo(Frozen):
    """One stored object: its key, size and metadata (string to string, any Unicode)."""

    key: str
    size_bytes: int
    metadata: Mapping[str, str] = Field(default_factory=dict)


class BlobStore(Protocol):
    """Bytes by key. What goes wrong with the store raises the `StorageError` family of `core.errors`, and only that.

    Writing the same key twice with the same bytes is harmless: keys are content hashes, so all writes are idempotent.
    """

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store `body`, which should be small (up to 8 MiB).

        Raises:
            BlobCorrupt: its SHA-256 (hex) is not `sha256`; nothing was stored.
        """

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file of any size in constant memory; the bytes that are sent are hashed on their way.

        Raises:
            BlobCorrupt: their SHA-256 (hex) is not `sha256`, the file changed meanwhile; nothing was stored.
            OSError: the file can't be read.
        """

    async def get(self, key: str) -> bytes:
        """Return the whole object.

        Raises:
            BlobMissing: there is no such object.
        """

    def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object's bytes in chunks of up to 1 MiB.

        Raises:
            BlobMissing: there is no such object (on the first chunk).
        """

    async def head(self, key: str) -> BlobInfo | None:
        """Return what is known of an object, or None when there is none."""

    async def list(self, prefix: str, limit: int = 1000) -> list[BlobInfo]:
        """Return up to `limit` objects whose key starts with `prefix`, in key order; metadata is left empty."""


class ChatModel(Protocol):
    """A model that answers one request. Knows nothing of runs; retries nothing by itself."""

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Send the prompt and return the whole reply; cancelling it closes the connection.

        `on_text` is called on the event loop for each piece that streams in, and must be cheap. What it was given is
        a preview: only the returned reply counts, and a call that fails may have given some of it.

        Raises:
            ModelUnavailable: transient; retried by Temporal, after `retry_after_seconds` when the provider said so.
            ReplyMalformed: the answer can't be read, or has no end; retried by Temporal.
            ModelRefused: permanent; the run pauses with the reason.
            ContentRefused: the provider's filter refuses the prompt; the run pauses with the reason.
            ContextTooLong: the prompt must shrink first.
        """


class OutputSchemas(Protocol):
    """JSON Schemas of what agents shall answer. Pure; may take a second."""

    def check(self, schema: Mapping[str, Any]) -> None:
        """Check that it is a JSON Schema that can be used.

        Raises:
            InputError: it is not; says where, and what to do.
        """

    def problem(self, schema: Mapping[str, Any], answer: Any) -> str:
        """Say what is wrong with an answer, for the model to read; empty when nothing is. The schema was checked."""


class SecretSource(Protocol):
    """Where the secrets of tools are: passwords and keys, by name. Asked anew for each call: they may change."""

    def secret(self, name: str) -> str:
        """Return a secret's value. May read a small file: not for an event loop.

        Raises:
            SecretMissing: there is none of this name, or it can't be used as it is.
        """
