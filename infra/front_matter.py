"""YAML front matter of a Markdown file, with the line of every field, so that an error can say where it stands."""

from dataclasses import dataclass
from typing import Any

import yaml

from core.errors import InputError

FENCE = "---"
FIRST_LINE = 2
"""The front matter begins below the opening fence."""


@dataclass(frozen=True)
class FrontMatter:
    """The fields as YAML gives them, the line (from 1) on which each begins, and the text below.

    `lines` is keyed by the path of a field: `("limits", "turns")`.
    """

    fields: dict[str, Any]
    lines: dict[tuple[str, ...], int]
    body: str

    def line_of(self, path: tuple[str, ...]) -> int:
        """Return the line of a field, or that of the nearest one above it; 1 for the whole."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_front_matter(text: str, source: str) -> FrontMatter:
    """Take a text apart; `source` names it in errors.

    Raises:
        InputError: no front matter, no closing fence, YAML that can't be read, a field given twice.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != FENCE:
        raise InputError(
            f"{source}:1: the front matter is missing: begin the file with a line `{FENCE}`, then name, description "
            f"and tools as YAML, then another line `{FENCE}`, then the instructions"
        )
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == FENCE), None)
    if end is None:
        raise InputError(f"{source}:1: the front matter does not end: put a line `{FENCE}` below its last field")
    node = _compose("\n".join(lines[1:end]), source)
    found: dict[tuple[str, ...], int] = {}
    _collect_lines(node, (), found, source)
    return FrontMatter(fields=_construct(node, source), lines=found, body="\n".join(lines[end + 1 :]).strip())


def _compose(text: str, source: str) -> yaml.MappingNode:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + FIRST_LINE if mark else FIRST_LINE
        raise InputError(f"{source}:{line}: this is no YAML ({error.problem}); correct the line") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{source}:{FIRST_LINE}: the front matter is no YAML ({reason}); correct it") from None
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{source}:{FIRST_LINE}: the front matter must be fields such as `name: analyst`")
    return node


def _collect_lines(
    node: yaml.MappingNode, path: tuple[str, ...], found: dict[tuple[str, ...], int], source: str
) -> None:
    """Note where each field stands; YAML itself would take the last of two fields of one name in silence."""
    for key, value in node.value:
        name = str(key.value)
        here = (*path, name)
        line = key.start_mark.line + FIRST_LINE
        if here in found:
            raise InputError(f"{source}:{line}: {'.'.join(here)} is given twice; keep one of the two")
        found[here] = line
        if isinstance(value, yaml.MappingNode) and len(here) < 3:
            _collect_lines(value, here, found, source)


def _construct(node: yaml.MappingNode, source: str) -> dict[str, Any]:
    loader = yaml.SafeLoader("")
    try:
        fields: dict[str, Any] = loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + FIRST_LINE if mark else FIRST_LINE
        reason = getattr(error, "problem", None) or " ".join(str(error).split())[:200]
        raise InputError(f"{source}:{line}: a value can't be read ({reason}); correct it") from None
    finally:
        loader.dispose()
    return fields
