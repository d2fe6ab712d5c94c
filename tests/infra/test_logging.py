"""The log: every line says which run and activity it belongs to, and no secret is in it."""

import contextlib
import io
import json
import logging
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import structlog
    from pydantic import SecretStr

    from infra.logging import configure_logging
    from infra.settings import MASK, Settings

SECRET = 'hush"s3cr3t\\ü'


class Terminal(io.StringIO):
    """A stream that says that a person reads it."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """What a test configures ends with it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    """Return the JSON lines written so far."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def line(stream: io.StringIO, event: str) -> dict[str, object]:
    """Return the one line with this event."""
    (found,) = [fields for fields in lines(stream) if fields["event"] == event]
    return found


def fail(local_variable: str, message: str) -> None:
    """Fail, with something in a local variable that nobody shall see."""
    kept = local_variable * 2
    raise ValueError(message or kept)


@activity.defn
async def write_lines() -> None:
    """Write a line through each logger that an activity may use."""
    with structlog.contextvars.bound_contextvars(turn=3, call="call_7"):
        activity.logger.info("by temporal's logger")
        structlog.stdlib.get_logger("ours").info("by structlog", size_bytes=12)
        logging.getLogger("library").warning("by a %s", "library")


@workflow.defn
class Logging:
    """Logs, and has an activity log."""

    @workflow.run
    async def run(self) -> None:
        """Write a line before and after the activity."""
        workflow.logger.info("by the workflow", extra={"turn": 2})
        await workflow.execute_activity(write_lines, start_to_close_timeout=timedelta(seconds=30))


async def run_and_log(client: Client, stream: io.StringIO) -> WorkflowHandle[Logging, None]:
    """Run the workflow, replayed from its start at each task, with the log going to `stream`."""
    configure_logging(Settings(), stream)
    queue = f"logging-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Logging], activities=[write_lines], max_cached_workflows=0):
        handle = await client.start_workflow(Logging.run, id=queue, task_queue=queue)
        await handle.result()
    return handle


async def test_every_line_of_an_activity_names_run_and_activity(client: Client) -> None:
    """Whichever logger wrote it: Temporal's, structlog or a library's; as flat fields, nothing else besides."""
    stream = io.StringIO()
    handle = await run_and_log(client, stream)
    for event in ("by temporal's logger", "by structlog", "by a library"):
        fields = line(stream, event)
        assert fields["workflow_id"] == handle.id
        assert fields["run_id"] == handle.result_run_id
        assert (fields["workflow_type"], fields["activity"], fields["attempt"]) == ("Logging", "write_lines", 1)
        assert (fields["turn"], fields["call"]) == (3, "call_7")
        assert fields["activity_id"]
        assert not {"temporal_activity", "namespace", "task_queue"} & fields.keys()
    assert line(stream, "by structlog")["size_bytes"] == 12


async def test_a_workflows_line_names_the_run_and_is_written_once(client: Client) -> None:
    """A replay does not write it again; inside the sandbox, too."""
    stream = io.StringIO()
    handle = await run_and_log(client, stream)
    fields = line(stream, "by the workflow")
    assert (fields["workflow_id"], fields["run_id"], fields["turn"]) == (handle.id, handle.result_run_id, 2)
    assert (fields["level"], fields["logger"]) == ("info", "temporalio.workflow")
    assert "temporal_workflow" not in fields


def test_configuring_again_replaces_and_does_not_double() -> None:
    """The last stream gets the lines, once; handlers of others stay."""
    first, second, foreign = io.StringIO(), io.StringIO(), logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    configure_logging(Settings(), first)
    configure_logging(Settings(), second)
    configure_logging(Settings(), second)
    structlog.stdlib.get_logger("ours").info("once")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1
    assert foreign in logging.getLogger().handlers


def test_an_exception_is_one_structured_field() -> None:
    """Type and message are fields, and so are the frames; no local variable is among them."""
    stream = io.StringIO()
    configure_logging(Settings(), stream)
    try:
        fail("never-shown", "wrong by far")
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("ours failed")
        logging.getLogger("library").exception("theirs failed")
    for event in ("ours failed", "theirs failed"):
        exception = line(stream, event)["exception"]
        assert isinstance(exception, list)
        assert (exception[0]["exc_type"], exception[0]["exc_value"]) == ("ValueError", "wrong by far")
    assert "never-shown" not in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["json", "console"])
def test_secrets_are_masked_wherever_they_stand(stream: io.StringIO) -> None:
    """In events, values, arguments and exceptions, of any logger, quotes and umlauts or not."""
    configure_logging(Settings(openai_api_key=SecretStr(SECRET)), stream)
    structlog.stdlib.get_logger("ours").info(f"it is {SECRET}", key=f"<{SECRET}>", object=SecretStr(SECRET))
    try:
        fail("", f"key {SECRET} is wrong")
    except ValueError:
        logging.getLogger("library").exception("with %s", SECRET)
    assert "s3cr3t" not in stream.getvalue()
    assert stream.getvalue().count(MASK) >= 4


@activity.defn
async def fail_as(kind: str) -> None:
    """Fail as expected, or by a bug."""
    if kind == "expected":
        raise ApplicationError("the store is away", non_retryable=True)
    raise ValueError("a bug")


@workflow.defn
class Failing:
    """Has an activity fail."""

    @workflow.run
    async def run(self, kind: str) -> None:
        """Let it fail once."""
        once = RetryPolicy(maximum_attempts=1)
        with contextlib.suppress(ActivityError):
            await workflow.execute_activity(
                fail_as, kind, start_to_close_timeout=timedelta(seconds=30), retry_policy=once
            )


async def test_an_expected_failure_has_no_traceback_of_temporals(client: Client) -> None:
    """The border has said it, with its reason; what nobody expected keeps line and traceback."""
    stream, queue = io.StringIO(), f"failing-{uuid.uuid4().hex[:8]}"
    configure_logging(Settings(), stream)
    async with Worker(client, task_queue=queue, workflows=[Failing], activities=[fail_as]):
        for kind in ("expected", "bug"):
            await client.execute_workflow(Failing.run, kind, id=f"{queue}-{kind}", task_queue=queue)
    fields = line(stream, "Completing activity as failed")
    assert "a bug" in str(fields["exception"])


def test_a_terminal_gets_lines_for_people_and_all_else_gets_json() -> None:
    """Unless the format is chosen."""
    terminal, file, chosen = Terminal(), io.StringIO(), Terminal()
    for stream, settings in ((terminal, Settings()), (file, Settings()), (chosen, Settings(log_format="json"))):
        configure_logging(settings, stream)
        structlog.stdlib.get_logger("ours").info("hello", size_bytes=1)
    assert not terminal.getvalue().startswith("{")
    assert "hello" in terminal.getvalue()
    assert [line(stream, "hello")["size_bytes"] for stream in (file, chosen)] == [1, 1]


def test_lines_below_the_level_and_chatter_of_libraries_stay_out() -> None:
    """Signed requests at debug level are nobody's business."""
    stream = io.StringIO()
    configure_logging(Settings(log_level="DEBUG"), stream)
    logging.getLogger("botocore.auth").debug("signature")
    structlog.stdlib.get_logger("ours").debug("fine")
    configure_logging(Settings(log_level="WARNING"), stream)
    structlog.stdlib.get_logger("ours").info("too low")
    assert [fields["event"] for fields in lines(stream)] == ["fine"]


def test_odd_values_never_break_the_log() -> None:
    """Lone surrogates, bytes and objects are written somehow."""
    stream = io.StringIO()
    configure_logging(Settings(), stream)
    structlog.stdlib.get_logger("ours").info("odd \ud800", body=b"\xff", thing=object())
    assert len(lines(stream)) == 1
