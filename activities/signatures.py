"""What a tool's arguments are: read once from its signature and docstring, checked on every call.

A pydantic model of the parameters gives both the JSON Schema that the model is shown and the check of what it sends.
The check is strict: "5" is no number. A wrong argument is told to the model, never guessed at.
"""

import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from activities.tool_context import ToolContext
from core.content import clean, cut, one_line

CONTEXT = "context"
PROBLEM_BYTES = 2000
PROBLEMS = 10
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_SECTION = re.compile(r"^(Args|Arguments|Returns|Yields|Raises|Example|Examples|Note|Notes|Attributes):\s*$")


class WrongDeclaration(Exception):
    """A function can't be a tool as it is declared; the text names the cure."""


class Signature:
    """The parameters of one tool, and its description.

    Raises:
        WrongDeclaration: the function can't be described to a model.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.description, described = _documentation(function)
        parameters, hints = _parameters(function)
        strangers = sorted(set(described) - set(parameters))
        if strangers:
            raise WrongDeclaration(f"the Args section describes {', '.join(strangers)}, which are no parameters")
        self._names = tuple(parameters)
        self._model = _argument_model(function.__name__, parameters, hints, described)
        self.schema = _schema(self._model)

    def accepts(self, function: Callable[..., object]) -> bool:
        """Say whether a function takes the same arguments; it may take the context or not."""
        return set(inspect.signature(function).parameters) - {CONTEXT} == set(self._names)

    def parse(self, arguments: str) -> dict[str, Any]:
        """Return the arguments by name, defaults filled in.

        Raises:
            ValueError: they can't be used; the text tells the model why, one problem a line.
        """
        text = arguments.strip()
        if not text:
            raise ValueError("- they are empty; send {} for a call without arguments")
        problem = _json_problem(text)
        if problem is not None:
            raise ValueError(f"- {problem}")
        try:
            parsed = self._model.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(self._told(error)) from None
        return {name: getattr(parsed, f"argument_{number}") for number, name in enumerate(self._names)}

    def _told(self, error: ValidationError) -> str:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [self._line(problem["loc"], problem["type"], problem["msg"]) for problem in problems[:PROBLEMS]]
        if len(problems) > PROBLEMS:
            lines.append(f"- and {len(problems) - PROBLEMS} more")
        return cut("\n".join(lines), PROBLEM_BYTES)

    def _line(self, place: tuple[int | str, ...], kind: str, message: str) -> str:
        path = one_line(clean(".".join(str(step) for step in place)), 120)
        if kind == "missing":
            return f"- {path}: missing"
        if kind == "extra_forbidden":
            known = f"; known: {', '.join(self._names)}" if len(place) == 1 and self._names else ""
            return f"- {path}: unknown argument{known}"
        return f"- {path}: {one_line(clean(message), 200)}" if path else f"- {one_line(clean(message), 200)}"


def _documentation(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into what the model reads and the descriptions of the parameters."""
    text = inspect.getdoc(function) or ""
    prose: list[str] = []
    described: dict[str, str] = {}
    section, current = "", ""
    for line in text.splitlines():
        header = _SECTION.match(line)
        if header is not None:
            section, current = header[1], ""
        elif not section or (line and not line[0].isspace()):
            section = ""
            prose.append(line)
        elif section in {"Args", "Arguments"} and line.strip():
            named = _ARGUMENT.match(line.strip()) if len(line) - len(line.lstrip()) <= 4 else None
            if named is not None:
                current = named[1]
            described[current] = f"{described.get(current, '')} {named[2] if named else line.strip()}".strip()
    described.pop("", None)
    described.pop(CONTEXT, None)
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip()
    if not description:
        raise WrongDeclaration("it has no docstring; say in one what it does: the model chooses tools by that")
    return description, described


def _parameters(function: Callable[..., object]) -> tuple[dict[str, inspect.Parameter], Mapping[str, Any]]:
    """Return the parameters that the model fills in, and the type hints of all."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise WrongDeclaration(f"its annotations can't be resolved ({error}); import what they name") from error
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise WrongDeclaration(f"*{name} can't be described to a model; name each parameter, or take a list")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise WrongDeclaration(f"parameter {name} is positional only; arguments are given by name: remove the /")
        if name not in hints:
            raise WrongDeclaration(f"parameter {name} has no annotation; write its type, such as {name}: str")
        if (name == CONTEXT) != (hints[name] is ToolContext):
            raise WrongDeclaration(f"parameter {name}: the context is declared as `{CONTEXT}: ToolContext`")
        if name != CONTEXT:
            parameters[name] = parameter
    return parameters, hints


def _argument_model(
    name: str, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], described: Mapping[str, str]
) -> type[BaseModel]:
    """Make the model. Its fields have neutral names, so that a parameter may be called `schema` or `copy`."""
    fields: dict[str, Any] = {}
    for number, (parameter_name, parameter) in enumerate(parameters.items()):
        required = parameter.default is parameter.empty
        default = ... if required else parameter.default
        about = described.get(parameter_name)
        fields[f"argument_{number}"] = (
            hints[parameter_name],
            Field(default, alias=parameter_name, description=about),
        )
        if not required:
            _check_default(parameter_name, hints[parameter_name], parameter.default)
    try:
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except Exception as error:
        raise WrongDeclaration(
            f"a parameter's type can't be sent as JSON ({one_line(str(error), 200)}); "
            "use str, int, float, bool, Literal, list, dict or a pydantic model"
        ) from error
    return model


def _check_default(name: str, annotation: Any, default: object) -> None:
    try:
        TypeAdapter(annotation).validate_python(default)
    except ValidationError as error:
        raise WrongDeclaration(f"the default of {name} is not of its type: {error.errors()[0]['msg']}") from error
    except Exception as error:
        raise WrongDeclaration(f"the type of {name} can't be sent as JSON ({one_line(str(error), 200)})") from error


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema without the titles that pydantic adds: they only cost tokens."""
    schema = model.model_json_schema()
    schema.pop("title", None)
    for part in (schema, *schema.get("$defs", {}).values()):
        for described in part.get("properties", {}).values():
            described.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _json_problem(text: str) -> str | None:
    """Say why a text is no JSON object in the sense of the standard, or None when it is one."""
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_short_int
        )
    except json.JSONDecodeError as error:
        end = "; it ends in the middle" if error.pos >= len(text) else ""
        return f"they are not JSON: {error.msg} at line {error.lineno} column {error.colno}{end}"
    except (ValueError, RecursionError) as error:
        return one_line(clean(str(error)), 200) if isinstance(error, ValueError) else "they are nested too deeply"
    return None if isinstance(value, dict) else 'they are not a JSON object, such as {"name": "value"}'


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise ValueError(f"{one_line(name, 60)} is given twice")
        value[name] = item
    return value


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _short_int(text: str) -> int:
    if len(text) > 40:
        raise ValueError(f"{text[:40]}... has too many digits for a number")
    return int(text)
