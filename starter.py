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

from core.entries import DecisionScope, Settlement
from infra import client
from infra.display import Display
from infra.exits import EXIT_CODES, FAILED
from infra.forks import ForkWish
from infra.options import (
    AttachOption,
    ByOption,
    CallArgument,
    FollowOption,
    JsonOption,
    ModelOption,
    NewIdOption,
    OutOption,
    RunArgument,
    RunIdOption,
)
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


@app.command()
def approve(
    run: RunArgument,
    call: CallArgument = "",
    *,
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")] = "",
    for_run: Annotated[bool, typer.Option("--for-run", help="Let the tool run for the rest of the run, too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Let a call that waits for approval run, exactly as state shows it."""
    display = Display(as_json=as_json)
    scope: DecisionScope = "run" if for_run else "once"
    return finish(display, client.decide_on(display, run, "approve", call=call, by=by, reason=reason, scope=scope))


@app.command()
def reject(
    run: RunArgument,
    call: CallArgument = "",
    *,
    reason: Annotated[str, typer.Option(help="Why; the agent is told.")],
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Refuse a call that waits for approval; the agent goes on and knows the reason."""
    display = Display(as_json=as_json)
    return finish(display, client.decide_on(display, run, "reject", call=call, by=by, reason=reason))


@app.command()
def settle(  # noqa: PLR0913 - what a person may say of a call
    run: RunArgument,
    call: CallArgument = "",
    *,
    done: Annotated[bool, typer.Option("--done", help="It took effect.")] = False,
    run_again: Annotated[bool, typer.Option("--run-again", help="It did not: run it again.")] = False,
    give_up: Annotated[bool, typer.Option("--give-up", help="It did not: leave it; the agent is told.")] = False,
    result: Annotated[str, typer.Option(help="With --done: what it returned, as the agent shall read it.")] = "",
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why, or how you know; kept with the decision.")] = "",
    as_json: JsonOption = False,
) -> int:
    """Say what became of a call whose end nobody saw; look first where its effect would show."""
    display = Display(as_json=as_json)
    chosen: dict[Settlement, bool] = {"done": done, "run_again": run_again, "give_up": give_up}
    said = client.settle_call(display, run, chosen, call=call, by=by, reason=reason, result=result)
    return finish(display, said)


@app.command()
def answer(
    run: RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads standard input.")],
    call: CallArgument = "",
    *,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a question that the agent has asked."""
    display = Display(as_json=as_json)
    return finish(display, client.answer_question(display, run, text, call=call, by=by))


@app.command()
def message(
    run: RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent shall know; - reads standard input.")],
    *,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tell the agent something; it reads it before the model is asked again."""
    display = Display(as_json=as_json)
    return finish(display, client.tell_agent(display, run, text, by=by))


@app.command()
def pause(
    run: RunArgument,
    *,
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why; shown as long as it is paused.")] = "",
    as_json: JsonOption = False,
) -> int:
    """Let a run start nothing more until it is resumed; what runs goes on to its end."""
    display = Display(as_json=as_json)
    return finish(display, client.decide_on(display, run, "pause", call="", by=by, reason=reason))


@app.command()
def resume(run: RunArgument, *, by: ByOption = None, as_json: JsonOption = False) -> int:
    """Let a paused run go on; after a limit, this grants the same again."""
    display = Display(as_json=as_json)
    return finish(display, client.decide_on(display, run, "resume", call="", by=by, reason=""))


@app.command()
def cancel(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Stop a run: its tools are stopped, its journal is closed properly."""
    display = Display(as_json=as_json)
    return finish(display, client.cancel_run(display, run))


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


app.add_typer(reading)


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
