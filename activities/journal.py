"""Opening a run, writing its journal, closing it. All are safe to repeat: what they write is named by its hash."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from temporalio import activity

from activities.boundary import bordered
from activities.rules import check_rule
from activities.toolbox import Toolbox
from core.agents import DELEGATE, PinnedAgent
from core.artifacts import Artifacts
from core.chat import ToolSchema
from core.content import Content, cut, one_line
from core.entries import Entry, Forked, Messaged, RunRef, Started
from core.errors import InputError
from core.fold import apply
from core.forks import entries_through, whole_commits
from core.journal import Head
from core.lines import readable_arguments
from core.ports import OutputSchemas
from core.prompt import configuration_of, tool_tokens
from core.runs import (
    AgentInput,
    CloseInput,
    CommitInput,
    Committed,
    ForkFrom,
    Manifest,
    Opened,
    OpenInput,
    RunResult,
    RunSpec,
)
from core.scopes import manifest_key, signpost_key
from core.state import RunState
from core.storage import Storage
from core.tools import Call, PinnedTool

log = structlog.get_logger(__name__)


CARRIED_BYTES = 256
"""Longest arguments of an open call that travel inline into a new Temporal run."""


class JournalActivities:
    """Activities on the journal of a run. `default_model` is for agents that name none."""

    def __init__(self, storage: Storage, toolbox: Toolbox, default_model: str, schemas: OutputSchemas) -> None:
        self._storage = storage
        self._toolbox = toolbox
        self._default_model = default_model
        self._schemas = schemas

    @activity.defn
    @bordered
    async def open_run(self, opening: OpenInput) -> Opened:
        """Resolve the agent's tools on this worker, and commit all that never changes in flight.

        A fork goes on from its origin's journal, and its state is what the origin's was at that point.

        Raises:
            InputError: an empty task, a tool that this worker does not have, a turn that is not there; not retried.
            StorageError: by its own verdict.
        """
        run, start = opening.run, opening.start
        if start.agent.output is not None:
            self._check_output(start.agent.name, start.agent.output)
        configuration, head, state = await (
            self._started(run, start) if start.fork is None else self._forked(run, start, start.fork)
        )
        if run.scope != run.workflow_id:
            await self._signpost(run)
        log.info("run opened", agent=start.agent.name, model=configuration.model, attachments=len(start.attachments))
        spec = RunSpec(
            run=run,
            agent=start.agent.name,
            task=one_line(configuration.task.shown(), 200),
            by=start.by,
            model=configuration.model,
            models=_several(start.agent, configuration.model),
            on_failure=start.agent.on_failure,
            limits=start.agent.limits,
            context=start.agent.context,
            tools=tuple(tool.policy for tool in configuration.tools),
            tool_tokens=tool_tokens(configuration),
            opening=head,
            heartbeat_timeout=start.heartbeat_timeout,
            events_per_generation=start.events_per_generation,
            search_attributes=start.search_attributes,
            above=start.above,
            override=start.model,
        )
        return Opened(spec=spec, state=state.model_copy(update={"head": head, "started_at": opening.started_at}))

    async def _started(self, run: RunRef, start: AgentInput) -> tuple[Started | Forked, Head, RunState]:
        """Begin a journal."""
        if start.task.artifact is None and not (start.task.text or "").strip():
            raise InputError("the task is empty; say what the agent shall do")
        started = Started(
            at=datetime.now(UTC),
            run=run,
            agent=start.agent,
            model=self._model(start),
            tools=self._pinned_tools(start),
            task=start.task,
            attachments=start.attachments,
            by=start.by,
            team=start.team,
        )
        return started, await self._storage.journal(run.scope).append(None, [started]), RunState()

    async def _forked(self, run: RunRef, start: AgentInput, fork: ForkFrom) -> tuple[Started | Forked, Head, RunState]:
        """Go on from another run's journal: its commits up to the turn are shared, the entries behind them repeated."""
        journal = self._storage.journal(run.scope)
        commits = (*await journal.commits(fork.head), fork.tail)
        entries = [entry for commit in commits for entry in commit]
        count = entries_through(entries, fork.turn)
        whole, rest = whole_commits(commits[:-1], count)
        rest = [*rest, *entries[sum(map(len, commits[:-1])) : count]]
        origin = configuration_of(entries)
        same_agent = start.agent == origin.agent
        forked = Forked(
            at=datetime.now(UTC),
            turn=fork.turn,
            run=run,
            agent=start.agent,
            model=start.model or (origin.model if same_agent else self._model(start)),
            tools=origin.tools if same_agent else self._pinned_tools(start),
            task=origin.task,
            attachments=(*origin.attachments, *start.attachments),
            by=start.by,
            team=start.team or (origin.team if same_agent else {}),
            origin=fork.run,
            origin_turn=fork.turn,
        )
        new: list[Entry] = [*rest, forked]
        if fork.message is not None:
            new.append(Messaged(at=forked.at, turn=fork.turn, by=start.by, text=fork.message))
        head = await journal.append(await journal.rewound(fork.head, whole) if whole else None, new)
        state = RunState()
        for entry in (*entries[:count], *new[len(rest) :]):
            state = apply(state, entry)
        return forked, head, state.model_copy(update={"tail": (), "tail_bytes": 0, "steps": 0, "recent": ()})

    @activity.defn
    @bordered
    async def commit(self, commit: CommitInput) -> Committed:
        """Write the tail behind the head; store the long arguments of calls that are to be carried on.

        Raises:
            StorageError: by its own verdict.
        """
        scope = commit.run.scope
        artifacts = self._storage.artifacts(scope)
        calls = [await _with_stored_arguments(call, artifacts) for call in commit.calls]
        journal = self._storage.journal(scope)
        head = await journal.append(commit.head, commit.tail) if commit.tail else commit.head
        return Committed(head=head, calls=tuple(calls))

    @activity.defn
    @bordered
    async def close_run(self, closing: CloseInput) -> RunResult:
        """Write the last entries and the manifest; return the result with the journal's last head.

        Raises `StorageError`s, by their own verdict.
        """
        run = closing.run
        head = await self._storage.journal(run.scope).append(closing.head, closing.tail)
        result = closing.result.model_copy(update={"head": head})
        closed_at = closing.tail[-1].at
        manifest = Manifest(run=run, agent=closing.agent, head=head, result=result, closed_at=closed_at)
        body = manifest.model_dump_json().encode()
        key = manifest_key(run.scope, run.run_id)
        await self._storage.blobs.put(key, body, sha256=hashlib.sha256(body).hexdigest())
        log.info("run closed", outcome=result.outcome, turns=result.turns, seconds=round(result.seconds, 1))
        return result

    async def _signpost(self, run: RunRef) -> None:
        """Write under the run's own id whose scope it is in, so that it can be found without Temporal."""
        body = run.model_dump_json().encode()
        key = signpost_key(run.workflow_id, run.run_id)
        await self._storage.blobs.put(key, body, sha256=hashlib.sha256(body).hexdigest())

    def _check_output(self, agent: str, schema: Mapping[str, Any]) -> None:
        try:
            self._schemas.check(schema)
        except InputError as error:
            raise InputError(f"agent {agent}: output: {error}") from None

    def _model(self, start: AgentInput) -> str:
        return start.model or start.agent.model or self._default_model

    def _pinned_tools(self, start: AgentInput) -> tuple[PinnedTool, ...]:
        unknown = [name for name in start.agent.tools if name not in self._toolbox.names]
        if unknown:
            raise InputError(f"agent {start.agent.name}: " + "; ".join(self._toolbox.unknown(name) for name in unknown))
        for name, asking in start.agent.approval.items():
            check_rule(name, asking)
        return tuple(
            PinnedTool(
                definition=_for_team(self._toolbox.schema(name), start),
                policy=self._toolbox.policy(name, start.agent.approval.get(name)),
            )
            for name in start.agent.tools
        )


def _for_team(schema: ToolSchema, start: AgentInput) -> ToolSchema:
    """Return a tool as the model sees it: of `delegate`, with the agents that there are for this one."""
    if schema.name != DELEGATE:
        return schema
    strangers = [name for name in start.agent.agents if name not in start.team]
    if strangers:
        raise InputError(f"agent {start.agent.name}: agents names {', '.join(strangers)}, not given with it; add team")
    known = "\n".join(f"- {name}: {start.team[name].description}" for name in start.agent.agents)
    return schema.model_copy(update={"description": f"{schema.description}\n\nAgents that there are:\n{known}"})


def _several(agent: PinnedAgent, model: str) -> tuple[str, ...]:
    """Return the agent's models, when it names several, and the run's is one of them."""
    return agent.models if agent.fallbacks and model in agent.models else ()


async def _with_stored_arguments(call: Call, artifacts: Artifacts) -> Call:
    text = call.arguments.text
    if text is None or len(text.encode()) <= CARRIED_BYTES:
        return call
    ref = await artifacts.store_bytes(text.encode(), f"{call.id}-arguments.json", "application/json")
    preview = cut(readable_arguments(text), CARRIED_BYTES)
    return call.model_copy(update={"arguments": Content(artifact=ref.model_copy(update={"preview": preview}))})
