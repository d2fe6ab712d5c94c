"""The client: start runs, watch them, decide, read what they have come to. Commands only; the work is in `infra`.

Every command takes `--json`: one JSON document on stdout (`watch`, `replay`, `--follow`: one object a line) and nothing
else; errors are then `{"error": {"kind", "message", "exit_code"}}` on stderr, and notes `{"note": ...}`. Exit codes:
`infra/exits.py`.
"""

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from infra import client
from infra.deciding_commands import deciding
from infra.display import Display
from infra.exits import EXIT_CODES, FAILED
from infra.forks import ForkWish
from infra.key_commands import keys
from infra.options import (
    AttachOption,
    FollowOption,
    JsonOption,
    ModelOption,
    NewIdOption,
    OutOption,
    RunArgument,
    RunIdOption,
)
from infra.pipeline_commands import pipeline
from infra.process import finish, leave, run_command
from infra.reading_commands import reading
from infra.selection import Phase

app = typer.Typer(
    help="Start AI agents that survive what dies around them; watch them, decide, read their results.",
    epilog=EXIT_CODES,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def start(  # noqa: PLR0913 - each is an option of the command
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name of an agent; see the command agents.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; - reads it from standard input.")],
    *,
    attach: AttachOption = None,
    run: NewIdOption = None,
    model: ModelOption = None,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start a run of AGENT on TASK."""
    display = Display(as_json=as_json)
    work = client.start_run(display, agent, task, attachments=attach or (), run=run, model=model, watch_it=follow)
    return finish(display, work)


@app.command()
def watch(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Watch a run until it ends; survives restarts of the worker and of Temporal."""
    display = Display(as_json=as_json)
    return finish(display, client.watch_run(display, run))


@app.command()
def state(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Show where a run stands: phase, what waits for whom, usage, last steps."""
    display = Display(as_json=as_json)
    return finish(display, client.show_state(display, run))


@app.command()
def result(run: RunArgument, *, out: OutOption = None, as_json: JsonOption = False) -> int:
    """Wait until a run has ended and write its text."""
    display = Display(as_json=as_json)
    return finish(display, client.fetch_result(display, run, out))


@app.command("list")
def list_runs(
    *,
    phase: Annotated[Phase | None, typer.Option(help="Only runs in this phase.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 20,
    as_json: JsonOption = False,
) -> int:
    """List runs, the newest first."""
    display = Display(as_json=as_json)
    return finish(display, client.list_runs(display, phase, limit))


@app.command()
def agents(*, as_json: JsonOption = False) -> int:
    """List the agents that can be started, and the files that are wrong."""
    display = Display(as_json=as_json)
    return finish(display, client.show_all_agents(display))


@app.command()
def fork(  # noqa: PLR0913 - each is an option of the command
    run: RunArgument,
    turn: Annotated[int, typer.Option("--at-turn", min=0, help="The last turn of RUN that the fork shares; 0: none.")],
    *,
    message: Annotated[str, typer.Option(help="What the agent is told at this point.")] = "",
    agent: Annotated[str | None, typer.Option(metavar="FILE|NAME", help="Another agent goes on.")] = None,
    fork_id: Annotated[str | None, typer.Option("--id", help="Id of the new run.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model goes on.")] = None,
    run_id: RunIdOption = "",
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start a new run that goes on from a turn of RUN: same conversation up to there, same artifacts."""
    display = Display(as_json=as_json)
    wish = ForkWish(turn=turn, message=message, agent=agent, model=model, id=fork_id, run_id=run_id)
    return finish(display, client.fork_run(display, run, wish, watch_it=follow))


@app.command()
def config(*, as_json: JsonOption = False) -> int:
    """Show the settings in force and where each comes from; secrets are masked."""
    display = Display(as_json=as_json)
    return finish(display, client.show_config(display))


app.add_typer(deciding)
app.add_typer(reading)
app.add_typer(keys)
app.add_typer(pipeline, name="pipeline")


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    return run_command(app, "starter.py", arguments)


if __name__ == "__main__":
    try:
        exit_status = main(sys.argv[1:])
    except BaseException:  # noqa: BLE001 - a bug: show it all, and still end safely
        with suppress(OSError):  # where stderr takes nothing, the exit code must say it
            traceback.print_exc()
        exit_status = FAILED
    leave(exit_status)
