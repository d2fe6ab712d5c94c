"""The one border between activities and Temporal.

Inside it, code raises the errors of `core.errors`. What leaves it is an `ApplicationError` whose type is the error's
class name, whose text is cut to a few KiB (Temporal loses or hangs on huge ones), and whose retry verdict is the
error's own. Inside it, an activity also heartbeats by itself, so that a dead worker is noticed within the heartbeat
timeout, and every log line says which run, activity, attempt and turn it belongs to.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError

from activities.contact import CONTACT, Contact
from activities.secrets import redacted
from core import errors
from core.content import clean, cut, one_line
from core.errors import PerdureError
from core.failures import NO_SUCH_TOOL, NOT_TAKEN, SHUT_DOWN, TIMED_OUT, TOO_LARGE, WORKER_LOST

log = structlog.get_logger(__name__)

ERROR_BYTES = 4096
"""Longest error text that leaves an activity."""

_DECIDING = (TIMED_OUT, WORKER_LOST, SHUT_DOWN, NO_SUCH_TOOL, NOT_TAKEN, TOO_LARGE)
OURS = frozenset({*_DECIDING, *(name for name, value in vars(errors).items() if isinstance(value, type))})
"""Kinds of failure that the run decides by: no error of someone else's may bear one of these names."""

_told: ContextVar[list[str]] = ContextVar("told")
"""What the running activity last told of its progress: shared by its threads and its heartbeat."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def bordered(function: Callable[Parameters, Awaitable[Result]]) -> Callable[Parameters, Awaitable[Result]]:
    """Wrap an activity (a function, or a method below `@activity.defn`): it heartbeats, logs its ids, maps its errors.

    Its last argument is the activity's input; the turn is read from there when it has one.
    """

    @wraps(function)
    async def inside(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with structlog.contextvars.bound_contextvars(**log_ids(getattr(args[-1], "turn", None))):
            async with alive():
                try:
                    return await function(*args, **kwargs)
                except (CancelledError, asyncio.CancelledError):
                    if _shuts_down():
                        raise ApplicationError("its worker was shut down", type=SHUT_DOWN) from None
                    raise
                except Exception as error:  # noqa: BLE001 - the border: whatever comes, Temporal gets a failure it can carry
                    failure = as_failure(error)
                    log.warning("activity failed", error=failure.message, kind=failure.type)
                    raise failure from None

    return inside


def _shuts_down() -> bool:
    """Say whether the activity is cancelled because its worker ends: it goes on elsewhere, if its effect allows."""
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown and not details.cancel_requested


def as_failure(error: Exception) -> ApplicationError:
    """Return what Temporal is told of an error.

    | error | retried | when |
    |---|---|---|
    | `PerdureError`, retryable | yes | after `retry_after_seconds` where known, else by the backoff |
    | `PerdureError`, not retryable | no | |
    | Temporal's `ApplicationError`, raised by a tool | as it says | as it says, else by the backoff |
    | anything else: a bug, or an error nobody thought of | yes | by the backoff, within the attempts of the policy |

    A library's `StoreUnavailable` or `NotFoundError` is not ours: it gets its module's name in front, so that a write
    that raised it is never taken for one that could not begin.
    """
    if isinstance(error, ApplicationError):
        return ApplicationError(
            cut(clean(redacted(error.message)), ERROR_BYTES),
            type=_foreign(error.type or "ApplicationError", "tool"),
            non_retryable=error.non_retryable,
            next_retry_delay=error.next_retry_delay,
        )
    if not isinstance(error, PerdureError):
        return ApplicationError(error_text(error), type=_foreign(type(error).__name__, type(error).__module__))
    after = error.retry_after_seconds
    return ApplicationError(
        error_text(error),
        type=type(error).__name__,
        non_retryable=not error.retryable,
        next_retry_delay=timedelta(seconds=after) if after is not None else None,
    )


def _foreign(kind: str, source: str) -> str:
    """Return the name of an error that is not ours."""
    return one_line(clean(redacted(f"{source}.{kind}" if kind in OURS else kind)))


def error_text(error: BaseException) -> str:
    """Return an error's text, safe to send: no secrets, cut, and naming the class when it is no sentence of ours."""
    try:
        text = str(error)
    except Exception as unprintable:  # noqa: BLE001 - a tool's exception may raise anything in __str__
        text = f"(its text can't be printed: {type(unprintable).__name__})"
    if not isinstance(error, PerdureError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return cut(clean(redacted(text)), ERROR_BYTES)


def log_ids(turn: int | None) -> dict[str, str | int]:
    """Return the ids that every log line of this activity carries."""
    info = activity.info()
    ids: dict[str, str | int] = {
        "workflow_id": info.workflow_id or "",
        "run_id": info.workflow_run_id or "",
        "activity": info.activity_type,
        "attempt": info.attempt,
    }
    return ids if turn is None else {**ids, "turn": turn}


def tell(text: str) -> None:
    """Say how far the activity is: in this heartbeat, and in all later ones until something else is told."""
    _told.get([])[:] = [text]
    activity.heartbeat(text)


@asynccontextmanager
async def alive() -> AsyncIterator[None]:
    """Heartbeat while the block runs, often enough for the activity's heartbeat timeout."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    told: list[str] = []
    token = _told.set(told)
    contact = Contact(timeout)
    contact_token = CONTACT.set(contact)
    beating = asyncio.create_task(_beat(timeout / 3, told, contact))
    try:
        yield
    finally:
        beating.cancel()
        CONTACT.reset(contact_token)
        _told.reset(token)


async def _beat(interval: timedelta, told: Sequence[str], contact: Contact) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        contact.made()
        activity.heartbeat(*told)
