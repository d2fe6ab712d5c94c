"""Commands of `starter.py pipeline`: show a file, start it, see where a run stands, decide, run it again."""

from pathlib import Path
from typing import Annotated

import typer

from core.acts import ActName
from core.entries import Settlement
from infra import pipelines
from infra.acts import make_act, with_answer, with_settlement
from infra.display import Display
from infra.launch import user_name
from infra.options import (
    SIGNED_FOR,
    ByOption,
    FollowOption,
    JsonOption,
    NewIdOption,
    RunArgument,
    SignedForOption,
    SignOption,
)
from infra.process import finish
from infra.signing_keys import SigningWish

pipeline = typer.Typer(help="Pipelines: steps of agents, tools and people.", no_args_is_help=True)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline's file, or its name in pipelines/.")]
StepArgument = Annotated[str, typer.Argument(metavar="[STEP]", help="Which step; not needed when only one waits.")]
ReasonOption = Annotated[str, typer.Option(help="Why; kept with the decision.")]
InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input; JSON where it is no text; @FILE: its handle."),
]


@pipeline.command()
def show(
    file: FileArgument,
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid, for documents.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Check a pipeline's file and draw its steps; starts nothing."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.show_file(display, file, as_mermaid=mermaid))


@pipeline.command()
def start(
    file: FileArgument,
    *,
    inputs: InputOption = None,
    run: NewIdOption = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="[STEP=]MODEL", help="The model of all its agents, or of one step's.")
    ] = None,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start a run of a pipeline: as its file is now; later changes of it change no run."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.start(display, file, inputs or (), run=run, models=model or (), watch_it=follow))


@pipeline.command()
def rerun(
    run: RunArgument,
    step: Annotated[str, typer.Option("--from", metavar="STEP", help="The first step that is done anew.")],
    *,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="The pipeline as it is now; else as it was.")] = None,
    new: NewIdOption = None,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start a new run that takes what RUN has come to before a step, and does the rest anew."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.rerun(display, run, step, file=file, run=new, watch_it=follow))


@pipeline.command()
def state(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Show where a run stands: each step, what waits for whom, the last lines."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.show_state(display, run))


@pipeline.command()
def watch(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Watch a run until it ends; exit code 6 when something could not be undone."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.watch(display, run))


@pipeline.command("list")
def list_runs(
    *, limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 20, as_json: JsonOption = False
) -> int:
    """List the runs of pipelines, the newest first."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.list_pipelines(display, limit))


@pipeline.command()
def journal(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Write all that happened in a run, and what each step was given."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.show_record(display, run))


@pipeline.command()
def approve(  # noqa: PLR0913 - what a person may say
    run: RunArgument,
    step: StepArgument = "",
    *,
    by: ByOption = None,
    reason: ReasonOption = "",
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Approve a gate, or a step that waits for approval."""
    return _act(run, "approve", step, by, reason, _signing(sign_with, signed_for), as_json=as_json)


@pipeline.command()
def reject(  # noqa: PLR0913 - what a person may say
    run: RunArgument,
    step: StepArgument = "",
    *,
    reason: ReasonOption,
    by: ByOption = None,
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Reject a gate, or a step; what was done is undone where the pipeline says so."""
    return _act(run, "reject", step, by, reason, _signing(sign_with, signed_for), as_json=as_json)


@pipeline.command()
def revoke(
    run: RunArgument,
    step: StepArgument = "",
    *,
    by: ByOption = None,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> int:
    """Take back an approval of what has not begun."""
    return _act(run, "revoke", step, by, reason, None, as_json=as_json)


@pipeline.command()
def pause(run: RunArgument, *, by: ByOption = None, reason: ReasonOption = "", as_json: JsonOption = False) -> int:
    """Begin nothing more; what runs goes on to its end."""
    return _act(run, "pause", "", by, reason, None, as_json=as_json)


@pipeline.command()
def resume(run: RunArgument, *, by: ByOption = None, as_json: JsonOption = False) -> int:
    """Let a paused run go on."""
    return _act(run, "resume", "", by, "", None, as_json=as_json)


@pipeline.command()
def settle(  # noqa: PLR0913 - what a person may say
    run: RunArgument,
    step: StepArgument = "",
    *,
    done: Annotated[bool, typer.Option("--done", help="It took effect.")] = False,
    run_again: Annotated[bool, typer.Option("--run-again", help="It did not, and is to run again.")] = False,
    give_up: Annotated[bool, typer.Option("--give-up", help="It did not, and that is a failure.")] = False,
    by: ByOption = None,
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> int:
    """Say whether a call took effect whose end was not seen."""
    display = Display(as_json=as_json)
    said: list[Settlement] = []
    said += ["done"] if done else []
    said += ["run_again"] if run_again else []
    said += ["give_up"] if give_up else []
    if len(said) != 1:
        raise typer.BadParameter("say one of --done, --run-again, --give-up")
    act = with_settlement(make_act(call=step, by=_name(by), reason=reason), said[0], "")
    return finish(display, pipelines.send_act(display, run, "settle", act))


@pipeline.command()
def answer(
    run: RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    call: StepArgument,
    *,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a question of an agent: CALL is as `state` shows it."""
    display = Display(as_json=as_json)
    act = with_answer(make_act(call=call, by=_name(by)), text)
    return finish(display, pipelines.send_act(display, run, "answer", act))


@pipeline.command()
def cancel(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Stop a run; what was done is undone where the pipeline says so (on_cancel)."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.cancel(display, run))


def _act(  # noqa: PLR0913 - what a person may say
    run: str, name: ActName, step: str, by: str | None, reason: str, sign: SigningWish | None, *, as_json: bool
) -> int:
    display = Display(as_json=as_json)
    return finish(display, pipelines.act_on(display, run, name, step=step, by=by, reason=reason, sign=sign))


def _name(by: str | None) -> str:
    return user_name() if by is None else by


def _signing(file: Path | None, lasts: str) -> SigningWish | None:
    return SigningWish(file=file, lasts=lasts) if file is not None else None
