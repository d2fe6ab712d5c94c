"""How the workflow runs its activities: which, with what options, and how their failures are read."""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

    from activities.delegation import DelegationActivities
    from activities.edits import EditActivities
    from activities.journal import JournalActivities
    from core.content import one_line
    from core.errors import BlobCorrupt
    from core.failures import Failure
    from core.migrations import CURRENT, migrated
    from core.runs import (
        AgentInput,
        CheckInput,
        Child,
        CloseInput,
        CommitInput,
        Committed,
        Continued,
        DelegateInput,
        Opened,
        OpenInput,
        RunResult,
        RunSpec,
    )
    from core.tools import Call
    from workflows.failures import failure_of
    from workflows.policies import JOURNAL_RETRY, JOURNAL_TIMEOUT


def _kind(value: object) -> str:
    """Tell a continued run from a start; a start need not say so."""
    return str(value.get("kind", "start")) if isinstance(value, dict) else "start"


NOTHING = RawValue(Payload())
"""Stands for an argument that was not sent."""

INPUT_BYTES = 900 * 1024
"""Longest start input: what an activity gets of it must stay below what may be sent."""

RUN_INPUT: TypeAdapter[AgentInput | Continued] = TypeAdapter(
    Annotated[Annotated[AgentInput, Tag("start")] | Annotated[Continued, Tag("continued")], Discriminator(_kind)]
)

Handler = TypeVar("Handler", bound=Callable[..., object])
Input = TypeVar("Input")
Output = TypeVar("Output")


def total(handler: Handler) -> Handler:
    """Make a handler, or `__init__`, take whatever is sent: no argument, several, or one that is no raw value.

    Temporal would call it with as many arguments as came, and one that raises hangs the run.
    """

    @wraps(handler)
    def tolerant(self: object, *sent: object) -> object:
        return handler(self, _only(sent))

    return tolerant  # type: ignore[return-value]  # the same signature, by __wrapped__, which Temporal reads


def total_run(run: Callable[[Any, RawValue], Awaitable[Output]]) -> Callable[[Any, RawValue], Awaitable[Output]]:
    """Do for a workflow's `run` what `total` does for its handlers."""

    @wraps(run)
    async def tolerant(self: object, *sent: object) -> Output:
        return await run(self, _only(sent))

    return tolerant


def _only(sent: Sequence[object]) -> RawValue:
    """Return the one raw value that was sent; anything else becomes one that nobody can read."""
    if not sent:
        return NOTHING
    return sent[0] if len(sent) == 1 and isinstance(sent[0], RawValue) else RawValue(Payload(data=b"several values"))


def read_input(raw: RawValue) -> AgentInput | Continued | ApplicationError | BlobCorrupt:
    """Read what the workflow was started with, or return the error.

    An `ApplicationError` fails the run, which must not hang on a wrong start. What a newer version carried on is a
    `BlobCorrupt`: it fails only this attempt of a worker that is too old, and the run waits for one that can read it.
    """
    size_bytes = len(raw.payload.data)
    if size_bytes > INPUT_BYTES:
        return _wrong_start(f"{size_bytes} bytes, at most {INPUT_BYTES}; attach what is long as files")
    try:
        return RUN_INPUT.validate_json(raw.payload.data)
    except ValidationError as error:
        if b'"continued"' in raw.payload.data:
            return _carried_on(raw.payload.data)
        return _wrong_start(
            "; ".join(f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()[:5])
        )


def _carried_on(data: bytes) -> Continued | ApplicationError | BlobCorrupt:
    """Read what an earlier version carried on, in its form."""
    try:
        value = json.loads(data)
        state = value["state"]
        if state["version"] > CURRENT["state"]:
            return BlobCorrupt(f"the run's state is of version {state['version']}; use the version that wrote it")
        return Continued.model_validate({**value, "state": migrated("state", state)})
    except (BlobCorrupt, LookupError, ValueError, TypeError, RecursionError) as error:
        return _wrong_start(str(error))


def _wrong_start(why: str) -> ApplicationError:
    message = f"the start input is no AgentInput ({one_line(why, 1000)}); start runs with starter.py start"
    return ApplicationError(message, type="InputError", non_retryable=True)


async def open_run(opening: OpenInput) -> Opened | Failure:
    """Open the run; only wrong input is raised, everything else is for a person to mend."""
    summary = f"open a run of {opening.start.agent.name}"
    opened = await _write(JournalActivities.open_run, opening, opening.start.heartbeat_timeout, summary)
    if isinstance(opened, Failure) and not opened.mendable:
        raise ApplicationError(opened.text, type=opened.kind, non_retryable=True)
    return opened


async def check_arguments(spec: RunSpec, check: CheckInput) -> Call | Failure:
    """Check the arguments that a person gave a call; it comes back as it would run, or with its problem."""
    summary = f"check the arguments of {check.call.name} that a person changed"
    return await _write(EditActivities.check_arguments, check, spec.heartbeat_timeout, summary)


async def prepare_child(spec: RunSpec, wanted: DelegateInput) -> Child | Failure:
    """Find out how a sub-agent's run starts."""
    return await _write(
        DelegationActivities.prepare_child, wanted, spec.heartbeat_timeout, f"{wanted.call.id}: who gets the task"
    )


async def commit(spec: RunSpec, write: CommitInput) -> Committed | Failure:
    """Write entries to the journal."""
    summary = f"write {len(write.tail)} entries to the journal"
    return await _write(JournalActivities.commit, write, spec.heartbeat_timeout, summary)


async def close_run(spec: RunSpec, closing: CloseInput) -> RunResult | Failure:
    """Write the journal's end and the manifest."""
    summary = f"close the run: {closing.result.outcome}"
    return await _write(JournalActivities.close_run, closing, spec.heartbeat_timeout, summary)


async def _write(
    activity: Callable[[Any, Input], Awaitable[Output]], argument: Input, heartbeat: timedelta, summary: str
) -> Output | Failure:
    """Run an activity on the journal."""
    try:
        return await workflow.execute_activity_method(
            activity,
            argument,
            start_to_close_timeout=JOURNAL_TIMEOUT,
            heartbeat_timeout=heartbeat,
            retry_policy=JOURNAL_RETRY,
            summary=summary,
        )
    except (ActivityError, ApplicationError) as error:
        return failure_of(error)
