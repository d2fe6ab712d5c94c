"""A final answer as JSON, where the agent's file says by a JSON Schema what it shall be."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from core.content import one_line
from core.frozen import Frozen
from core.ports import OutputSchemas

_FENCED = re.compile(r"\A```[a-zA-Z]*\n(.*)\n```\Z", re.DOTALL)


class Judged(Frozen):
    """An answer as JSON, or what is wrong with it, for the model to read; one of the two is empty."""

    json_text: str = ""
    problem: str = ""


async def judged(text: str, schema: Mapping[str, Any], schemas: OutputSchemas) -> Judged:
    """Read an answer, which may stand in a code fence, and hold it against the schema; in a thread: both take time."""
    return await asyncio.to_thread(_judged, text, schema, schemas)


def _judged(text: str, schema: Mapping[str, Any], schemas: OutputSchemas) -> Judged:
    text = text.strip()
    fenced = _FENCED.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_no_json)
    except RecursionError:
        return Judged(problem="it is nested too deeply")
    except ValueError as error:
        return Judged(problem=f"it is no JSON ({one_line(str(error), 200)})")
    if problem := schemas.problem(schema, value):
        return Judged(problem=problem)
    return Judged(json_text=json.dumps(value, ensure_ascii=False))


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
