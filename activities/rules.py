"""Rules on the arguments of a call, in JMESPath: "amount > `100`". They are evaluated where the arguments are whole.

The language has no loops and no side effects, so a rule ends; and it says yes, no, or neither: then a person is asked.
"""

from collections.abc import Mapping

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic_core import to_jsonable_python

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


def verdict(asking: Asking | None, arguments: Mapping[str, object] | None) -> RuleVerdict | None:
    """Return what the rule says of a call's arguments, defaults filled in; None when there is no rule. Never raises.

    Arguments that can't be used (None) are unknown, as is a comparison by size of what has no size.
    """
    if asking is None or not asking.when:
        return None
    if arguments is None:
        return "unknown"
    try:
        found = jmespath.search(asking.when, to_jsonable_python(arguments))
    except (JMESPathError, ValueError, RecursionError, ArithmeticError, TypeError):
        return "unknown"
    if found is True:
        return "holds"
    return "not" if found is False else "unknown"
