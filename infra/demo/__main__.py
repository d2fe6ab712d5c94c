"""The demo: an agent on real data, a worker killed with -9 in mid-run, a person's approval, a report and its price.

All is done as a user would: by `starter.py`, on a stack of its own under `.local/demo`, which ends with the demo.
Exit code 0 when the agent has delivered; 1 when it has not; 2 for wrong input; 3 when the servers do not come up;
130 when it was interrupted.
"""

import argparse
import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from core.content import Content, readable_bytes
from core.errors import PerdureError
from core.lines import readable_arguments
from core.runs import RunResult
from core.storage import Storage
from core.view import StateView
from infra.demo.history import HistoryCost, cost_of
from infra.exits import FAILED, INTERRUPTED, OK, UNREACHABLE, WRONG_INPUT
from infra.process import leave
from infra.s3 import S3BlobStore
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


class Kill(BaseModel):
    """When the worker was killed, and at which activity."""

    at: datetime
    during: str


async def demo(stack: LocalStack, file: Path, task: str) -> None:
    """Show the main job from start to report."""
    log_path = stack.data_dir / "logs" / "worker.log"
    await stack.run("worker", [sys.executable, "worker.py"], log_path=log_path)
    _say(f"Servers and a worker are up. Temporal's Web UI: {stack.addresses.ui}")
    client = await connect(stack.settings())
    run_id = f"demo-{uuid4().hex[:6]}"
    handle = client.get_workflow_handle(run_id, result_type=RunResult)
    await _starter(stack, "start", "analyst", task, "--attach", str(file), "--id", run_id)
    kill = await _kill_worker(stack, client, run_id)
    await _approve_all(stack, handle, run_id)
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        raise DemoFailed(f"the run failed: {error.cause}") from error
    await _report(stack, result)
    history = cost_of(await client.get_workflow_handle(run_id).fetch_history())
    _price(result, history, kill)


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


async def _report(stack: LocalStack, result: RunResult) -> None:
    _rule("The answer")
    console.print(Markdown(await _text(stack, result.scope, result.text)))
    for ref in result.artifacts:
        _rule(ref.described())
        console.print(Markdown(await _text(stack, result.scope, Content(artifact=ref))))


async def _text(stack: LocalStack, scope: str, content: Content) -> str:
    blobs = S3BlobStore.from_settings(stack.settings())
    try:
        return await Storage(blobs).artifacts(scope).read_text(content)
    finally:
        await blobs.close()


def _price(result: RunResult, history: HistoryCost, kill: Kill | None) -> None:
    """Print what the run has cost, as Temporal counted it."""
    _rule("What it cost")
    table = Table(show_header=False, box=None)
    activities = ", ".join(f"{name} {count}" for name, count in sorted(history.activities.items()))
    retried = ", ".join(f"{name} {count}" for name, count in sorted(history.retries.items()) if count)
    rows = {
        "outcome": result.outcome,
        "model": result.model,
        "turns": str(result.turns),
        "activities": f"{sum(history.activities.values())} ({activities})",
        "run again after the kill": retried or "nothing",
        "resumed after": _resumed_after(history, kill) if kill is not None else "the worker was not killed",
        "tokens": f"{result.usage.input_tokens} in, {result.usage.output_tokens} out",
        "price of the model": "not known" if (cost := result.usage.cost_usd) is None else f"{cost:.4f} USD",
        "history": f"{history.events} events, {readable_bytes(history.size_bytes)}, "
        f"{readable_bytes(history.size_bytes // max(result.turns, 1))} a turn",
        "artifacts": f"{len(result.artifacts)}, {readable_bytes(sum(ref.size_bytes for ref in result.artifacts))}",
        "time": f"{result.seconds:.1f} s, of it {result.waited_seconds:.1f} s waiting for a person",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _resumed_after(history: HistoryCost, kill: Kill) -> str:
    resumed_at = history.first_end_after(kill.at)
    if resumed_at is None:
        return "the run had done all its steps"
    return f"{(resumed_at - kill.at).total_seconds():.1f} s (kill -9 during {kill.during} to the next finished step)"


async def _starter(stack: LocalStack, *arguments: str) -> None:
    """Run a command of the starter as a user would, and show it."""
    shown = " ".join(argument if argument.replace("-", "").isalnum() else f'"{argument}"' for argument in arguments)
    console.print(f"\n[bold]$ starter.py {escape(shown)}[/]", soft_wrap=True)
    environment = {**os.environ, **stack.env()}
    process = await asyncio.create_subprocess_exec(sys.executable, "starter.py", *arguments, env=environment)
    if await process.wait() != 0:
        raise DemoFailed(f"starter.py {arguments[0]} ended with exit code {process.returncode}; its message is above")


def _say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def _rule(title: str) -> None:
    console.print()
    console.print(Rule(title, align="left"))


async def _main(file: Path, task: str) -> None:
    async with LocalStack(Path(".local/demo")) as stack:
        await demo(stack, file, task)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="Show Perdure at work.")
    parser.add_argument("--file", type=Path, default=DATA, help="a data file of your own")
    parser.add_argument("--task", default=TASK, help="what the analyst shall find out")
    given = parser.parse_args(arguments)
    if not given.file.is_file():
        console.print(f"{given.file} is no file: make demo FILE=path/to/data.csv", markup=False)
        return WRONG_INPUT
    try:
        asyncio.run(_main(given.file, given.task))
    except (DemoFailed, TimeoutError) as error:
        reason = str(error) or f"nothing happened for {PATIENCE.total_seconds():g} seconds; see .local/demo/logs"
        console.print(f"The demo did not get to its end: {reason}", markup=False)
        return FAILED
    except PerdureError as error:
        console.print(str(error), markup=False)
        return UNREACHABLE
    except KeyboardInterrupt:
        console.print("interrupted; servers and worker are stopped", markup=False)
        return INTERRUPTED
    return OK


if __name__ == "__main__":
    try:
        exit_status = main()
    except BaseException:  # noqa: BLE001 - a bug: show it all, and still end safely
        traceback.print_exc()
        exit_status = FAILED
    leave(exit_status)
