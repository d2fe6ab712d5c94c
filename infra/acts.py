"""Acts as people say them on the command line, checked before they are sent."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from core.acts import Act
from core.content import Content
from core.entries import DecisionScope, Settlement
from core.errors import InputError
from core.patterns import Scalar, unusable
from core.wording import fault

ARGUMENTS_BYTES = 1024 * 1024
"""Longest edited arguments."""


def make_act(*, call: str = "", by: str = "", reason: str = "", scope: DecisionScope = "once") -> Act:
    """Return the act.

    Raises:
        InputError: a part of it is too long.
    """
    try:
        return Act(id=call, by=by, reason=reason, scope=scope)
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{problem['loc'][0]} {fault(problem)}; make it shorter") from None


def with_message(act: Act, message: Content) -> Act:
    """Return the act with a message to the agent."""
    return act.model_copy(update={"content": message})


def with_budget(act: Act, turns: int, tokens: int, cost_usd: float) -> Act:
    """Return the act with how much the limits are raised by.

    Raises:
        InputError: by nothing, or by more than makes sense.
    """
    if not (turns or tokens or cost_usd):
        raise InputError("say by how much: --turns, --tokens or --cost-usd")
    try:
        return Act.model_validate({**act.model_dump(), "turns": turns, "tokens": tokens, "cost_usd": cost_usd})
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{problem['loc'][0]} {fault(problem)}") from None


def with_answer(act: Act, text: str) -> Act:
    """Return the act with the answer to a question.

    Raises:
        InputError: it is too long.
    """
    try:
        return Act.model_validate({**act.model_dump(), "text": text})
    except ValidationError as error:
        raise InputError(f"answer {fault(error.errors()[0])}; make it shorter") from None


def with_settlement(act: Act, settlement: Settlement, result: str) -> Act:
    """Return the act with what became of the call.

    Raises:
        InputError: the result is too long, or there is one of a call that was not done.
    """
    if result and settlement != "done":
        raise InputError("only a call that was done has a result; leave --result out")
    try:
        return Act.model_validate({**act.model_dump(), "settlement": settlement, "result": result})
    except ValidationError as error:
        raise InputError(f"result {fault(error.errors()[0])}; make it shorter") from None


def with_pattern(act: Act, only: Sequence[str]) -> Act:
    """Return the act for calls with such arguments only: each `NAME=VALUE`.

    A value is a JSON scalar (`10`, `true`, `"10"`), or else a text, in which `*`, `?` and `[abc]` stand for others.

    Raises:
        InputError: it is not for the rest of the run, or no pattern.
    """
    if only and act.scope != "run":
        raise InputError("--only says which calls need nobody for the rest of the run; add --for-run")
    pattern: dict[str, Scalar] = {}
    for text in only:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"--only {text!r} is no NAME=VALUE; for example --only path='reports/*'")
        pattern[name] = _scalar(value)
    if why := unusable(pattern):
        raise InputError(f"--only can't be used: {why}")
    return act.model_copy(update={"only": pattern})


def _scalar(text: str) -> Scalar:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, str | int | float | bool) else text


def read_arguments(text: str) -> dict[str, Any]:
    """Return edited arguments from the command line: JSON, or `@FILE` with JSON in it.

    Raises:
        InputError: the file can't be read, or it is no JSON object of at most 1 MiB.
    """
    said = "--arguments"
    if text.startswith("@"):
        path, said = Path(text[1:]), f"the file {text[1:]!r}"
        try:
            with path.open("rb") as file:
                text = file.read(ARGUMENTS_BYTES + 1).decode()
        except (OSError, ValueError) as error:
            raise InputError(f"{said} can't be read ({error}); name a file of JSON") from None
    if len(text.encode(errors="replace")) > ARGUMENTS_BYTES:
        raise InputError(f"{said} has more than {ARGUMENTS_BYTES} bytes; a call takes no more")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{said} has no JSON in it ({error}); give all of the call's arguments as an object") from None
    if not isinstance(value, dict):
        raise InputError(f"{said} must be a JSON object with all of the call's arguments")
    return value
