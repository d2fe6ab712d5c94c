"""The demo: an agent on real data, a worker killed with -9 in mid-run, a person's approval, a report and its price.

All is done as a user would: by `starter.py`, on a stack of its own in the folder `demo` of the data directory. The
stack ends with the demo; the report is kept, in its folder `reports`.

Exit code 0 when the agent has delivered; 1 when it has not; 2 for wrong input; 3 when the servers do not come up;
130 when it was interrupted.
"""

import argparse
import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from core.artifacts import Artifacts
from core.content import ArtifactRef, Content
from core.errors import InputError, PerdureError
from core.lines import readable_arguments
from core.runs import RunResult
from core.storage import Storage
from core.view import StateView
from infra.demo.history import cost_of
from infra.demo.price import Kill, price
from infra.exits import FAILED, INTERRUPTED, OK, UNREACHABLE, WRONG_INPUT
from infra.foreground import until_stopped
from infra.process import client_settings
from infra.s3 import S3BlobStore
from infra.settings import inherited_environment
from infra.stack import LocalStack
from infra.temporal import AGENT_PHASE, connect

DATA = Path(__file__).parent / "birdstrikes.csv"
TASK = "Which wildlife species cause the highest repair costs, and in which phase of flight do strikes happen?"
PATIENCE = timedelta(minutes=5)
READING_SECONDS = 1.0
"""A moment for the reader before the approval is sent; nothing waits for it."""

SHOWN_CHARACTERS = 1200
ENDED = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    }
)

console = Console(highlight=False)
Handle = WorkflowHandle[object, RunResult]


class DemoFailed(PerdureError):
    """The demo did not get to its end; the text says what to look at."""


async def demo(stack: LocalStack, file: Path, task: str) -> None:
    """Show the main job from start to report."""
    log_path = stack.data_dir / "logs" / "worker.log"
    await stack.run("worker", [sys.executable, "worker.py"], log_path=log_path)
    _say(f"Servers and a worker are up. Temporal's Web UI: {stack.addresses.ui}")
    client = await connect(stack.settings())
    run_id = f"demo-{uuid4().hex[:6]}"
    handle = client.get_workflow_handle(run_id, result_type=RunResult)
    order = ["analyst", task, "--attach", _short(file), "--id", run_id]
    if task.startswith("-"):  # else it would be taken for an option
        order = [*order[2:], "--", *order[:2]]
    await _starter(stack, "start", *order)
    kill = await _kill_worker(stack, client, run_id)
    await _approve_all(stack, handle, run_id)
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        raise DemoFailed(f"the run failed: {error.cause}") from error
    await _answer(stack, result)
    history = cost_of(await client.get_workflow_handle(run_id).fetch_history())
    _rule("What it cost")
    console.print(price(result, history, kill))
    await _keep(stack, run_id, result)


async def _kill_worker(stack: LocalStack, client: Client, run_id: str) -> Kill | None:
    """Kill the worker with -9 as soon as the run's first query is on its way; the supervisor starts another one."""
    _rule("The worker is killed")
    async with asyncio.timeout(PATIENCE.total_seconds()):
        during = await scheduled(client, run_id, not_before="query_artifact")
    if during is None:
        _say("Not this time: the run ended, or began to wait for a person, before it queried anything.")
        return None
    pid = stack.pids["worker"]
    os.kill(pid, signal.SIGKILL)
    kill = Kill(at=datetime.now(UTC), during=during)
    _say(f"kill -9 {pid}: the worker is gone in the middle of {during}. Another one takes its place.")
    return kill


async def scheduled(client: Client, run_id: str, not_before: str) -> str | None:
    """Follow a run up to its first activity of this type, or to any in its third turn; return that activity's type.

    None when the run ends, pauses or waits for a person before: then nothing more comes by itself.
    """
    asked = 0
    async for event in client.get_workflow_handle(run_id).fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            asked += name == "ask_model"
            if name == not_before or asked > 2:
                return name
        if event.event_type in ENDED or _waits(event):
            return None
    return None


def _waits(event: HistoryEvent) -> bool:
    """Say whether this is where the run shows that it waits for a person."""
    fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    return AGENT_PHASE.name in fields and fields[AGENT_PHASE.name].data in {b'"paused"', b'"awaiting_approval"'}


async def _approve_all(stack: LocalStack, handle: Handle, run_id: str) -> None:
    """Show each call that waits for a person, and approve it as the person would."""
    shown_lines: set[str] = set()
    while (state := await _settled(handle, shown_lines)) is not None:
        if state.paused:
            raise DemoFailed(f"the run paused: {state.paused}")
        for pending in state.pending:
            if pending.doubt or pending.question:
                raise DemoFailed(f"a call waits for more than approval: {pending.tool} {pending.doubt}")
            _rule("The agent waits for a person")
            text = readable_arguments(await _text(stack, run_id, pending.arguments))
            shown = text if len(text) < SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"
            title = f"{pending.tool} ({pending.id}) waits with exactly these arguments"
            console.print(Panel(Text(shown), title=title, title_align="left"))
            await asyncio.sleep(READING_SECONDS)
            await _starter(stack, "approve", run_id, pending.id, "--by", "the demo")


async def _settled(handle: Handle, shown_lines: set[str]) -> StateView | None:
    """Wait until the run waits for a person (its state), or has ended (None); show its steps meanwhile."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            description = await handle.describe()
            if description.close_time is not None:
                return None
            try:
                state: StateView = await handle.query("state", result_type=StateView, rpc_timeout=timedelta(seconds=5))
            except RPCError:
                continue  # the new worker is not there yet
            for line in state.recent:
                if line not in shown_lines:
                    shown_lines.add(line)
                    _say(f"  {line}")
            if state.phase in {"awaiting_approval", "paused"}:
                return state
            await asyncio.sleep(0.1)


async def _answer(stack: LocalStack, result: RunResult) -> None:
    _rule("The answer")
    console.print(Markdown(await _text(stack, result.scope, result.text)))
    for ref in result.artifacts:
        _rule(ref.described())
        console.print(Markdown(await _text(stack, result.scope, Content(artifact=ref))))


async def _keep(stack: LocalStack, run_id: str, result: RunResult) -> None:
    """Write the run's artifacts, or its answer when it made none, where they outlast the demo; say where, and go on."""
    folder = stack.data_dir / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    kept = [(ref, folder / report_name(run_id, number, ref)) for number, ref in enumerate(result.artifacts, 1)]
    async with _artifacts(stack, result.scope) as artifacts:
        for ref, path in kept:
            await artifacts.download(ref, path)
    if not kept:
        answer = folder / f"{run_id}.md"
        answer.write_text(await _text(stack, result.scope, result.text))
    _rule("What is next")
    for path in [path for _, path in kept] or [folder / f"{run_id}.md"]:
        _say(f"The report is kept: {_short(path)}")
    _say("`make up` starts servers and a worker that go on, for your own agents and data, and says what to type.")


def report_name(run_id: str, number: int, ref: ArtifactRef) -> str:
    """Name the file of a run's report, from 1: the artifact's own name was made by a model, only its ending is kept."""
    ending = re.search(r"\.[A-Za-z0-9]{1,10}$", ref.name)
    return f"{run_id}{'' if number == 1 else f'-{number}'}{ending[0] if ending else '.txt'}"


async def _text(stack: LocalStack, scope: str, content: Content) -> str:
    async with _artifacts(stack, scope) as artifacts:
        return await artifacts.read_text(content)


@asynccontextmanager
async def _artifacts(stack: LocalStack, scope: str) -> AsyncIterator[Artifacts]:
    blobs = S3BlobStore.from_settings(stack.settings())
    try:
        yield Storage(blobs).artifacts(scope)
    finally:
        await blobs.close()


async def _starter(stack: LocalStack, *arguments: str) -> None:
    """Run a command of the starter as a user would, and show it with what it says.

    What it hints at on its standard error is shown only when it fails: the hints are for a stack that goes on.
    """
    console.print(f"\n[bold]$ starter.py {escape(shlex.join(arguments))}[/]", soft_wrap=True)
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "starter.py", *arguments],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited_environment("TEMPORAL_", "PERDURE_S3_") | stack.env(),
        start_new_session=True,  # Ctrl-C is for the demo, which ends it
    )
    try:
        said, hinted = await process.communicate()
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    console.print(Text.from_ansi(said.decode().rstrip()), soft_wrap=True)
    if process.returncode != 0:
        console.print(Text.from_ansi(hinted.decode().rstrip()), soft_wrap=True)
        raise DemoFailed(f"starter.py {arguments[0]} ended with exit code {process.returncode}; its message is above")


def _short(path: Path) -> str:
    """Return a path as one would type it here."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _rule(title: str) -> None:
    console.print()
    console.print(Rule(title, align="left"))


async def _run(data_dir: Path, file: Path, task: str) -> None:
    async with LocalStack(data_dir) as stack:
        await demo(stack, file, task)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="Show Perdure at work.")
    parser.add_argument("--file", type=Path, default=DATA, help="a data file of your own")
    parser.add_argument("--task", default=TASK, help="what the analyst shall find out")
    given = parser.parse_args(arguments)
    if not given.file.is_file():
        _say(f"{given.file} is no file: make demo FILE=path/to/data.csv")
        return WRONG_INPUT
    try:
        data_dir = client_settings().data_dir / "demo"
        stopped = asyncio.run(_run_until_stopped(data_dir, given.file, given.task))
    except (DemoFailed, TimeoutError) as error:
        reason = str(error) or f"nothing happened for {PATIENCE.total_seconds():g} seconds; see the demo's logs"
        _say(f"The demo did not get to its end: {reason}")
        return FAILED
    except PerdureError as error:
        _say(str(error))
        return WRONG_INPUT if isinstance(error, InputError) else UNREACHABLE
    if stopped:
        _say("interrupted; servers and worker are stopped")
    return INTERRUPTED if stopped else OK


async def _run_until_stopped(data_dir: Path, file: Path, task: str) -> bool:
    return await until_stopped(_run(data_dir, file, task), on_stop=lambda: _say("stopping servers and worker"))
