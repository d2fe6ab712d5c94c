"""Commands of `starter.py` by which people decide: what waits, what they say to it, and how they steer a run."""

from pathlib import Path
from typing import Annotated

import typer

from core.entries import Settlement
from infra import acting, client
from infra.display import Display
from infra.options import (
    SIGNED_FOR,
    ByOption,
    CallArgument,
    EditOption,
    JsonOption,
    OnlyOption,
    RunArgument,
    SignedForOption,
    SignOption,
)
from infra.process import finish
from infra.signing_keys import SigningWish

deciding = typer.Typer()


@deciding.command()
def inbox(
    *,
    by: Annotated[str | None, typer.Option("--by", help="Only what this person may decide.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many runs are looked into, the newest first.")] = 100,
    as_json: JsonOption = False,
) -> int:
    """List all that waits for people, over all runs, with the commands to type."""
    display = Display(as_json=as_json)
    return finish(display, client.show_inbox(display, by=by, limit=limit))


@deciding.command()
def approve(  # noqa: PLR0913 - what a person may say of a call
    run: RunArgument,
    call: CallArgument = "",
    *,
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")] = "",
    arguments: EditOption = None,
    for_run: Annotated[bool, typer.Option("--for-run", help="Let the tool run for the rest of the run, too.")] = False,
    only: OnlyOption = None,
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Let a call that waits for approval run: exactly as state shows it, or with other arguments."""
    display = Display(as_json=as_json)
    wish = acting.ApprovalWish(arguments=arguments, for_run=for_run, only=tuple(only or ()))
    sign = _signing(sign_with, signed_for)
    work = acting.approve_call(display, run, wish, call=call, by=by, reason=reason, sign=sign)
    return finish(display, work)


@deciding.command()
def reject(  # noqa: PLR0913 - as approve
    run: RunArgument,
    call: CallArgument = "",
    *,
    reason: Annotated[str, typer.Option(help="Why; the agent is told.")],
    by: ByOption = None,
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Refuse a call that waits for approval; the agent goes on and knows the reason."""
    display = Display(as_json=as_json)
    sign = _signing(sign_with, signed_for)
    return finish(display, acting.decide_on(display, run, "reject", call=call, by=by, reason=reason, sign=sign))


@deciding.command()
def revoke(  # noqa: PLR0913 - as approve
    run: RunArgument,
    call: CallArgument = "",
    *,
    tool: Annotated[str, typer.Option("--tool", help="Ask for this tool again, which was allowed for the run.")] = "",
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")] = "",
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Take back an approval, of a call that has not begun or of a tool for the rest of the run."""
    display = Display(as_json=as_json)
    sign = _signing(sign_with, signed_for)
    return finish(display, acting.revoke(display, run, tool, call=call, by=by, reason=reason, sign=sign))


@deciding.command()
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
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Say what became of a call whose end nobody saw; look first where its effect would show."""
    display = Display(as_json=as_json)
    chosen: dict[Settlement, bool] = {"done": done, "run_again": run_again, "give_up": give_up}
    sign = _signing(sign_with, signed_for)
    said = acting.settle_call(display, run, chosen, call=call, by=by, reason=reason, result=result, sign=sign)
    return finish(display, said)


@deciding.command()
def answer(  # noqa: PLR0913 - as approve
    run: RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads standard input.")],
    call: CallArgument = "",
    *,
    by: ByOption = None,
    sign_with: SignOption = None,
    signed_for: SignedForOption = SIGNED_FOR,
    as_json: JsonOption = False,
) -> int:
    """Answer a question that the agent has asked."""
    display = Display(as_json=as_json)
    sign = _signing(sign_with, signed_for)
    return finish(display, acting.answer_question(display, run, text, call=call, by=by, sign=sign))


@deciding.command()
def message(
    run: RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent shall know; - reads standard input.")],
    *,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tell the agent something; it reads it before the model is asked again."""
    display = Display(as_json=as_json)
    return finish(display, acting.tell_agent(display, run, text, by=by))


@deciding.command()
def pause(
    run: RunArgument,
    *,
    by: ByOption = None,
    reason: Annotated[str, typer.Option(help="Why; shown as long as it is paused.")] = "",
    as_json: JsonOption = False,
) -> int:
    """Let a run start nothing more until it is resumed; what runs goes on to its end."""
    display = Display(as_json=as_json)
    return finish(display, acting.decide_on(display, run, "pause", call="", by=by, reason=reason))


@deciding.command("raise")
def raise_budget(
    run: RunArgument,
    *,
    turns: Annotated[int, typer.Option(min=0, help="By so many turns.")] = 0,
    tokens: Annotated[int, typer.Option(min=0, help="By so many tokens.")] = 0,
    cost_usd: Annotated[float, typer.Option(min=0, help="By so many dollars.")] = 0,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Raise the limits of a run; one that is paused at a limit goes on."""
    display = Display(as_json=as_json)
    work = acting.raise_limits(display, run, turns=turns, tokens=tokens, cost_usd=cost_usd, by=by)
    return finish(display, work)


@deciding.command()
def resume(
    run: RunArgument,
    *,
    model: Annotated[str | None, typer.Option(help="Go on with this model: anthropic:NAME, script:FILE, ...")] = None,
    by: ByOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a paused run go on; after a limit, this grants the same again."""
    display = Display(as_json=as_json)
    return finish(display, acting.resume(display, run, model=model, by=by))


@deciding.command()
def cancel(run: RunArgument, *, as_json: JsonOption = False) -> int:
    """Stop a run: its tools are stopped, its journal is closed properly."""
    display = Display(as_json=as_json)
    return finish(display, acting.cancel_run(display, run))


def _signing(file: Path | None, lasts: str) -> SigningWish | None:
    return SigningWish(file=file, lasts=lasts) if file is not None else None
