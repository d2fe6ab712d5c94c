"""Rules on the arguments of a call, in JMESPath: "amount > `100`". They are evaluated where the arguments are whole.

The language has no loops and no side effects, so a rule ends; and it says yes, no, or neither: then a person is asked.
A short rule can double its data again and again all the same: it may take so much effort, and what takes more says
neither.
"""

import math
from collections.abc import Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import Options, TreeInterpreter
from pydantic_core import to_jsonable_python

from core.asking import Asking, RuleVerdict
from core.content import one_line
from core.errors import InputError

EFFORT = 5_000_000
"""Most values that a rule may look at or make, a value again and again counted each time: less than a few seconds."""
JOINED = 2
"""A text, and those that it is put between."""
TEXT_CHARACTERS = 8
"""So many characters of a text count as one value."""
_UNANSWERED = (
    JMESPathError,
    ValueError,
    RecursionError,
    ArithmeticError,
    TypeError,
    LookupError,
    AttributeError,
    MemoryError,
)


class TooMuchEffort(ValueError):
    """A rule looks at, or makes, more than makes sense."""


class _Effort:
    """Counts what a rule takes. Sizes are known by identity: what shares its parts is not walked through anew."""

    def __init__(self) -> None:
        self._left = EFFORT
        self._sizes: dict[int, tuple[object, int]] = {}

    def spend(self, value: object) -> None:
        """Take a value into account.

        Raises:
            TooMuchEffort: that was too much.
            ValueError: a number in it is none (NaN): no comparison with it says anything.
        """
        self.take(self._size(value))

    def take(self, steps: int) -> None:
        """Take so many steps; raises `TooMuchEffort` when they are too many."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchEffort(f"the rule takes more than {EFFORT:,} steps")

    def _size(self, value: object) -> int:
        if isinstance(value, str):
            return 1 + len(value) // TEXT_CHARACTERS
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("what is not a number is neither more nor less than anything")
        if not isinstance(value, list | dict):
            return 1
        known = self._sizes.get(id(value))
        if known is not None:
            return known[1]
        parts = value.values() if isinstance(value, dict) else value
        size = 1 + sum(self._size(part) for part in parts)
        self._sizes[id(value)] = (value, size)  # the value too: else another one could get its identity
        return size


class _Bounded(TreeInterpreter):
    """Evaluates a rule as the library does, within its effort."""

    def __init__(self) -> None:
        self._effort = _Effort()
        super().__init__(Options(custom_functions=_BoundedFunctions(self._effort)))

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        found = super().visit(node, *args, **kwargs)
        self._effort.spend(found)
        return found


class _BoundedFunctions(Functions):
    """The library's functions, each of which looks at all that it is given."""

    def __init__(self, effort: _Effort) -> None:
        self._effort = effort

    def call_function(self, function_name: str, resolved_args: Any) -> Any:
        for value in resolved_args:
            self._effort.spend(value)
        if function_name == "join" and len(resolved_args) == JOINED:  # of all functions, it alone makes much of little
            between, parts = resolved_args
            if isinstance(between, str) and isinstance(parts, list):
                self._effort.take(len(between) * len(parts) // TEXT_CHARACTERS)
        return super().call_function(function_name, resolved_args)


def check_rule(tool: str, asking: Asking) -> None:
    """Refuse a rule that can't be read.

    Raises:
        InputError: names the tool and what is wrong.
    """
    if not asking.when:
        return
    try:
        jmespath.compile(asking.when)
    except _UNANSWERED as error:
        why = one_line(str(error), 200)
        raise InputError(
            f"approval of {tool}: the rule {asking.when!r} is no JMESPath ({why}); "
            'write it like "amount > `100`" or "starts_with(path, \'/etc\')"'
        ) from error


def verdict(asking: Asking | None, arguments: Mapping[str, object] | None) -> RuleVerdict | None:
    """Return what the rule says of a call's arguments, defaults filled in; None when there is no rule. Never raises.

    Arguments that can't be used (None) are unknown, as is a comparison by size of what has no size.
    """
    if asking is None or not asking.when:
        return None
    if arguments is None:
        return "unknown"
    try:
        found = evaluated(asking.when, to_jsonable_python(arguments))
    except InputError:
        return "unknown"
    if found is True:
        return "holds"
    return "not" if found is False else "unknown"


def evaluated(expression: str, data: object) -> Any:
    """Return what an expression finds in data as JSON has it, within its effort; None is nothing.

    Raises:
        InputError: it is no JMESPath, does not fit the data, or takes too much.
    """
    try:
        return _Bounded().visit(jmespath.compile(expression).parsed, data)
    except _UNANSWERED as error:
        raise InputError(f"{expression!r} can't be evaluated: {one_line(str(error), 300)}") from error
