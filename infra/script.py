"""A model that plays back a YAML file: `script:FILE`, for tests, demos and reproducing reports.

```yaml
replies:
  - text: I look at the files.                # every field may be left out
    calls: [{id: c1, name: list_files, arguments: {pattern: "*.csv"}}]
    usage: {input_tokens: 900, output_tokens: 40}
    delay_seconds: 0.5                        # its text streams in, line by line, over that time
  - error: {status: 429, message: slow down, retry_after: 1, times: 2}
  - calls: [{id: c2, name: read_artifact, arguments: '{"handle": "${artifact:1}"'}]   # raw text, need not be JSON
repeat: 3                                     # the whole list, that many times; 1 when left out
final: {text: Done.}                          # after that
```

Which reply comes next follows from the conversation alone (how many replies it has had), so that a script
survives crashes and other workers. The file is read at every call: a corrected script goes on where the run stands.

An `error` belongs to the reply that follows it. The conversation can't count attempts, so the caller does (`attempt`,
from 1): the errors before a reply are served to its first attempts, each to as many as its `times` says (1 when left
out), then the reply comes. `times: forever` never passes. An error that nobody retries (401) is met again when a paused
run is resumed, because its attempts start at 1 again; take it out of the file to let the run pass, as one mends a key.

In texts and in arguments, `${artifact:N}` is the N-th different artifact handle (from 1) of the conversation so far,
and `${last}` the text of the last tool result. What can't be replaced stays as it is. In a later round of `repeat`, a
call's id gets the round's number (`c1`, `c1-2`, `c1-3`): ids are unique in a conversation.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from core.chat import (
    ChatReply,
    ChatRequest,
    Message,
    ProposedCall,
    StopReason,
    ToolMessage,
    Usage,
)
from core.errors import ModelRefused
from core.ports import ChatModel, OnText
from core.shapes import counted
from core.wording import fault
from infra.model_errors import Failure, classify

_HANDLE: Final = re.compile(r"(?<![0-9A-Za-z])a:[0-9a-f]{12}(?![0-9a-f])")
_PIECES: Final = 20
_PLACEHOLDER: Final = re.compile(r"\$\{(?:artifact:(\d{1,6})|last)\}")


# What pydantic puts into the place of an error for the branches of a union: it stands in no file.
_BRANCHES: Final = frozenset(
    {"~reply", "~error", "dict[str,any]", "str", "float", "constrained-int", "literal['forever']"}
)


class ScriptPart(BaseModel):
    """Base of what a script file may hold: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedCall(ScriptPart):
    """A tool call; a mapping is written as JSON, a text goes out as it is."""

    name: str = Field(min_length=1)
    id: str | None = None
    arguments: dict[str, Any] | str = {}


class ScriptedReply(ScriptPart):
    """One reply; `stop_reason` follows from the calls when left out."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = Usage()
    stop_reason: StopReason | None = None
    delay_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class ScriptedFailure(ScriptPart):
    """What a provider would have answered; no status: a lost connection. `retry_after`: seconds or an HTTP date."""

    status: int | None = Field(default=None, ge=100, le=599)
    message: str = "scripted error"
    retry_after: float | str | None = None
    times: Annotated[int, Field(ge=1)] | Literal["forever"] = 1


class ScriptedError(ScriptPart):
    """An entry that fails instead of answering."""

    error: ScriptedFailure


def _kind(entry: Any) -> str:
    fails = "error" in entry if isinstance(entry, dict) else isinstance(entry, ScriptedError)
    return "~error" if fails else "~reply"


Entry = Annotated[
    Annotated[ScriptedReply, Tag("~reply")] | Annotated[ScriptedError, Tag("~error")], Discriminator(_kind)
]


class Step(NamedTuple):
    """One turn of a script: the errors before its reply, the reply (None at the end of the script), and its round."""

    errors: Sequence[ScriptedFailure]
    reply: ScriptedReply | None
    round_number: int


class Script(ScriptPart):
    """A script file."""

    replies: tuple[Entry, ...] = ()
    repeat: int = Field(default=1, ge=0)
    final: ScriptedReply | None = None

    @property
    def length(self) -> int:
        """How many replies the script has in all."""
        return self.repeat * len(self._steps()[0]) + (self.final is not None)

    def step(self, turn: int) -> Step:
        """Return what stands at a turn, from 0."""
        steps, trailing = self._steps()
        round_number, position = divmod(turn, len(steps)) if steps else (self.repeat, 0)
        if round_number < self.repeat:
            errors, reply = steps[position]
            before = trailing if position == 0 and round_number > 0 else []
            return Step([*before, *errors], reply, round_number + 1)
        at_end = turn == self.repeat * len(steps)
        return Step(trailing if at_end else [], self.final if at_end else None, 1)

    def _steps(self) -> tuple[list[tuple[list[ScriptedFailure], ScriptedReply]], list[ScriptedFailure]]:
        """Pair each reply with the errors before it; the errors after the last one come second."""
        steps: list[tuple[list[ScriptedFailure], ScriptedReply]] = []
        waiting: list[ScriptedFailure] = []
        for entry in self.replies:
            if isinstance(entry, ScriptedError):
                waiting.append(entry.error)
            else:
                steps.append((waiting, entry))
                waiting = []
        return steps, waiting


def first_attempt() -> int:
    """Count attempts where nobody else does: each is the first."""
    return 1


class ScriptedModel(ChatModel):
    """Plays back `script:FILE`. Relative files are looked for in `folder`; `attempt` gives the attempt, from 1."""

    def __init__(self, folder: Path = Path(), attempt: Callable[[], int] = first_attempt) -> None:
        self._folder = folder
        self._attempt = attempt

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return the reply that the conversation has come to.

        Raises:
            ModelRefused: the file is missing or malformed, or the script is at its end. Not retried.
            ModelError: what a scripted error means, by the same rules as for a provider.
        """
        name = request.model.partition(":")[2]
        script = await asyncio.to_thread(read_script, self._folder / name)
        turn = request.replies
        step = script.step(turn)
        if (failure := _due(step.errors, self._attempt())) is not None:
            raise classify(_to_failure(failure, name), datetime.now(UTC))
        if step.reply is None:
            raise ModelRefused(
                f"Script {name} is exhausted: it has {counted(script.length, 'reply', 'replies')} and the conversation "
                f"has had {turn}. "
                "Add replies, `repeat:` or `final:`."
            )
        reply = _to_reply(step.reply, turn, step.round_number, request.messages)
        await _play(reply.text, step.reply.delay_seconds, on_text)
        return reply


async def _play(text: str, delay_seconds: float, on_text: OnText | None) -> None:
    """Let the text stream in: line by line, in at most so many pieces, spread over the delay."""
    lines = text.splitlines(keepends=True) or [""]
    size = -(-len(lines) // _PIECES)
    pieces = ["".join(lines[start : start + size]) for start in range(0, len(lines), size)]
    for piece in pieces:
        await asyncio.sleep(delay_seconds / len(pieces))
        if on_text is not None:
            on_text(piece)


def read_script(path: Path) -> Script:
    """Read and check a script file.

    Raises:
        ModelRefused: it can't be read, is no YAML, or has a wrong field; names file, field and cure. Not retried.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Script.model_validate({} if data is None else data)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ModelRefused(
            f"Script {path.name} can't be read: {reason}. Put it there and resume, or go on with another model: "
            "python starter.py resume RUN --model OTHER."
        ) from None
    except yaml.YAMLError as error:
        raise ModelRefused(f"Script {path.name} is not valid YAML: {' '.join(str(error).split())}.") from None
    except ValidationError as error:
        raise ModelRefused(f"Script {path.name} is malformed: {_explain(error)}") from None


def _explain(error: ValidationError) -> str:
    """Name each wrong field as it stands in the file, with what was expected there."""
    lines = []
    for detail in error.errors(include_url=False, include_input=False)[:5]:
        steps = [step for step in detail["loc"] if step not in _BRANCHES]
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
        lines.append(f"{where or 'the file'}: {fault(detail)}.")
    return " ".join(dict.fromkeys(lines))


def _due(errors: Sequence[ScriptedFailure], attempt: int) -> ScriptedFailure | None:
    """Return the error that this attempt meets; None when all have been served."""
    served = 0
    for failure in errors:
        if failure.times == "forever":
            return failure
        served += failure.times
        if attempt <= served:
            return failure
    return None


def _to_failure(failure: ScriptedFailure, name: str) -> Failure:
    headers = {} if failure.retry_after is None else {"retry-after": str(failure.retry_after)}
    return Failure(provider="script", model=name, message=failure.message, status=failure.status, headers=headers)


def _to_reply(reply: ScriptedReply, turn: int, round_number: int, messages: Sequence[Message]) -> ChatReply:
    fill = partial(_PLACEHOLDER.sub, _filler(messages))
    calls = tuple(
        ProposedCall(id=_call_id(call, turn, index, round_number), name=call.name, arguments=_arguments(call, fill))
        for index, call in enumerate(reply.calls)
    )
    stop_reason = reply.stop_reason or ("tool_calls" if calls else "end")
    return ChatReply(text=fill(reply.text), calls=calls, usage=reply.usage, stop_reason=stop_reason)


def _call_id(call: ScriptedCall, turn: int, index: int, round_number: int) -> str:
    if call.id is None:
        return f"call-{turn}-{index}"
    return call.id if round_number == 1 else f"{call.id}-{round_number}"


def _arguments(call: ScriptedCall, fill: Callable[[str], str]) -> str:
    if isinstance(call.arguments, str):
        return fill(call.arguments)
    # YAML knows dates, JSON doesn't: they go out as text.
    return json.dumps(_fill_leaves(call.arguments, fill), ensure_ascii=False, default=str)


def _fill_leaves(value: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        return {key: _fill_leaves(leaf, fill) for key, leaf in value.items()}
    if isinstance(value, list):
        return [_fill_leaves(leaf, fill) for leaf in value]
    return value


def _filler(messages: Sequence[Message]) -> Callable[[re.Match[str]], str]:
    handles = list(dict.fromkeys(handle for message in messages for handle in _HANDLE.findall(message.text)))
    results = [message.text for message in messages if isinstance(message, ToolMessage)]

    def replacement(match: re.Match[str]) -> str:
        number = match.group(1)
        if number is None:
            return results[-1] if results else match.group()
        return handles[int(number) - 1] if 1 <= int(number) <= len(handles) else match.group()

    return replacement
