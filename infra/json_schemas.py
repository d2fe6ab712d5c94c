"""JSON Schemas of what agents shall answer: checked when a run starts, and held against each final answer.

Nothing is fetched: a schema refers only to itself. Patterns are matched with a time limit, since what they are held
against is written by a model.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from core.content import clean, one_line
from core.errors import InputError
from core.ports import OutputSchemas

PATTERN_SECONDS: Final = 1.0
PROBLEM_CHARACTERS: Final = 500
_OWN: Final = "schema:own"
_UNKNOWN: Final[type[Validator]] = extend(Draft202012Validator)  # type: ignore[no-untyped-call]  # as below
"""Stands for a draft that the library does not know."""


class JsonSchemas(OutputSchemas):
    """JSON Schema by the library `jsonschema`; the draft is that of `$schema`, else 2020-12."""

    def check(self, schema: Mapping[str, Any]) -> None:
        """Check the schema itself; see `OutputSchemas`."""
        kind = validator_for(schema, default=_UNKNOWN if "$schema" in schema else Draft202012Validator)
        if kind is _UNKNOWN:
            raise InputError(f"there is no draft {one_line(str(schema['$schema']), 100)}; leave $schema out")
        try:
            kind.check_schema(dict(schema))
        except SchemaError as error:
            where = "/".join(map(str, error.absolute_path)) or "the schema"
            raise InputError(f"{where}: {one_line(error.message, 300)}; correct the JSON Schema") from None
        resolver = Registry().with_resource(_OWN, DRAFT202012.create_resource(dict(schema))).resolver(_OWN)
        for reference in _references(schema):
            try:
                resolver.lookup(reference)
            except (Unresolvable, NoSuchResource, ValueError):
                raise InputError(
                    f"$ref {one_line(reference, 100)!r} leads nowhere in the schema; put it under $defs"
                ) from None

    def problem(self, schema: Mapping[str, Any], answer: Any) -> str:
        """Say what is wrong with an answer; see `OutputSchemas`."""
        draft = validator_for(schema, default=Draft202012Validator)
        kind = extend(draft, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # its stubs leave the types out
        try:
            error = best_match(kind(dict(schema), registry=Registry()).iter_errors(answer))
        except (Unresolvable, RecursionError) as broken:
            return f"the schema can't be held against it ({one_line(str(broken), 200) or type(broken).__name__})"
        if error is None:
            return ""
        where = "/".join(map(str, error.absolute_path))
        return one_line(clean(f"{where}: {error.message}" if where else error.message), PROBLEM_CHARACTERS)


def _pattern(_validator: Validator, pattern: str, instance: object, _schema: object) -> Iterator[ValidationError]:
    """Match a text in bounded time."""
    if not isinstance(instance, str):
        return
    try:
        if regex.search(pattern, instance, timeout=PATTERN_SECONDS) is None:
            yield ValidationError(f"{one_line(instance, 100)!r} does not match {pattern!r}")
    except TimeoutError:
        yield ValidationError(f"{one_line(instance, 100)!r} takes too long to match against {pattern!r}")


def _references(value: object) -> Iterator[str]:
    """Find what a schema refers to, wherever it stands."""
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
