"""Declaring a tool: one decorator on a plain function, from which everything else about it is read."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, get_args

from pydantic import ValidationError

from activities.signatures import Signature, WrongDeclaration
from core.asking import Approval
from core.errors import InputError
from core.redaction import SECRET_NAME
from core.tools import Effect, Server, ToolPolicy

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

_OF_RUNS = ("open_run", "ask_model", "commit", "compact", "close_run", "check_arguments", "prepare_child")
_OF_PIPELINES = ("open_pipeline", "select_for_step", "write_record", "close_pipeline")
RESERVED = frozenset({*_OF_RUNS, *_OF_PIPELINES})
"""Activities of every run, which a tool's activity must not take the place of."""

_NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")


@dataclass(frozen=True)
class Tool(Generic[Parameters, Returned]):
    """A function as a tool. Calling it calls the function."""

    function: Callable[Parameters, Returned]
    policy: ToolPolicy
    """As the decorator says; an agent's file may say otherwise of the approval."""
    signature: Signature
    verify: Callable[..., object] | None = None
    secrets: tuple[str, ...] = ()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """Call the function, as if it were not a tool."""
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The function's name; also the name of the tool's activity."""
        return self.policy.name

    @property
    def effect(self) -> Effect:
        """What repeating a call does."""
        return self.policy.effect


AnyTool = Tool[..., Any]


def tool(  # noqa: PLR0913 - each is a word of the declaration, given by name
    *,
    effect: Effect,
    timeout: timedelta,
    approval: Approval = "auto",
    attempts: int | None = None,
    heartbeat: timedelta | None = None,
    group: str = "",
    at_once: int | None = None,
    task_queue: str | None = None,
    untrusted_output: bool = False,
    verify: Callable[..., object] | None = None,
    served_by: Server = "worker",
    secrets: Sequence[str] = (),
) -> Callable[[Callable[Parameters, Returned]], Tool[Parameters, Returned]]:
    """Declare a function as a tool.

    Args:
        effect: What repeating a call does: nothing (`read`), the same again (`idempotent_write`), or harm (`write`).
        timeout: Longest time of one attempt.
        approval: Whether a person is asked before each call; an agent's file may say otherwise.
        attempts: How often it may be started because of its own errors; None: 4 (`read`), 6 (`idempotent_write`). A
            `write` is started once, and again only when it is known that nothing happened.
        heartbeat: After how long without a sign of life of the worker it is started elsewhere; None: as the settings
            say.
        group: Calls of tools with the same group share `at_once`; empty: those of this tool alone.
        at_once: How many calls of the group may run at the same time in a run; None: as many as the agent's limits say.
        task_queue: The task queue of the workers that have what it needs; None: that of the run. A worker serves it
            when it is named in PERDURE_TOOL_QUEUES.
        untrusted_output: Whether strangers write what it returns: web pages, mails. The model sees it fenced.
        verify: For a `write`: finds out whether a call whose end was not seen has taken effect. Same parameters. It
            returns what the call would have returned, or raises `NotDone` when nothing happened; whatever else it
            raises lets a person be asked. It only reads, and is repeated on errors.
        served_by: `workflow` for a tool that the workflow itself serves, by asking a person; its function never runs.
        secrets: Names of the secrets that it may read by `context.secret(NAME)`; an agent's file may say which.

    Raises:
        InputError: the function can't be a tool as it stands; the text names file, function and cure.
    """

    def declare(function: Callable[Parameters, Returned]) -> Tool[Parameters, Returned]:
        try:
            _check(function, effect, timeout, approval)
            policy = ToolPolicy(
                name=function.__name__,
                effect=effect,
                timeout=timeout,
                approval=approval,
                attempts=attempts,
                heartbeat=heartbeat,
                group=group,
                at_once=at_once,
                task_queue=task_queue,
                untrusted=untrusted_output,
                verifies=verify is not None,
                served_by=served_by,
            )
            signature = Signature(function)
            _check_repeats(policy, signature, verify)
            _check_secrets(secrets)
            return Tool(function, policy, signature, verify, tuple(secrets))
        except WrongDeclaration as error:
            raise InputError(f"{place(function)}: {error}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            raise InputError(f"{place(function)}: {problem['loc'][0]}: {problem['msg']}") from None

    return declare


def _check(function: Callable[..., object], effect: str, timeout: object, approval: str) -> None:
    name = function.__name__
    if not _NAME.match(name):
        raise WrongDeclaration("a tool's name has at most 64 letters, digits and underscores; rename it")
    if name in RESERVED:
        raise WrongDeclaration("this name belongs to an activity of every run; rename it")
    if effect not in get_args(Effect):
        raise WrongDeclaration(f"effect {effect!r} is none; use one of {', '.join(get_args(Effect))}")
    if approval not in get_args(Approval):
        raise WrongDeclaration(f"approval {approval!r} is none; use one of {', '.join(get_args(Approval))}")
    if not isinstance(timeout, timedelta) or timeout <= timedelta():
        raise WrongDeclaration("its timeout must be a timedelta above zero, such as timedelta(seconds=30)")
    if inspect.isasyncgenfunction(function):
        raise WrongDeclaration("an async generator can't be a tool; make it `def` and yield bytes, or return a value")


def _check_repeats(policy: ToolPolicy, signature: Signature, verify: Callable[..., object] | None) -> None:
    if policy.effect == "write" and policy.attempts not in {None, 1}:
        raise WrongDeclaration("a write is started once; leave attempts out, or make it an idempotent_write")
    if policy.heartbeat is not None and policy.heartbeat <= timedelta():
        raise WrongDeclaration("its heartbeat must be a timedelta above zero, such as timedelta(seconds=10)")
    if verify is None:
        return
    if policy.effect != "write":
        raise WrongDeclaration(f"verify is for a write; a {policy.effect} is simply repeated: leave verify out")
    if not signature.accepts(verify):
        raise WrongDeclaration(f"{verify.__name__} must take the same parameters: it is called with the same arguments")


def _check_secrets(secrets: Sequence[object]) -> None:
    cure = 'give names of at most 64 letters, digits and _, such as secrets=("api_token",)'
    if isinstance(secrets, str):
        raise WrongDeclaration(f"its secrets are one text; {cure}")
    # What is no name may be a value: it is not repeated.
    for number, name in enumerate(secrets, start=1):
        if not (isinstance(name, str) and SECRET_NAME.fullmatch(name)):
            raise WrongDeclaration(f"number {number} of its secrets is no name; {cure}")


def place(function: Callable[..., object]) -> str:
    """Say where a function stands, for whoever has to mend it."""
    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, tool {function.__name__}"
