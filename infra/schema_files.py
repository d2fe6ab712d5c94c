"""The schema of an agent's final answer, as its file has it: written there, or the path of a file beside it."""

import json
from pathlib import Path
from typing import Any

import yaml

from core.content import clean, one_line
from core.errors import InputError
from infra.json_schemas import JsonSchemas

SCHEMA_BYTES = 32 * 1024
"""Longest schema: each prompt has it."""


def read_schema(output: object, folder: Path) -> dict[str, Any]:
    """Return the JSON Schema that `output` is, or that is in the file (JSON or YAML) of this name.

    Raises:
        InputError: the file can't be read, or it is no schema that can be used.
    """
    source = ""
    if isinstance(output, str):
        source = f"{one_line(clean(output), 200)}: "
        output = _loaded(folder / output)
    if not isinstance(output, dict):
        raise InputError(f"{source}must be a JSON Schema: fields such as type and properties, or the path of a file")
    try:
        text = json.dumps(output, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{source}is no JSON ({one_line(str(error), 200)}); put dates and the like in quotes"
        ) from None
    if len(text) > SCHEMA_BYTES:
        raise InputError(f"{source}has {len(text):,} bytes, at most {SCHEMA_BYTES:,}: shorten it")
    schema: dict[str, Any] = json.loads(text)
    try:
        JsonSchemas().check(schema)
    except InputError as error:
        raise InputError(f"{source}{error}") from None
    return schema


def _loaded(path: Path) -> object:
    name = one_line(clean(str(path)), 300)
    try:
        if not path.is_file():
            raise InputError(f"there is no file {name}; name one beside the agent's file, or write the schema here")
        if path.stat().st_size > 4 * SCHEMA_BYTES:
            raise InputError(f"{name} is too long for a schema; shorten it")
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{name} can't be read as JSON or YAML ({one_line(str(error), 200)}); correct it") from None
