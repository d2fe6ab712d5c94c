"""Rules on the arguments of a call, in JMESPath: "amount > `100`". They are evaluated where the arguments are whole.

The language has no loops and no side effects, so a rule ends; and it says yes, no, or neither: then a person is asked.
"""

import json

import jmespath
from jmespath.exceptions import JMESPathError

from core.asking import Asking, RuleVerdict
from core.content import one_line
from core.errors import InputError


def check_rule(tool: str, asking: Asking) -> None:
    """Refuse a rule that can't be read.

    Raises:
        InputError: names the tool and what is wrong.
    """
    if not asking.when:
        return
    try:
        jmespath.compile(asking.when)
    except JMESPathError as error:
        why = one_line(str(error), 200)
        raise InputError(
            f"approval of {tool}: the rule {asking.when!r} is no JMESPath ({why}); "
            'write it like "amount > `100`" or "starts_with(path, \'/etc\')"'
        ) from error


def verdict(asking: Asking | None, arguments: str) -> RuleVerdict | None:
    """Return what the rule says of a call's arguments (raw JSON); None when there is no rule. Never raises.

    A comparison with what is not there, or of another type, is neither true nor false: it is unknown.
    """
    if asking is None or not asking.when:
        return None
    try:
        found = jmespath.search(asking.when, json.loads(arguments))
    except (JMESPathError, ValueError, RecursionError, ArithmeticError, TypeError):
        return "unknown"
    if found is True:
        return "holds"
    return "not" if found is False else "unknown"
