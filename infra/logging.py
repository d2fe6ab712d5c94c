"""Logs: one format for all lines, ours through structlog and everyone else's through the standard library.

Every line says which run and which activity it belongs to, as flat fields: `workflow_id`, `run_id`, `workflow_type`,
`activity`, `activity_id`, `attempt`. They come from Temporal's own loggers or, for any other line written inside
an activity, from the activity's context. `turn` and `call` come from structlog's context variables or, in workflows,
from `extra=`.
"""

import json
import logging
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

from core.redaction import Redaction, too_short
from infra.settings import MASK, Settings

# Which of Temporal's fields are kept, and under which name; namespace and task queue are the same on every line.
_FIELDS = {
    "workflow_id": "workflow_id",
    "run_id": "run_id",
    "workflow_run_id": "run_id",
    "workflow_type": "workflow_type",
    "activity_type": "activity",
    "activity_id": "activity_id",
    "attempt": "attempt",
    "update_id": "update_id",
    "update_name": "update_name",
}
# What a record has by itself, or gets from another handler or from Temporal: no `extra=` of whoever wrote it.
_NO_EXTRAS = {
    *vars(logging.makeLogRecord({})),
    *(
        "message",
        "asctime",
        "taskName",
        "temporal_log",
        "workflow_info",
        "activity_info",
        "__temporal_error_identifier",
    ),
}
# Libraries that write a line per request, or whose debug lines hold signed headers.
_QUIET = ("boto3", "botocore", "s3transfer", "urllib3", "httpx", "httpx2", "httpcore", "httpcore2", "asyncio")
_SHORTEST_SECRET_CHARACTERS = 6
# The secrets of tools that this process knows, by value: as the logs are, for all of it. The oldest go.
_TOOL_SECRETS: dict[str, Redaction] = {}
_MOST_TOOL_SECRETS = 1000


class _Handler(logging.StreamHandler[TextIO]):
    """The one handler that `configure_logging` owns: it replaces its like and leaves the handlers of others alone."""


class _MaskingFormatter(structlog.stdlib.ProcessorFormatter):
    """Renders a record and masks the secret values that this process knows, wherever in the line they stand."""

    def __init__(self, processors: list[Processor], before: list[Processor], secrets: Iterable[str]) -> None:
        super().__init__(processors=processors, foreign_pre_chain=before, pass_foreign_args=False)
        long_enough = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET_CHARACTERS]
        # Within a line quotes, backslashes and non-ASCII letters of a secret may be escaped, by repr, by JSON or both.
        plain = [form for secret in long_enough for form in (secret, repr(secret)[1:-1])]
        self._secrets = {*plain, *(json.dumps(form)[1:-1] for form in plain)}

    def format(self, record: logging.LogRecord) -> str:
        """Render one line."""
        line = super().format(record)
        for secret in self._secrets:
            line = line.replace(secret, MASK)
        for redaction in tuple(_TOOL_SECRETS.values()):
            line = redaction.apply(line)
        return line


def never_log(name: str, value: str) -> None:
    """Have a secret of tools written as `[secret NAME]` in all lines from now on; too short a one can't be hidden."""
    if value in _TOOL_SECRETS or too_short(value):
        return
    _TOOL_SECRETS[value] = Redaction.of({name: value})
    for oldest in list(_TOOL_SECRETS)[:-_MOST_TOOL_SECRETS]:
        _TOOL_SECRETS.pop(oldest, None)


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Send all log lines to `stream` (None: stderr): on a terminal for people, else JSON lines. Idempotent."""
    for name, value in settings.named_secrets.items():
        never_log(name, value.get_secret_value())
    stream = stream or sys.stderr
    console = settings.log_format == "console" or (settings.log_format == "auto" and stream.isatty())
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _add_extras,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = _Handler(stream)
    handler.addFilter(_is_news)
    handler.setFormatter(_MaskingFormatter(_rendering(stream, console=console), before, settings.secrets()))
    root = logging.getLogger()
    root.handlers = [*(other for other in root.handlers if not isinstance(other, _Handler)), handler]
    root.setLevel(settings.log_level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    _configure_structlog(before)
    _configure_temporal_loggers()


def _is_news(record: logging.LogRecord) -> bool:
    """Drop Temporal's line, with traceback, on an activity that failed as expected: ours says it, with the reason."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name == "temporalio.activity" and isinstance(error, ApplicationError))


def _configure_structlog(before: list[Processor]) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *before,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _configure_temporal_loggers() -> None:
    """Take the dictionaries off Temporal's messages: their content stands in fields of its own."""
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    # Rendering may import on first use, which the workflow sandbox would load anew for each run.
    workflow.logger.unsafe_disable_sandbox()


def _rendering(stream: TextIO, *, console: bool) -> list[Processor]:
    shared: list[Processor] = [_add_temporal_fields, structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if console:
        # The plain traceback: the pretty one prints local variables, and with them secrets.
        plain = structlog.dev.plain_traceback
        return [*shared, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=20)
    return [
        *shared,
        structlog.processors.ExceptionRenderer(tracebacks),
        structlog.processors.JSONRenderer(),
    ]


def _add_extras(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add what a standard library record was given as `extra=`."""
    record = event.get("_record")
    extras = {} if record is None else {name: it for name, it in vars(record).items() if name not in _NO_EXTRAS}
    return {**extras, **event}


def _add_temporal_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Flatten what Temporal's loggers attach; a line of any other logger gets it from the activity that wrote it."""
    details: dict[str, object] = {}
    for attached in (event.pop("temporal_workflow", None), event.pop("temporal_activity", None)):
        details |= attached if isinstance(attached, Mapping) else {}
    if not details and activity.in_activity():
        details = _of_activity(activity.info())
    kept = {_FIELDS[name]: value for name, value in details.items() if name in _FIELDS and value is not None}
    return {**event, **{name: value for name, value in kept.items() if name not in event}}


def _of_activity(info: activity.Info) -> dict[str, object]:
    return {
        "workflow_id": info.workflow_id,
        "run_id": info.workflow_run_id,
        "workflow_type": info.workflow_type,
        "activity_type": info.activity_type,
        "activity_id": info.activity_id,
        "attempt": info.attempt,
    }
