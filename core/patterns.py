"""Patterns of arguments: what a tool may be called with for the rest of a run without asking again.

A pattern names arguments and what they must be: `{"path": "reports/*", "limit": 10}`. Texts may have `*` (anything),
`?` (one character) and `[abc]`; everything else must be equal, and of the same type. It is total and quick, so that the
workflow itself can look: what can't be told does not fit, and is asked.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase

Scalar = str | int | float | bool | None
Pattern = Mapping[str, Scalar]

NAMES = 10
TEXT_CHARACTERS = 200
WILD = frozenset("*?[")


def unusable(pattern: Pattern) -> str:
    """Say why a pattern can't be used; empty when it can."""
    if len(pattern) > NAMES:
        return f"a pattern names at most {NAMES} arguments"
    if any(isinstance(wanted, str) and len(wanted) > TEXT_CHARACTERS for wanted in pattern.values()):
        return f"a pattern's texts have at most {TEXT_CHARACTERS} characters"
    return ""


def fits(pattern: Pattern, arguments: str | None) -> bool:
    """Say whether raw JSON arguments fit; those that are not inline (None) don't. Never raises."""
    try:
        given = json.loads(arguments or "")
    except (ValueError, RecursionError):
        return False
    if not isinstance(given, dict):
        return False
    return all(name in given and _is(wanted, given[name]) for name, wanted in pattern.items())


def _is(wanted: Scalar, given: object) -> bool:
    if not isinstance(wanted, str) or not isinstance(given, str):
        return type(wanted) is type(given) and wanted == given
    if not WILD & set(wanted):
        return wanted == given
    # "reports/*" is meant as a folder: a path must not climb out of it.
    climbs = ".." in given.replace("\\", "/").split("/")
    return not climbs and len(given) <= 10 * TEXT_CHARACTERS and fnmatchcase(given, wanted)
