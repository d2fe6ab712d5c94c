"""Starting a run: what a person ordered becomes the start input, and the run's id its idempotency key.

Everything that can be checked without a server is checked first, so that a mistake starts and uploads nothing. The id
of a run is its idempotency key: a second start under the same id finds the first run and stores nothing.
"""

import getpass
import hashlib
import secrets
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from core.agents import AgentFile, AgentHeader, PinnedAgent
from core.artifacts import FULL_TEXT_BYTES, Artifacts
from core.content import clean, cut, one_line, readable_bytes
from core.errors import InputError, PerdureError
from core.frozen import Frozen
from core.runs import START_BYTES, AgentInput
from infra.attachments import Attachment, Report, check_attachments, store_attachments
from infra.model_names import check_model
from infra.runs import CALL_TIMEOUT, WORKFLOW, RunInfo, RunNotFound, Runs, check_run_id
from infra.settings import Settings
from infra.store import opened_storage
from infra.temporal import AGENT_NAME, AGENT_PHASE, ServerUnavailable, has_search_attributes

SUMMARY_BYTES = 200
DETAILS_BYTES = 8 * 1024
AGAIN = frozenset({"failed", "cancelled", "terminated", "timed_out"})
"""A run that ended so may be started again under its id."""


class Order(Frozen):
    """What a person wants run; checked, nothing is sent yet. `named` says that the person chose the id."""

    id: str
    named: bool
    agent: AgentFile
    team: tuple[AgentFile, ...] = ()
    """Those that it may hand tasks to, and those that they may."""
    task: str
    attachments: tuple[Attachment, ...] = ()
    model: str | None = None
    by: str = ""

    @property
    def task_sha256(self) -> str:
        """The hash of the whole task: memos hold only its beginning."""
        return hashlib.sha256(self.task.encode()).hexdigest()


class Shown(Frozen):
    """What Temporal shows of a run that is to be started, and what a later start under its id is compared with."""

    id: str
    agent: str
    task: str
    task_sha256: str
    details: str


class Launched(Frozen):
    """A run that was started, or found (`attached`) under its id; `note` says what of it is not as ordered."""

    id: str
    run_id: str
    attached: bool = False
    note: str = ""


def make_order(
    agent: AgentFile,
    task: str,
    *,
    attachments: Sequence[Path] = (),
    run: str | None = None,
    model: str | None = None,
    by: str | None = None,
) -> Order:
    """Check what a person wants run. `run` None makes up an id, `by` None takes the user's name.

    Raises:
        InputError: an empty or endless task, a bad id, attachment or model.
    """
    task = clean(task)
    if not task.strip():
        raise InputError("the task is empty: say what the agent shall do")
    if len(task.encode()) > FULL_TEXT_BYTES:
        raise InputError(
            f"the task has {readable_bytes(len(task.encode()))}, more than any model reads "
            f"({readable_bytes(FULL_TEXT_BYTES)}): attach it as a file, and say in the task what to do with it"
        )
    return Order(
        id=made_up_id(agent.name) if run is None else check_run_id(run),
        named=run is not None,
        agent=agent,
        task=task,
        attachments=check_attachments(attachments),
        model=None if model is None else check_model(model),
        by=user_name() if by is None else by,
    )


def made_up_id(agent: str) -> str:
    """Make up an id: readable, and different each time."""
    return f"{agent}-{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}"


def user_name() -> str:
    """Return who is at the keyboard; nothing where the system does not know."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


async def launch(
    runs: Runs, settings: Settings, order: Order, report: Report, tell: Callable[[str], None] | None = None
) -> Launched:
    """Start the run, or attach to the one that has its id already. Idempotent by the id.

    `tell` is told when the store is slow to answer.

    Raises:
        InputError: an attachment can't be read any more, or all of it is too long for a start input.
        StorageError: nothing was started.
        ServerUnavailable: it may have been started all the same; the message names the id.
    """
    if order.named and (found := await _found(runs, order)):
        return found
    async with opened_storage(settings, tell) as storage:
        artifacts = storage.artifacts(order.id)
        start = await _start_input(artifacts, order, report)
    start = start.model_copy(
        update={
            "heartbeat_timeout": settings.heartbeat_timeout,
            "search_attributes": await has_search_attributes(runs.client),
        }
    )
    return await start_workflow(runs, settings, _shown(order), fitted(start))


async def _found(runs: Runs, order: Order) -> Launched | None:
    """Return the run that has the id already, unless it may be started again."""
    try:
        info = await runs.info(order.id)
    except RunNotFound:
        return None
    return None if info.status in AGAIN else _attached(info, _shown(order))


def _shown(order: Order) -> Shown:
    return Shown(
        id=order.id,
        agent=order.agent.name,
        task=one_line(order.task, 160),
        task_sha256=order.task_sha256,
        details=details(order),
    )


def _attached(info: RunInfo, shown: Shown) -> Launched:
    other = []
    if info.agent != shown.agent:
        other.append(f"its agent is {info.agent or 'unknown'}, not {shown.agent}")
    if info.task_sha256 != shown.task_sha256:
        other.append(f"its task is another one ({info.task or 'unknown'})")
    note = f"run {info.id} exists already ({info.status}); attached to it" + (": " + "; ".join(other) if other else "")
    return Launched(id=info.id, run_id=info.run_id, attached=True, note=note)


async def _start_input(artifacts: Artifacts, order: Order, report: Report) -> AgentInput:
    return AgentInput(
        agent=await pinned(artifacts, order.agent),
        team={agent.name: await pinned(artifacts, agent) for agent in order.team},
        task=await artifacts.store_text(order.task, "task.txt"),
        attachments=await store_attachments(artifacts, order.attachments, report),
        model=order.model,
        by=order.by,
    )


async def pinned(artifacts: Artifacts, agent: AgentFile) -> PinnedAgent:
    """Return the agent as a run keeps it: long instructions are stored. Idempotent; raises `StorageError`s."""
    header = agent.model_dump(include=set(AgentHeader.model_fields))
    instructions = await artifacts.store_text(agent.instructions, "instructions.md", "text/markdown")
    return PinnedAgent.model_validate({**header, "instructions": instructions})


def fitted(start: AgentInput) -> AgentInput:
    """Return the start input at a size that Temporal takes, without previews if need be.

    Raises:
        InputError: it is too long even so.
    """
    if len(start.model_dump_json().encode()) <= START_BYTES:
        return start
    bare = tuple(ref.model_copy(update={"preview": ""}) for ref in start.attachments)
    start = start.model_copy(update={"attachments": bare})
    size_bytes = len(start.model_dump_json().encode())
    if size_bytes > START_BYTES:
        raise InputError(
            f"the start input has {readable_bytes(size_bytes)}, at most {readable_bytes(START_BYTES)} are sent: "
            "attach fewer files with shorter names, or pack them into one"
        )
    return start


async def start_workflow(runs: Runs, settings: Settings, shown: Shown, start: AgentInput) -> Launched:
    """Start the workflow, or attach to the one that has the id and did not fail. Idempotent by the id.

    Raises:
        InputError: as `Runs`; nothing was started.
        ServerUnavailable: the answer did not come; the run may have been started all the same, and is named.
    """
    attributes = [SearchAttributePair(AGENT_NAME, shown.agent), SearchAttributePair(AGENT_PHASE, "running")]
    with runs.translated(shown.id):
        try:
            handle = await runs.client.start_workflow(
                WORKFLOW,
                start,
                id=shown.id,
                task_queue=settings.task_queue,
                task_timeout=settings.workflow_task_timeout,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                search_attributes=TypedSearchAttributes(attributes if start.search_attributes else []),
                memo={"agent": shown.agent, "task": shown.task, "task_sha256": shown.task_sha256},
                static_summary=cut(f"{shown.agent}: {shown.task}", SUMMARY_BYTES),
                static_details=shown.details,
                rpc_timeout=CALL_TIMEOUT,
            )
        except WorkflowAlreadyStartedError:
            return _attached(await runs.info(shown.id), shown)
        except RPCError as error:
            raise _unsure(runs.error(error, shown.id), shown.id) from error
    return Launched(id=shown.id, run_id=handle.result_run_id or "")


def _unsure(error: PerdureError, run: str) -> PerdureError:
    """Name the run whose start was sent: an answer that is lost does not say that nothing was started."""
    if not isinstance(error, ServerUnavailable):
        return error
    look = f"python starter.py state {shlex.quote(run)}"
    return ServerUnavailable(
        f"{error} Run {run} may have been started all the same: look with `{look}`, or start it again with "
        f"`--id {shlex.quote(run)}`, which never starts it twice."
    )


def details(order: Order) -> str:
    """Return the Markdown that the Temporal UI shows of what was ordered, and how to go on from there."""
    fence = "~~~~"
    parts = [f"### Task\n\n{fence}\n{cut(order.task, DETAILS_BYTES // 2).replace(fence, '~~~')}\n{fence}"]
    if order.attachments:
        shown = [f"- `{a.name.replace('`', ' ')}`, {readable_bytes(a.size_bytes)}" for a in order.attachments[:30]]
        more = len(order.attachments) - len(shown)
        parts.append("### Attachments\n\n" + "\n".join([*shown, *([f"- and {more} more"] if more else [])]))
    parts.append(commands(order.id))
    by = f" Started by {one_line(order.by, 80)}." if order.by else ""
    parts.append(f"Agent `{order.agent.name}`: {order.agent.description}{by}")
    return cut("\n\n".join(parts), DETAILS_BYTES)


def commands(run: str) -> str:
    """Return the Markdown that tells how to go on with a run from a terminal."""
    lines = (f"python starter.py {name} {shlex.quote(run)}" for name in ("watch", "state", "approve", "result"))
    return "### Watch, decide, read\n\n```\n" + "\n".join(lines) + "\n```"
