"""What the commands of people who decide do. Each returns its exit code, and raises only `PerdureError`s."""

import json
import sys
from collections.abc import Mapping

from core.acts import ACT_BYTES, Act, ActName
from core.content import Content, clean, fits_inline
from core.entries import Settlement
from core.errors import InputError
from core.frozen import Frozen
from infra.acts import (
    make_act,
    read_arguments,
    with_answer,
    with_budget,
    with_message,
    with_pattern,
    with_settlement,
)
from infra.decisions import Decision, decide, stop
from infra.display import Display
from infra.exits import OK
from infra.journals import scope_of
from infra.launch import user_name
from infra.model_names import check_model
from infra.process import client_settings
from infra.runs import Runs
from infra.settings import Settings
from infra.signing_keys import SigningWish, load_signer
from infra.store import opened_storage
from infra.temporal import connect


class ApprovalWish(Frozen):
    """How a person approves: with other arguments (JSON or `@FILE`), or for the rest of the run, all or `only` some."""

    arguments: str | None = None
    for_run: bool = False
    only: tuple[str, ...] = ()


async def approve_call(  # noqa: PLR0913 - each is an option of the command
    display: Display,
    run: str,
    wish: ApprovalWish,
    *,
    call: str,
    by: str | None,
    reason: str,
    sign: SigningWish | None = None,
) -> int:
    """Approve a call; other arguments that are too long for a signal go by the blob store.

    Raises:
        InputError: the arguments are no JSON object, or a part of the wish does not go with another.
    """
    act = make_act(call=call, by=_name(by), reason=reason, scope="run" if wish.for_run else "once")
    act = with_pattern(act, wish.only)
    if wish.arguments is None:
        return await _decide(display, run, "approve", act, sign)
    if wish.for_run:
        raise InputError("changed arguments are for one call; leave --for-run out")
    settings, text = client_settings(), clean(json.dumps(read_arguments(wish.arguments), ensure_ascii=False))
    act = act.model_copy(update=await _edited(display, settings, run, text))
    return await _decide(display, run, "approve", act, sign)


async def _edited(display: Display, settings: Settings, run: str, text: str) -> dict[str, object]:
    """Return what an act needs of other arguments."""
    if fits_inline(text) and len(json.dumps(text)) < ACT_BYTES // 2:
        return {"arguments": json.loads(text)}
    async with opened_storage(settings, display.note) as storage:
        artifacts = storage.artifacts(await scope_of(storage, run))
        return {"content": await artifacts.store_text(text, "edited-arguments.json", "application/json")}


async def revoke(  # noqa: PLR0913 - each is an option of the command
    display: Display,
    run: str,
    tool: str,
    *,
    call: str,
    by: str | None,
    reason: str,
    sign: SigningWish | None = None,
) -> int:
    """Take back an approval, of a call or of a tool.

    Raises:
        InputError: both are named.
    """
    if call and tool:
        raise InputError(f"name the call {call} or --tool {tool}, not both: a tool is for all calls to come")
    act = make_act(call=call, by=_name(by), reason=reason).model_copy(update={"tool": tool})
    return await _decide(display, run, "revoke", act, sign)


async def resume(display: Display, run: str, *, model: str | None, by: str | None) -> int:
    """Let a run go on, with another model if one is named.

    Raises:
        InputError: there is no such model.
    """
    act = make_act(by=_name(by)).model_copy(update={"model": check_model(model) if model is not None else ""})
    return await _decide(display, run, "resume", act)


async def decide_on(  # noqa: PLR0913 - each is an option of the command
    display: Display,
    run: str,
    name: ActName,
    *,
    call: str,
    by: str | None,
    reason: str,
    sign: SigningWish | None = None,
) -> int:
    """Send a person's act and say what came of it; `by` None is the user's name."""
    act = make_act(call=call, by=_name(by), reason=reason)
    return await _decide(display, run, name, act, sign)


async def settle_call(  # noqa: PLR0913 - each is an option of the command
    display: Display,
    run: str,
    chosen: Mapping[Settlement, bool],
    *,
    call: str,
    by: str | None,
    reason: str,
    result: str,
    sign: SigningWish | None = None,
) -> int:
    """Send what a person says of a call whose end nobody saw; exactly one settlement is chosen.

    Raises:
        InputError: none or several are.
    """
    settlements = [settlement for settlement, is_chosen in chosen.items() if is_chosen]
    if len(settlements) != 1:
        raise InputError("say what became of the call: exactly one of --done, --run-again and --give-up")
    act = make_act(call=call, by=_name(by), reason=reason)
    act = with_settlement(act, settlements[0], result)
    return await _decide(display, run, "settle", act, sign)


async def raise_limits(display: Display, run: str, *, turns: int, tokens: int, cost_usd: float, by: str | None) -> int:
    """Raise the limits of a run."""
    act = with_budget(make_act(by=_name(by)), turns, tokens, cost_usd)
    return await _decide(display, run, "raise_budget", act)


async def answer_question(
    display: Display, run: str, text: str, *, call: str, by: str | None, sign: SigningWish | None = None
) -> int:
    """Answer a question of the agent's; `-` reads the answer from standard input."""
    act = make_act(call=call, by=_name(by))
    act = with_answer(act, sys.stdin.read() if text == "-" else text)
    return await _decide(display, run, "answer", act, sign)


async def tell_agent(display: Display, run: str, text: str, *, by: str | None) -> int:
    """Send the agent a message; `-` reads it from standard input, and a long one goes by the blob store.

    Raises:
        InputError: the message is empty.
    """
    text = clean(sys.stdin.read() if text == "-" else text)
    if not text.strip():
        raise InputError("the message is empty; give the agent something to read")
    settings = client_settings()
    runs = Runs(await connect(settings))
    content = Content(text=text) if fits_inline(text) else None
    if content is None:
        async with opened_storage(settings, display.note) as storage:
            content = await storage.artifacts(await scope_of(storage, run)).store_text(text, "message.txt")
    act = with_message(make_act(by=_name(by)), content)
    return _show_decision(display, await decide(runs, run, "message", act))


async def cancel_run(display: Display, run: str) -> int:
    """Stop a run."""
    return _show_decision(display, await stop(Runs(await connect(client_settings())), run))


def _name(by: str | None) -> str:
    return user_name() if by is None else by


async def _decide(display: Display, run: str, name: ActName, act: Act, sign: SigningWish | None = None) -> int:
    settings = client_settings()
    signer = load_signer(sign, settings.key_passphrase) if sign is not None else None
    return _show_decision(display, await decide(Runs(await connect(settings)), run, name, act, signer))


def _show_decision(display: Display, decision: Decision) -> int:
    display.document(decision) if display.as_json else display.out.print(decision.said)
    return OK
