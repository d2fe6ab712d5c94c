"""What a step of a pipeline is given: its selections, evaluated over what it may read and nothing else.

A selection that finds nothing is a fault, told with what there is: a step never runs with a hole in its input. What is
longer than any model reads (2 MiB) is not loaded: in its place stands `{handle, name, media_type, size_bytes}`.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from activities.rules import evaluated
from core.artifacts import FULL_TEXT_BYTES, Artifacts
from core.content import ArtifactRef, Content, one_line, readable_bytes
from core.errors import InputError
from core.pipelines.runs import Known, SelectInput
from core.pipelines.tasks import output_of

LOADED_BYTES = 8 * 1024 * 1024
"""Most that one step reads of others."""
SELECTED_BYTES = 2 * 1024 * 1024
ENDED = frozenset({"done", "skipped", "failed", "blocked", "rejected", "cancelled"})
_TEXT = ("text/", "application/json", "application/x-ndjson", "application/yaml")


class Document:
    """What the selections of one step read."""

    def __init__(self, artifacts: Artifacts, question: SelectInput) -> None:
        self._artifacts = artifacts
        self._question = question
        self._left = LOADED_BYTES

    async def load(self) -> dict[str, Any]:
        """Return it as data.

        Raises:
            InputError: there is too much.
            StorageError: by its own verdict.
        """
        question = self._question
        known = {each.key: each for each in question.known}
        nested = {f"{each.key}/{member}" for each in question.known for member in each.members}
        data: dict[str, Any] = {"inputs": output_of(await self._text(question.inputs)), "steps": {}}
        if question.loop is not None:
            data["index"] = question.loop.index
            data["item"] = json.loads(await self._text(question.loop.items))[question.loop.index]
        inner = {member.partition("/")[2] for member in nested}
        for each in question.known:
            if each.step not in inner:
                data["steps"][each.step] = await self._step(each, known)
        return data

    async def _step(self, each: Known, known: Mapping[str, Known]) -> dict[str, Any]:
        found: dict[str, Any] = {"status": each.status, "error": each.error, "artifacts": _described(each.artifacts)}
        if each.given is not None:
            items = json.loads(await self._text(each.given))
            numbers = range(each.items or 0)
            found["items"] = [{"item": items[number], **await self._members(each, known, number)} for number in numbers]
            last = each.members[-1]
            found["output"] = [item.get(last, {}).get("output") for item in found["items"]]
        elif each.members:
            inner = await self._members(each, known, None)
            found["output"] = {name: value.get("output") for name, value in inner.items()}
        else:
            output = await self._output(each.output)
            found["text"] = output
            found["output"] = output_of(output) if isinstance(output, str) else output
        return found

    async def _members(self, group: Known, known: Mapping[str, Known], number: int | None) -> dict[str, Any]:
        indices = [*group.key.split(".")[1:], *([] if number is None else [str(number)])]
        found = {}
        for name in group.members:
            member = known.get(".".join((name, *indices)))
            if member is not None:
                found[name] = await self._step(member, known)
        return found

    async def _output(self, content: Content | None) -> Any:
        if content is None:
            return None
        ref = content.artifact
        if ref is not None and (ref.size_bytes > FULL_TEXT_BYTES or not ref.media_type.startswith(_TEXT)):
            return _described((ref,))[0]
        return await self._text(content)

    async def _text(self, content: Content) -> str:
        size = content.artifact.size_bytes if content.artifact else len(content.text or "")
        self._left -= size
        if self._left < 0:
            raise InputError(
                f"it selects from more than {readable_bytes(LOADED_BYTES)} of results; select from fewer steps, "
                "or hand on handles of artifacts"
            )
        return await self._artifacts.read_text(content)


def _described(refs: tuple[ArtifactRef, ...]) -> list[dict[str, Any]]:
    fields = {"name", "media_type", "size_bytes"}
    return [{"handle": ref.handle, **ref.model_dump(include=fields)} for ref in refs]


async def found(field: str, expression: str, data: dict[str, Any]) -> Any:
    """Return what a selection finds.

    Raises:
        InputError: nothing, too much, or it can't be evaluated; the text names it and says what there is.
    """
    value = await asyncio.to_thread(evaluated, expression, data)
    if value is None:
        raise InputError(f"{field} ({one_line(expression, 200)}) finds nothing: {_there_is(data)}")
    if _size(value, SELECTED_BYTES) < 0:
        raise InputError(f"{field} selects more than {readable_bytes(SELECTED_BYTES)}; select less")
    return value


async def holds(expression: str, data: dict[str, Any]) -> bool:
    """Say whether a condition holds.

    Raises:
        InputError: it is neither true nor false.
    """
    value = await asyncio.to_thread(evaluated, expression, data)
    if not isinstance(value, bool):
        said = one_line(json.dumps(to_jsonable_python(value)), 60)
        raise InputError(f"when ({one_line(expression, 200)}) is neither true nor false, it is {said}; compare it")
    return value


def _size(value: Any, left: int) -> int:
    """Return what is left of a size after a value; it stops when that is less than nothing."""
    if left < 0:
        return left
    if isinstance(value, str):
        return left - len(value)
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        for part in parts:
            left = _size(part, left - 2)
        return left
    return left - 8


def _there_is(data: dict[str, Any]) -> str:
    """Say what there would have been to select, shortly."""
    said = [f"inputs has {', '.join(data['inputs']) or 'nothing'}"]
    for name, step in data["steps"].items():
        said.append(f"step {name} is {step['status']}, its output is {_shape(step.get('output'))}")
    if "item" in data:
        said.append(f"item is {_shape(data['item'])}")
    return one_line("; ".join(said), 600)


def _shape(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return f"an object with {', '.join(map(str, list(value)[:10])) or 'no fields'}"
        case list():
            return f"a list of {len(value)}"
        case str():
            return f"a text ({one_line(value, 40)!r})"
        case _:
            return json.dumps(value)
