"""Commands of `starter.py` that read what a run left: its journal, states and artifacts; they change nothing."""

from typing import Annotated

import typer

from infra import audit, client
from infra.display import Display
from infra.options import FollowOption, JsonOption, OutOption, RunArgument, RunIdOption, TurnOption, VerifyOption
from infra.process import finish
from infra.tree import show_tree

reading = typer.Typer()
artifact = typer.Typer(help="Fetch an artifact.", no_args_is_help=True)
reading.add_typer(artifact, name="artifact")


@reading.command()
def journal(
    run: RunArgument,
    *,
    turn: TurnOption = None,
    follow: FollowOption = False,
    verify: VerifyOption = False,
    run_id: RunIdOption = "",
    as_json: JsonOption = False,
) -> int:
    """Write what happened in a run: who, what, at which cost. A closed run needs the blob store only."""
    display = Display(as_json=as_json)
    if verify:
        return finish(display, audit.prove(display, run, run_id=run_id))
    read = audit.follow_journal if follow else audit.read_journal
    return finish(display, read(display, run, run_id=run_id, turn=turn))


@reading.command()
def replay(run: RunArgument, *, run_id: RunIdOption = "", as_json: JsonOption = False) -> int:
    """Step through a run's journal: each entry, and the state after it."""
    display = Display(as_json=as_json)
    return finish(display, audit.replay(display, run, run_id=run_id))


@reading.command()
def diff(run: RunArgument, other: RunArgument, *, as_json: JsonOption = False) -> int:
    """Show where two runs part, and what each did after that."""
    display = Display(as_json=as_json)
    return finish(display, audit.diff(display, run, other))


@reading.command()
def tree(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Draw a run and the runs of its sub-agents, with what each has come to and used."""
    display = Display(as_json=as_json)
    return finish(display, show_tree(display, run))


@reading.command()
def artifacts(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """List the artifacts of a run and of its forks; its results first."""
    display = Display(as_json=as_json)
    return finish(display, audit.list_artifacts(display, run))


@artifact.command("get")
def get_artifact(
    run: RunArgument,
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="As it was shown: a:3f9c21d04b7e.")],
    *,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fetch an artifact of a run: to stdout, a file or a folder. With --json only what it is, unless -o is given."""
    display = Display(as_json=as_json)
    return finish(display, client.fetch_artifact(display, run, handle, out))
