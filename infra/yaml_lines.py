"""A YAML file with the line of every field, so that an error can say where it stands."""

from dataclasses import dataclass
from typing import Any

import yaml

from core.errors import InputError

DEPTH = 20
"""So deep lists and fields may stand in others."""


@dataclass(frozen=True)
class Lined:
    """What a file says, and the line (from 1) on which each field begins, by its path: `("steps", "0", "tool")`."""

    value: dict[str, Any]
    lines: dict[tuple[str, ...], int]

    def line_of(self, path: tuple[str, ...]) -> int:
        """Return the line of a field, or that of the nearest one above it; 1 for the whole."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, source: str) -> Lined:
    """Read a text of fields; `source` names it in errors.

    Raises:
        InputError: it is no YAML, or no fields; a field is given twice; it uses aliases, or is nested too deeply.
    """
    loader = yaml.SafeLoader("")
    try:
        node = yaml.compose(text.removeprefix("\ufeff"), Loader=yaml.SafeLoader)
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{source}:1: it must be fields, such as `name: deploy`")
        lines: dict[tuple[str, ...], int] = {}
        _collect(node, (), lines, source, set())
        return Lined(value=loader.construct_document(node), lines=lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InputError(f"{source}:{line}: this is no YAML ({error.problem}); correct the line") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise InputError(f"{source}:1: it is no YAML ({' '.join(str(error).split())[:200]}); correct it") from None
    finally:
        loader.dispose()


def _collect(
    node: yaml.Node, path: tuple[str, ...], lines: dict[tuple[str, ...], int], source: str, seen: set[int]
) -> None:
    """Note where each field stands; YAML itself would take the last of two fields of one name in silence."""
    line = node.start_mark.line + 1
    if id(node) in seen or len(path) > DEPTH:
        why = "is a YAML alias" if id(node) in seen else "is nested too deeply"
        raise InputError(f"{source}:{line}: {'.'.join(path)} {why}; write it out, flat")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in lines:
                raise InputError(f"{source}:{line}: {'.'.join(here)} is given twice; keep one of the two")
            lines[here] = line
            _collect(value, here, lines, source, seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            here = (*path, str(number))
            lines[here] = value.start_mark.line + 1
            _collect(value, here, lines, source, seen)
