"""Opening a run, writing its journal, closing it. All are safe to repeat: what they write is named by its hash."""

import hashlib
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.boundary import bordered
from activities.toolbox import Toolbox
from core.entries import Started
from core.errors import InputError
from core.journal import Head
from core.runs import AgentInput, CloseInput, CommitInput, Manifest, OpenInput, RunResult, RunSpec
from core.scopes import manifest_key
from core.storage import Storage
from core.tools import PinnedTool

log = structlog.get_logger(__name__)


class JournalActivities:
    """Activities on the journal of a run. `default_model` is for agents that name none."""

    def __init__(self, storage: Storage, toolbox: Toolbox, default_model: str) -> None:
        self._storage = storage
        self._toolbox = toolbox
        self._default_model = default_model

    @activity.defn
    @bordered
    async def open_run(self, opening: OpenInput) -> RunSpec:
        """Resolve the agent's tools on this worker, and commit the first entry: all that never changes in flight.

        Raises:
            InputError: an empty task, or a tool that this worker does not have; not retried.
            StorageError: by its own verdict.
        """
        run, start = opening.run, opening.start
        tools = self._pinned_tools(start)
        if start.task.artifact is None and not (start.task.text or "").strip():
            raise InputError("the task is empty; say what the agent shall do")
        model = start.model or start.agent.model or self._default_model
        started = Started(
            at=datetime.now(UTC),
            run=run,
            agent=start.agent,
            model=model,
            tools=tools,
            task=start.task,
            attachments=start.attachments,
            by=start.by,
        )
        head = await self._storage.journal(run.scope).append(None, [started])
        log.info("run opened", agent=start.agent.name, model=model, attachments=len(start.attachments))
        return RunSpec(
            run=run,
            agent=start.agent.name,
            model=model,
            limits=start.agent.limits,
            tools=tuple(tool.policy for tool in tools),
            opening=head,
            heartbeat_timeout=start.heartbeat_timeout,
        )

    @activity.defn
    @bordered
    async def commit(self, commit: CommitInput) -> Head:
        """Write the tail behind the head and return the new head. Raises `StorageError`s, by their own verdict."""
        return await self._storage.journal(commit.run.scope).append(commit.head, commit.tail)

    @activity.defn
    @bordered
    async def close_run(self, closing: CloseInput) -> RunResult:
        """Write the last entries and the manifest; return the result with the journal's last head.

        Raises `StorageError`s, by their own verdict.
        """
        run = closing.run
        head = await self._storage.journal(run.scope).append(closing.head, closing.tail)
        result = closing.result.model_copy(update={"head": head})
        manifest = Manifest(run=run, agent=closing.agent, head=head, result=result)
        body = manifest.model_dump_json().encode()
        key = manifest_key(run.scope, run.run_id)
        await self._storage.blobs.put(key, body, sha256=hashlib.sha256(body).hexdigest())
        log.info("run closed", outcome=result.outcome, turns=result.turns, seconds=round(result.seconds, 1))
        return result

    def _pinned_tools(self, start: AgentInput) -> tuple[PinnedTool, ...]:
        unknown = [name for name in start.agent.tools if name not in self._toolbox.names]
        if unknown:
            raise InputError(f"agent {start.agent.name}: " + "; ".join(self._toolbox.unknown(name) for name in unknown))
        return tuple(
            PinnedTool(
                definition=self._toolbox.schema(name),
                policy=self._toolbox.policy(name, start.agent.approval.get(name)),
            )
            for name in start.agent.tools
        )
