"""What a tool is given besides its arguments, and what it may return to make an artifact on purpose."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Unpack

from temporalio.exceptions import CancelledError

from activities.contact import Contact
from activities.processes import Command, Completed, Options
from activities.workspace import Workspace
from core.artifacts import Artifacts
from core.content import clean, one_line
from core.entries import RunRef
from core.errors import InputError
from core.redaction import NO_SECRETS, Redaction

Value = TypeVar("Value")

POLL_SECONDS = 0.1
"""How soon a tool that waits for storage sees that it was cancelled."""


@dataclass(frozen=True)
class ToolOutput:
    """A tool's result that is to be an artifact, whatever its size; the media type is found when None."""

    content: str | bytes | Path | Iterator[bytes]
    name: str
    media_type: str | None = None


@dataclass(frozen=True)
class ToolContext:
    """One attempt of one tool call.

    What reaches blob storage is a coroutine: an async tool awaits it, a sync tool says `context.wait(...)`. All else
    may be called from any thread.
    """

    run: RunRef
    call_id: str
    """Unique in the run: `t3c1` is the first call of turn 3."""
    attempt: int
    """From 1."""
    artifacts: Artifacts
    workspace: Workspace
    own_folder: Path
    """Where `folder` will be, if it is asked for."""
    loop: asyncio.AbstractEventLoop = field(repr=False)
    beat: Callable[[str], None] = field(repr=False)
    contact: Contact = field(default_factory=Contact, repr=False)
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    redaction: Redaction = field(default=NO_SECRETS, repr=False)
    """Keeps the secrets out of what the tool tells."""

    @property
    def folder(self) -> Path:
        """An empty folder of this attempt's own; it is deleted, with all in it, when the attempt ends."""
        self.own_folder.mkdir(parents=True, exist_ok=True)
        return self.own_folder

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call, and for no other call: for systems that can tell a repetition."""
        return f"{self.run.run_id}-{self.call_id}"

    @property
    def cancelled(self) -> bool:
        """Whether the tool is to stop: the run was cancelled, the time is over, or its worker shuts down or was frozen.

        A `write` asks right before its effect, best by `check`: then a worker that was taken for dead does nothing any
        more when it wakes up.
        """
        return self.stopped.is_set() or self.contact.lost

    def secret(self, name: str) -> str:
        """Return a secret that the tool declares. Where a text that leaves the tool has it, its name stands instead.

        Raises:
            InputError: the tool does not declare it.
        """
        if name not in self.secrets:
            declared = ", ".join(self.secrets) or "none"
            raise InputError(
                f"secret {name!r} is not declared: name it in @tool(..., secrets=(...)); it has {declared}"
            )
        return self.secrets[name]

    def heartbeat(self, text: str) -> None:
        """Tell how far the tool is, in one line that people see while it runs."""
        line = one_line(clean(self.redaction.apply(text)), 200)
        self.loop.call_soon_threadsafe(self.beat, line)

    def check(self) -> None:
        """Raise Temporal's CancelledError when the tool is to stop: for loops of sync tools."""
        if self.cancelled:
            raise CancelledError("the tool was cancelled")

    def wait(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine from a sync tool and return its result; it ends early, as `check` does, on a cancel."""
        if _on_a_loop():
            coroutine.close()
            raise RuntimeError("context.wait is for sync tools; in an async tool, await the coroutine")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        while not future.done():
            concurrent.futures.wait([future], timeout=POLL_SECONDS)
            if self.cancelled:
                future.cancel()
                self.check()
        return future.result()

    def run_command(self, command: Sequence[str | Path], **options: Unpack[Options]) -> Completed:
        """Run a command, given word by word, and wait for its end; nothing that it starts outlives the call.

        Raises:
            Failed: it can't be started; or `check` is set, and its exit code is not 0.
            TimeoutError: its `timeout` was over.
        """
        if _on_a_loop():
            raise RuntimeError("context.run_command is for sync tools; in an async tool: await run_command_async")
        return Command(command, **options).run(self.folder, self.check)

    async def run_command_async(self, command: Sequence[str | Path], **options: Unpack[Options]) -> Completed:
        """Do the same from an async tool."""
        return await Command(command, **options).run_async(self.folder)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
