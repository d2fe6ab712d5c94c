"""What the commands of `starter.py` do. Each returns its exit code, and raises only `PerdureError`s."""

import sys
from collections.abc import Sequence
from pathlib import Path

from core.content import clean
from core.errors import InputError
from infra.agent_files import list_agents, load_agent, load_team
from infra.display import (
    Display,
    command_text,
    show_agents,
    show_run,
    show_runs,
    show_settings,
    show_waiting,
)
from infra.exits import OK, exit_code_of
from infra.forks import ForkWish, launch_fork, make_fork_order
from infra.inbox import inbox
from infra.journals import scope_of
from infra.launch import Launched, Order, launch, make_order
from infra.live import show_events, upload_progress
from infra.process import client_settings
from infra.reports import outcome_of, report_run, show_outcome, write_artifact
from infra.runs import Runs
from infra.selection import Phase, selection
from infra.settings import Settings, describe
from infra.store import find_artifact, opened_storage, save
from infra.temporal import connect
from infra.watch import follow


async def start_run(  # noqa: PLR0913 - each is an option of the command
    display: Display,
    agent: str,
    task: str,
    *,
    attachments: Sequence[Path],
    run: str | None,
    model: str | None,
    watch_it: bool,
) -> int:
    """Start a run, or attach to the one of this id; a task of `-` comes from standard input."""
    settings = client_settings()
    found = load_agent(agent, settings.agents_dir)
    team = load_team(found, settings.agents_dir)
    task = _read_task() if task == "-" else task
    order = make_order(found, task, attachments=attachments, run=run, model=model)
    order = order.model_copy(update={"team": team})
    return await _launch(display, settings, order, watch_it=watch_it)


async def fork_run(display: Display, origin: str, wish: ForkWish, *, watch_it: bool) -> int:
    """Start a run that goes on from a turn of another one."""
    settings = client_settings()
    order = make_fork_order(settings, origin, wish)
    runs = await _runs(settings)
    display.on_interrupt = f"interrupted; the fork may have been started all the same: {command_text('list')}"
    launched = await launch_fork(runs, settings, order, display.note)
    return await _launched(display, settings, runs, launched, watch_it=watch_it)


async def watch_run(display: Display, run: str) -> int:
    """Show what happens until the run has ended, then its text."""
    settings = client_settings()
    return await _watch(display, settings, await _runs(settings), run)


async def show_state(display: Display, run: str) -> int:
    """Show where a run stands."""
    report = await report_run(await _runs(client_settings()), run)
    if display.as_json:
        display.document(report)
    else:
        show_run(display.out, report.run, report.state, report.ending)
        display.note(report.note)
    return OK


async def fetch_result(display: Display, run: str, target: Path | None) -> int:
    """Wait for a run's end and write its text."""
    settings = client_settings()
    display.on_interrupt = _goes_on(run, "result")
    ending = await show_events(display, follow(await _runs(settings), run), quiet=True)
    show_outcome(display, ending, await outcome_of(settings, ending, target))
    return exit_code_of(ending.run.status)


async def list_runs(display: Display, phase: Phase | None, limit: int) -> int:
    """List runs, the newest first."""
    runs = await _runs(client_settings())
    found = await runs.list(await selection(runs.client, phase), limit)
    display.document(found) if display.as_json else show_runs(display.out, found)
    return OK


async def show_inbox(display: Display, *, by: str | None, limit: int) -> int:
    """List what waits for people."""
    found = await inbox(await _runs(client_settings()), by, limit)
    if found.unknown:
        display.note(
            f"no worker answers for: {', '.join(found.unknown)}; start one (make up) to see what they wait for"
        )
    display.document(found) if display.as_json else show_waiting(display.out, found)
    return OK


async def show_all_agents(display: Display) -> int:
    """List the agents; a file that is none is an error after the list."""
    listing = list_agents(client_settings().agents_dir)
    display.document(listing) if display.as_json else show_agents(display.out, listing.agents)
    if listing.broken:
        raise InputError("\n".join(broken.problem for broken in listing.broken))
    return OK


async def fetch_artifact(display: Display, run: str, handle: str, target: Path | None) -> int:
    """Write an artifact to a file, into a folder or to stdout; as JSON, what it is and where it was written."""
    async with opened_storage(client_settings(), display.note) as storage:
        artifacts = storage.artifacts(await scope_of(storage, run))
        ref = await find_artifact(artifacts, run, handle)
        path = await save(artifacts, ref, target) if target is not None else None
        if display.as_json:
            display.document({"artifact": ref, "handle": ref.handle, "file": path})
        elif path is not None:
            display.note(f"{ref.described()}: written to {path}")
        else:
            await write_artifact(display, artifacts, ref)
    return OK


async def show_config(display: Display) -> int:
    """Show the settings in force, secrets masked."""
    rows = describe(client_settings())
    if display.as_json:
        display.document([{"setting": name, "value": value, "from": origin} for name, value, origin in rows])
    else:
        show_settings(display.out, rows)
    return OK


def _read_task() -> str:
    """Read the task from standard input, which a script may have closed."""
    try:
        if sys.stdin is not None:
            return clean(sys.stdin.buffer.read().decode(errors="replace"))
        why = "it is closed"
    except OSError as error:
        why = str(error.strerror)
    raise InputError(f"the task can't be read from standard input ({why}); give it as an argument instead of -")


async def _runs(settings: Settings) -> Runs:
    return Runs(await connect(settings))


async def _launch(display: Display, settings: Settings, order: Order, *, watch_it: bool) -> int:
    runs = await _runs(settings)
    look = command_text("state", order.id)
    display.on_interrupt = f"interrupted; {order.id} may have been started all the same: {look}"
    with upload_progress(display, order.attachments) as report:
        launched = await launch(runs, settings, order, report, display.note)
    return await _launched(display, settings, runs, launched, watch_it=watch_it)


async def _launched(display: Display, settings: Settings, runs: Runs, launched: Launched, *, watch_it: bool) -> int:
    if display.as_json:
        display.document({"kind": "started", **launched.model_dump()} if watch_it else launched, indent=None)
    else:
        display.note(launched.note)
        display.out.print(f"{'attached to' if launched.attached else 'started'} {launched.id}")
    if watch_it:
        return await _watch(display, settings, runs, launched.id)
    if not display.as_json:
        display.note("\n".join(f"  {command_text(name, launched.id)}" for name in ("watch", "state", "result")))
    return OK


async def _watch(display: Display, settings: Settings, runs: Runs, run: str) -> int:
    display.on_interrupt = _goes_on(run, "watch")
    ending = await show_events(display, follow(runs, run))
    if not display.as_json:
        show_outcome(display, ending, await outcome_of(settings, ending))
    return exit_code_of(ending.run.status)


def _goes_on(run: str, command: str) -> str:
    return f"interrupted; the run goes on: {command_text(command, run)}"
