"""Facts about a tool call as an activity: whatever a tool does ends in a result or in an error with a verdict."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, CancelledError

from activities.tool_context import ToolContext
from activities.toolbox import Tool, Toolbox, tool
from core.content import Content
from core.errors import BlobMissing, Failed, InputError, NotDone
from core.scopes import artifact_key
from core.tools import Effect
from tests.activities.calling import Calling
from tests.activities.made import SHORT, doing, doing_on_the_loop, raising, returning
from tests.fakes import Fault
from tests.waiting import wait_until


@pytest.mark.parametrize("make", [doing, doing_on_the_loop])
@pytest.mark.parametrize("error", [Failed("no such city"), InputError("no such file")])
async def test_a_failure_on_purpose_is_a_failed_result(
    calling: Calling, make: Callable[[Callable[[], object]], Tool[..., Any]], error: Exception
) -> None:
    """The model reads the text."""
    calling.toolbox = Toolbox([make(raising(error))])
    outcome = await calling.call("does")
    assert outcome.failed
    assert outcome.content.text == str(error)


async def test_a_failure_with_a_huge_text_is_cut(calling: Calling) -> None:
    """And clean."""
    calling.toolbox = Toolbox([doing(raising(Failed("\0\ud800" + "x" * 5_000_000)))])
    outcome = await calling.call("does")
    assert outcome.failed
    assert outcome.content.text is not None
    assert outcome.content.text.startswith("\u2400")


class Unprintable(Exception):
    """An error that can't even say what it is."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError("no text")


@pytest.mark.parametrize("make", [doing, doing_on_the_loop])
@pytest.mark.parametrize(
    ("error", "kind", "retried"),
    [
        (RuntimeError("upside down"), "RuntimeError", True),
        (NotDone("busy; nothing happened"), "NotDone", True),
        (BlobMissing("gone"), "BlobMissing", False),
        (ValueError("x" * 5_000_000), "ValueError", True),
        (Unprintable(), "Unprintable", True),
        (SystemExit(3), "ToolCrashed", True),
        (KeyboardInterrupt(), "ToolCrashed", True),
        (GeneratorExit(), "ToolCrashed", True),
        (asyncio.CancelledError(), "ToolCrashed", True),
        (CancelledError("nobody asked for it"), "ToolCrashed", True),
        (ApplicationError("x" * 5_000_000, type="Full", non_retryable=True), "Full", False),
        (ApplicationError("as ours", type="StoreRefused"), "tool.StoreRefused", True),
        (RecursionError("deep"), "RecursionError", True),
    ],
)
async def test_an_error_is_raised_with_its_verdict_and_harms_nothing_else(
    calling: Calling,
    make: Callable[[Callable[[], object]], Tool[..., Any]],
    error: BaseException,
    kind: str,
    retried: bool,
) -> None:
    """No exception of a tool ends the worker, hangs the call or carries megabytes."""
    calling.toolbox = Toolbox([make(raising(error))])
    with pytest.raises(ApplicationError) as caught:
        await calling.call("does")
    assert caught.value.type == kind
    assert caught.value.non_retryable is not retried
    assert len(caught.value.message) < 5000


FOREIGN = ["StoreUnavailable", "BlobMissing", "NotDone", "InputError", "TimedOut", "NotFoundError"]


@pytest.mark.parametrize("name", FOREIGN)
async def test_an_error_of_a_library_is_never_taken_for_one_of_ours(calling: Calling, name: str) -> None:
    """The run would take a write for one that could not even begin, and start it again."""
    error = type(name, (Exception,), {"__module__": "somelib.errors"})("lost the connection")
    calling.toolbox = Toolbox([doing(raising(error))])
    with pytest.raises(ApplicationError) as caught:
        await calling.call("does")
    assert (caught.value.type, caught.value.non_retryable) == (f"somelib.errors.{name}", False)


async def test_stop_iteration_does_not_hang_the_call(calling: Calling) -> None:
    """Futures refuse to carry it."""
    calling.toolbox = Toolbox([doing(raising(StopIteration()))])
    with pytest.raises(ApplicationError, match="StopIteration"):
        await calling.call("does")


async def test_sys_exit_in_a_tool_leaves_the_worker_running(calling: Calling) -> None:
    """The next call works."""
    calling.toolbox = Toolbox([doing(lambda: sys.exit(3)), returning("still here")])
    with pytest.raises(ApplicationError, match="SystemExit: 3"):
        await calling.call("does")
    assert await calling.text("returns") == "still here"


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"x": NaN}', '{"x": "1"}', "{}", '{"x": 1, "y": 2}'])
async def test_bad_arguments_are_a_failed_result_and_the_tool_is_not_run(calling: Calling, arguments: str) -> None:
    """Checked again where the tool runs."""
    ran = []

    @tool(effect="write", timeout=SHORT)
    def writes(x: int) -> None:
        """Write."""
        ran.append(x)

    calling.toolbox = Toolbox([writes])
    outcome = await calling.call_raw("writes", arguments)
    assert outcome.failed
    assert outcome.content.shown().startswith("writes was not run")
    assert not ran


async def test_a_call_that_has_a_problem_is_never_run(calling: Calling) -> None:
    """A reply that was cut may have arguments that look whole."""
    calling.toolbox = Toolbox([returning("ran")])
    outcome = await calling.call_content("returns", Content(text="{}"), problem="your reply was cut")
    assert outcome.failed
    assert outcome.content.text == "your reply was cut"


async def test_long_arguments_come_from_the_store(calling: Calling) -> None:
    """Content is content, whichever way it goes."""

    @tool(effect="read", timeout=SHORT)
    def measures(text: str) -> int:
        """Measure."""
        return len(text)

    calling.toolbox = Toolbox([measures])
    assert await calling.text("measures", {"text": "x" * 100_000}) == "100000"


@pytest.mark.parametrize(("fault", "retried"), [("unavailable", True), ("refused", False)])
async def test_a_store_that_fails_is_raised_by_its_own_verdict(calling: Calling, fault: Any, retried: bool) -> None:
    """The result of a tool is never lost quietly."""
    calling.toolbox = Toolbox([returning(b"made")])
    calling.blobs.fail("put", fault, prefix=artifact_key("a run", ""))
    with pytest.raises(ApplicationError) as caught:
        await calling.call("returns")
    assert caught.value.non_retryable is not retried


@pytest.mark.parametrize("fault", ["missing", "altered", "truncated"])
async def test_arguments_that_are_lost_or_damaged_pause_the_run(calling: Calling, fault: Any) -> None:
    """They are not run, and not told to the model: a person mends the store."""
    calling.toolbox = Toolbox([returning("ran")])
    content = await calling.storage.artifacts("a run").store_text("{}" + " " * 5000, "arguments.json")
    calling.blobs.fail("get", fault)
    with pytest.raises(ApplicationError) as caught:
        await calling.call_content("returns", content)
    assert caught.value.type in {"BlobMissing", "BlobCorrupt"}
    assert caught.value.non_retryable


async def test_the_context_says_which_call_and_attempt_it_is(calling: Calling) -> None:
    """The key for outside systems is the same for each attempt."""
    seen: list[tuple[str, int, str]] = []

    @tool(effect="idempotent_write", timeout=SHORT)
    async def looks(*, context: ToolContext) -> None:
        """Look."""
        seen.append((context.call_id, context.attempt, context.idempotency_key))

    calling.toolbox = Toolbox([looks])
    await calling.call("looks")
    assert seen == [("t1c1", 1, "0123-run-t1c1")]


async def test_a_sync_tool_tells_how_far_it_is_from_its_thread(calling: Calling) -> None:
    """One clean line."""
    beats: list[Any] = []
    calling.environment.on_heartbeat = lambda *details: beats.extend(details)

    @tool(effect="read", timeout=SHORT)
    def works(*, context: ToolContext) -> str:
        """Work."""
        context.heartbeat("half\n\0done \ud800" + "x" * 5000)
        return threading.current_thread().name

    calling.toolbox = Toolbox([works])
    assert await calling.text("works") != threading.current_thread().name
    await wait_until(lambda: beats, description="the heartbeat")
    assert beats[0].startswith("half")
    assert len(beats[0]) <= 200


async def test_waiting_on_the_loop_is_refused_with_the_cure(calling: Calling) -> None:
    """It would wait for itself for ever."""

    @tool(effect="read", timeout=SHORT)
    async def waits(*, context: ToolContext) -> str:
        """Wait."""
        return str(context.wait(context.workspace.folder()))

    calling.toolbox = Toolbox([waits])
    with pytest.raises(ApplicationError, match="await the coroutine"):
        await calling.call("waits")


async def test_an_attempts_own_folder_is_gone_afterwards(calling: Calling) -> None:
    """Also after an error."""
    folders: list[Path] = []

    @tool(effect="read", timeout=SHORT)
    def spools(*, context: ToolContext) -> None:
        """Spool."""
        (context.folder / "x").write_text("x")
        folders.append(context.folder)
        raise RuntimeError("in the middle")

    calling.toolbox = Toolbox([spools])
    with pytest.raises(ApplicationError):
        await calling.call("spools")
    assert folders
    assert not folders[0].exists()


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_cancel_reaches_a_sync_tool(calling: Calling, effect: Effect) -> None:
    """It is told to stop; a write that came to its end all the same is reported as done, a read is not."""
    started, stopped = threading.Event(), threading.Event()

    @tool(effect=effect, timeout=SHORT)
    def loops(*, context: ToolContext) -> str:
        """Loop."""
        started.set()
        while not context.cancelled:
            time.sleep(0.01)
        stopped.set()
        return "ended"

    calling.toolbox = Toolbox([loops])
    running = asyncio.create_task(calling.call("loops"))
    await wait_until(started.is_set)
    calling.environment.cancel()
    if effect == "write":
        assert (await running).content.text == "ended"
    else:
        with pytest.raises(asyncio.CancelledError):
            await running
    assert stopped.is_set()


async def test_a_sync_tool_that_waits_for_the_store_is_woken_by_a_cancel(calling: Calling) -> None:
    """What it waits for is cancelled, too."""
    started, woken = asyncio.Event(), asyncio.Event()

    @tool(effect="read", timeout=SHORT)
    def waits(*, context: ToolContext) -> None:
        """Wait."""
        context.wait(forever())

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            woken.set()

    calling.toolbox = Toolbox([waits])
    running = asyncio.create_task(calling.call("waits"))
    await started.wait()
    calling.environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await woken.wait()


async def test_a_cancel_ends_an_async_tool(calling: Calling) -> None:
    """By a CancelledError where it waits."""
    started, ended = threading.Event(), threading.Event()

    @tool(effect="read", timeout=SHORT)
    async def waits() -> None:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    calling.toolbox = Toolbox([waits])
    running = asyncio.create_task(calling.call("waits"))
    await asyncio.to_thread(started.wait)
    calling.environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_thread_that_does_not_listen_is_left_behind(calling: Calling) -> None:
    """The activity ends; what the thread returns later is thrown away."""
    started, release = threading.Event(), threading.Event()

    @tool(effect="write", timeout=SHORT)
    def deaf() -> str:
        """Hear nothing."""
        started.set()
        release.wait(60)
        return "too late"

    calling.toolbox = Toolbox([deaf])
    running = asyncio.create_task(calling.call("deaf"))
    await wait_until(started.is_set)
    calling.environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    release.set()


async def test_the_log_has_a_line_at_start_and_end_and_no_arguments(
    calling: Calling, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contents of calls stay out of logs."""

    @tool(effect="read", timeout=SHORT)
    def hears(secret: str) -> str:
        """Hear."""
        return secret

    calling.toolbox = Toolbox([hears])
    await calling.call("hears", {"secret": "open sesame"})
    out = capsys.readouterr().out
    assert out.count("tool started") == out.count("tool finished") == 1
    assert "call_id=t1c1" in out
    assert "sesame" not in out


@pytest.mark.parametrize("fault", ["refused", "unavailable"])
async def test_a_write_whose_output_cannot_be_stored_is_not_run_again(calling: Calling, fault: Fault) -> None:
    """It ran; the model learns that only its output is missing."""

    @tool(effect="write", timeout=SHORT)
    def sends() -> str:
        """Send."""
        calling.blobs.fail("put", fault)
        return "x" * 10_000

    calling.toolbox = Toolbox([sends])
    outcome = await calling.call("sends")
    assert outcome.failed
    assert (outcome.content.text or "").startswith("sends ran to its end, but what it returned could not be stored")


@pytest.mark.parametrize(("effect", "kind"), [("write", "ToolCrashed"), ("read", "StoreRefused")])
async def test_storage_that_fails_inside_a_write_is_no_reason_to_repeat_it(
    calling: Calling, effect: Effect, kind: str
) -> None:
    """What the tool did before is not known; a read just waits for the store."""

    @tool(effect=effect, timeout=SHORT)
    async def sends(*, context: ToolContext) -> str:
        """Send, then look something up."""
        calling.blobs.fail("list", "refused")
        return (await context.artifacts.find("a:000000000000")).name

    calling.toolbox = Toolbox([sends])
    with pytest.raises(ApplicationError) as raised:
        await calling.call("sends")
    assert raised.value.type == kind


async def test_what_a_tool_told_last_stays_in_its_heartbeats(calling: Calling) -> None:
    """The beats that only say that it lives do not wipe it out."""
    beats: list[Any] = []
    calling.environment.on_heartbeat = lambda *details: beats.append(details)
    calling.environment.info = replace(calling.environment.info, heartbeat_timeout=timedelta(milliseconds=60))

    @tool(effect="read", timeout=SHORT)
    async def works(*, context: ToolContext) -> str:
        """Work."""
        context.heartbeat("half done")
        told = len(beats)
        await wait_until(lambda: len(beats) > told + 3, description="some more beats")
        return "done"

    calling.toolbox = Toolbox([works])
    await calling.call("works")
    assert beats[-1] == ("half done",)


async def test_a_tool_that_does_not_end_in_its_time_is_stopped_and_named(calling: Calling) -> None:
    """Its own timeout is kept where it runs; what it raises by itself is an error of its own."""
    stopped = threading.Event()

    @tool(effect="read", timeout=timedelta(milliseconds=200))
    def sleeps(*, context: ToolContext) -> None:
        """Sleep until it is told to stop."""
        while not context.cancelled:
            time.sleep(0.01)
        stopped.set()

    @tool(effect="read", timeout=SHORT)
    def gives_up() -> None:
        """Raise what looks like a timeout of somebody else's."""
        raise TimeoutError("the printer did not answer")

    calling.toolbox = Toolbox([sleeps, gives_up])
    with pytest.raises(ApplicationError, match=r"sleeps did not end within 0\.2 seconds") as late:
        await calling.call("sleeps")
    assert (late.value.type, late.value.non_retryable, stopped.is_set()) == ("TimedOut", False, True)
    with pytest.raises(ApplicationError, match="the printer did not answer") as own:
        await calling.call("gives_up")
    assert own.value.type == "TimeoutError"
