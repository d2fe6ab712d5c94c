"""Starting a fork: a new run that goes on from a turn of another one, with its conversation and its artifacts.

Nothing is copied: the fork's journal continues the origin's nodes, and lives in the origin's scope.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from core.agents import AgentFile
from core.artifacts import FULL_TEXT_BYTES
from core.content import clean, one_line, readable_bytes
from core.entries import Forked, Started
from core.errors import InputError
from core.forks import entries_through
from core.frozen import Frozen
from core.prompt import configuration_of
from core.runs import START_BYTES, AgentInput, ForkFrom
from core.storage import Storage
from infra.agent_files import load_agent, load_team, read_agent
from infra.journals import Found, entries_of, find_journal
from infra.launch import (
    Launched,
    Shown,
    commands,
    fitted,
    made_up_id,
    pinned,
    start_workflow,
    user_name,
)
from infra.model_names import check_model, check_provider
from infra.runs import Runs, check_run_id
from infra.settings import Settings
from infra.store import opened_storage
from infra.temporal import has_search_attributes


class ForkWish(Frozen):
    """What a person wants of a fork, as it was typed: after which turn it begins, and what shall be different.

    `agent` is a name, or a file (with a slash, or ending in .md); None is the origin's agent as it was pinned there.
    `model` None is the agent's, `id` None makes one up, `run_id` chooses among several runs that had the origin's id.
    """

    turn: int
    message: str = ""
    agent: str | None = None
    model: str | None = None
    id: str | None = None
    run_id: str = ""


class ForkOrder(Frozen):
    """A wish that was checked; nothing is sent yet."""

    origin: str
    wish: ForkWish
    agent: AgentFile | None = None
    team: tuple[AgentFile, ...] = ()
    by: str = ""


def make_fork_order(settings: Settings, origin: str, wish: ForkWish, by: str | None = None) -> ForkOrder:
    """Check what can be checked without a server; `by` None takes the user's name.

    Raises:
        InputError: a bad id, agent, model or message.
    """
    message = clean(wish.message)
    if len(message.encode()) > FULL_TEXT_BYTES:
        raise InputError(
            f"the message has {readable_bytes(len(message.encode()))}, more than any model reads "
            f"({readable_bytes(FULL_TEXT_BYTES)}): say it shorter"
        )
    checked = {
        "message": message if message.strip() else "",
        "model": None if wish.model is None else check_model(wish.model),
        "id": None if wish.id is None else check_run_id(wish.id),
    }
    agent = None if wish.agent is None else _agent(settings, wish.agent)
    return ForkOrder(
        origin=check_run_id(origin),
        wish=wish.model_copy(update=checked),
        agent=agent,
        team=load_team(agent, settings.agents_dir) if agent is not None else (),
        by=user_name() if by is None else by,
    )


async def launch_fork(
    runs: Runs, settings: Settings, order: ForkOrder, tell: Callable[[str], None] | None = None
) -> Launched:
    """Start the fork, or attach to the run that has its id already. Idempotent by the id; `tell` is as in `launch`.

    Raises:
        RunNotFound: there is no such run, or it has no journal.
        InputError: the run has no such turn, or had a model that there is not.
        StorageError: its journal can't be read, by its own verdict; nothing was started.
        ServerUnavailable: it may have been started all the same; the message names the id.
    """
    async with opened_storage(settings, tell) as storage:
        found = await find_journal(settings, storage, order.origin, order.wish.run_id)
        start = await _start_input(storage, found, order)
    start = start.model_copy(
        update={
            "heartbeat_timeout": settings.heartbeat_timeout,
            "search_attributes": await has_search_attributes(runs.client),
        }
    )
    launched = await start_workflow(runs, settings, _shown(order, found, start), fitted(start))
    note = "; ".join(text for text in (launched.note, found.note) if text)
    return launched.model_copy(update={"note": note})


async def _start_input(storage: Storage, found: Found, order: ForkOrder) -> AgentInput:
    entries = await entries_of(storage, found)
    entries_through(entries, order.wish.turn)
    origin = configuration_of(entries)
    artifacts = storage.artifacts(found.run.scope)
    message = await artifacts.store_text(order.wish.message, "message.txt") if order.wish.message else None
    fork = ForkFrom(run=found.run, head=found.head, tail=found.tail, turn=order.wish.turn, message=message)
    start = AgentInput(
        agent=origin.agent if order.agent is None else await pinned(artifacts, order.agent),
        team={agent.name: await pinned(artifacts, agent) for agent in order.team},
        task=origin.task,
        model=_model(origin, order),
        by=order.by,
        fork=fork,
    )
    if len(start.model_dump_json().encode()) > START_BYTES:
        head = await storage.journal(found.run.scope).append(found.head, found.tail)
        start = start.model_copy(update={"fork": fork.model_copy(update={"head": head, "tail": ()})})
    return start


def _model(origin: Started | Forked, order: ForkOrder) -> str | None:
    """Return the model to use: the one asked for, or the origin's as long as the agent is.

    Raises:
        InputError: the origin's is none that there is: its fork would pause, too.
    """
    model = order.wish.model or (origin.model if order.agent is None else None)
    try:
        return None if model is None else check_provider(model)
    except InputError as error:
        raise InputError(f"{error}; name another with --model") from None


def _agent(settings: Settings, agent: str) -> AgentFile:
    """Read an agent by its name, or from a file anywhere."""
    path = Path(agent)
    return read_agent(path) if path.suffix == ".md" or "/" in agent else load_agent(agent, settings.agents_dir)


def _shown(order: ForkOrder, found: Found, start: AgentInput) -> Shown:
    agent, run = start.agent, order.wish.id or made_up_id(start.agent.name)
    origin = one_line(found.run.workflow_id, 80)
    facts = f"{found.run.run_id} {order.wish.turn} {order.wish.message}"
    by = f" Started by {one_line(order.by, 80)}." if order.by else ""
    parts = (
        f"### Fork of `{origin.replace('`', ' ')}` after its turn {order.wish.turn}",
        f"Agent `{agent.name}`: {agent.description}{by}",
        commands(run),
    )
    return Shown(
        id=run,
        agent=agent.name,
        task=one_line(
            f"fork of {origin} after turn {order.wish.turn}: {order.wish.message or start.task.shown()}", 160
        ),
        task_sha256=hashlib.sha256(facts.encode()).hexdigest(),
        details="\n\n".join(parts),
    )
