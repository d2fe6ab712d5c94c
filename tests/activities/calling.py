"""Calling tools as a worker does, without a server: the activity, a store in memory, a run with attachments."""

import json
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.tool_call import ToolCalls
from activities.toolbox import Toolbox
from core.agents import PinnedAgent
from core.content import ArtifactRef, Content, inline
from core.entries import RunRef, Started
from core.errors import SecretMissing
from core.journal import Head
from core.runs import ToolInput
from core.storage import Storage
from core.tools import Call, ToolOutcome, Verified
from tests.fakes import BrokenBlobStore, MemoryBlobStore


@dataclass
class GivenSecrets:
    """Secrets in a dictionary; `asked` counts the names that were asked for."""

    values: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def secret(self, name: str) -> str:
        """Return the value; SecretMissing when there is none."""
        self.asked.append(name)
        if name not in self.values:
            raise SecretMissing(f"there is no secret {name}: give the test one")
        return self.values[name]


RUN = RunRef(scope="a run", workflow_id="a run", run_id="0123-run")


@dataclass
class Calling:
    """A worker's tools, and the run that calls them."""

    folder: Path
    threads: Executor
    toolbox: Toolbox = field(default_factory=Toolbox.discover)
    cache_bytes: int = 1_000_000
    memory: MemoryBlobStore = field(default_factory=MemoryBlobStore)
    attachments: list[ArtifactRef] = field(default_factory=list)
    secrets: GivenSecrets = field(default_factory=GivenSecrets)
    references: dict[str, str] = field(default_factory=dict)
    """The secrets of the agent's file."""
    environment: ActivityEnvironment = field(default_factory=ActivityEnvironment)

    def __post_init__(self) -> None:
        """Put a store in front of the memory that tests can break."""
        self.blobs = BrokenBlobStore(self.memory)
        self.storage = Storage(self.blobs)

    async def attach(self, name: str, data: bytes | str, media_type: str | None = None) -> ArtifactRef:
        """Attach a file to the run."""
        ref = await self.store(name, data, media_type)
        self.attachments.append(ref)
        return ref

    async def store(self, name: str, data: bytes | str, media_type: str | None = None) -> ArtifactRef:
        """Store an artifact in the run's scope."""
        body = data.encode() if isinstance(data, str) else data
        return await self.storage.artifacts(RUN.scope).store_bytes(body, name, media_type)

    async def opening(self) -> Head:
        """Open the journal with what is attached so far."""
        agent = PinnedAgent(
            name="tested", description="Of the tests.", instructions=inline("Do it."), secrets=self.references
        )
        started = Started(
            at=datetime.now(UTC),
            run=RUN,
            agent=agent,
            model="offline",
            tools=(),
            task=inline("Do it."),
            attachments=tuple(self.attachments),
        )
        return await self.storage.journal(RUN.scope).append(None, [started])

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolOutcome:
        """Run one attempt of a call."""
        return await self.call_raw(name, json.dumps(arguments or {}))

    async def call_raw(self, name: str, arguments: str) -> ToolOutcome:
        """Run one attempt of a call with arguments as a model wrote them."""
        content = await self.storage.artifacts(RUN.scope).store_text(arguments, "arguments.json")
        return await self.call_content(name, content)

    async def call_content(self, name: str, arguments: Content, problem: str | None = None) -> ToolOutcome:
        """Run one attempt of a call whose arguments are stored already."""
        activity = self._calls().activities()[self.toolbox.names.index(name)]
        call = Call(id="t1c1", provider_id="x", name=name, arguments=arguments, problem=problem)
        given = ToolInput(run=RUN, opening=await self.opening(), call=call, turn=1)
        outcome = await self.environment.run(activity, given)
        assert isinstance(outcome, ToolOutcome)
        return outcome

    async def verify(self) -> Verified:
        """Let the one tool find out whether a call without arguments took effect."""
        (activity,) = self._calls().verifying()
        call = Call(id="t1c1", provider_id="x", name=self.toolbox.names[0], arguments=inline("{}"))
        given = ToolInput(run=RUN, opening=await self.opening(), call=call, turn=1)
        found = await self.environment.run(activity, given)
        assert isinstance(found, Verified)
        return found

    def _calls(self) -> ToolCalls:
        return ToolCalls(self.toolbox, self.storage, self.folder, self.threads, self.cache_bytes, secrets=self.secrets)

    async def text(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Return what the model reads of a call that must succeed, whole and inline."""
        outcome = await self.call(name, arguments)
        assert not outcome.failed, outcome.content.shown()
        assert outcome.content.text is not None, outcome.content.shown()
        return outcome.content.text

    async def failure(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Return what the model reads of a call that must fail."""
        outcome = await self.call(name, arguments)
        assert outcome.failed, outcome.content.shown()
        return outcome.content.shown()

    async def bytes_of(self, ref: ArtifactRef) -> bytes:
        """Return an artifact's bytes as they are stored."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"read-{ref.sha256}"
        await self.storage.artifacts(RUN.scope).download(ref, path)
        return path.read_bytes()
