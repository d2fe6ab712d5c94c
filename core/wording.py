"""What is wrong with a value, in words that follow its name: what pydantic found, without its own terms."""

from pydantic_core import ErrorDetails

_TYPES = {
    "missing": "is missing; add it",
    "extra_forbidden": "is no field that there is; remove it or correct its name",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "has characters that are not allowed there",
    **dict.fromkeys(["model_type", "model_attributes_type", "dict_type", "mapping_type"], "must be fields with values"),
    **dict.fromkeys(["list_type", "tuple_type", "set_type", "iterable_type"], "must be a list"),
    **dict.fromkeys(["int_type", "int_parsing", "int_from_float", "int_parsing_size"], "must be a whole number"),
    **dict.fromkeys(["float_type", "float_parsing"], "must be a number"),
}
_BOUNDS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "is too long: at most {max_length} characters",
    "literal_error": "must be {expected}",
}


def fault(problem: ErrorDetails) -> str:
    """Say what is wrong with one value and how it should be: `must be a list`. Never raises."""
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "string_too_short" and context.get("min_length") == 1:
        return "must not be empty"
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _BOUNDS:
        return _BOUNDS[kind].format_map(context)
    return problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
