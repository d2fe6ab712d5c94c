"""What can be said of a selection before there is data: which steps it reads, what type it gives, how it can grow.

Works on JMESPath's own syntax tree (`jmespath.compile(text).parsed`: nodes with `type`, `children`, `value`), so that
nothing here needs that library. Whoever parses it, a starter or an activity, gets the same answers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from core.frozen import Frozen
from core.pipelines.file import InputType

Node = Mapping[str, Any]
GROWTH = 64
"""What a selection gives holds nothing more often than this: else a few characters could make any amount of data."""
NODES = 300
NAMES = ("inputs", "steps", "item", "index")
_COPIES = {"multi_select_list", "multi_select_dict", "function_expression"}
_CHAINS = {
    "pipe",
    "subexpression",
    "index_expression",
    "projection",
    "value_projection",
    "flatten",
    "filter_projection",
}
_GIVES: dict[str, InputType] = {
    "comparator": "boolean",
    "not_expression": "boolean",
    "multi_select_list": "list",
    "multi_select_dict": "object",
    "projection": "list",
    "value_projection": "list",
    "filter_projection": "list",
    "flatten": "list",
}
_FUNCTIONS: dict[str, InputType] = {
    **dict.fromkeys(["abs", "avg", "ceil", "floor", "length", "sum", "to_number"], "number"),
    **dict.fromkeys(["contains", "ends_with", "starts_with"], "boolean"),
    **dict.fromkeys(["join", "to_string", "type"], "string"),
    **dict.fromkeys(["keys", "values", "map", "sort", "sort_by", "to_array"], "list"),
    "merge": "object",
}


class Reads(Frozen):
    """What a selection reads."""

    inputs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    item: bool = False
    problem: str = ""
    """Set when it reads more than it names, or a name that there is not; says so."""


def reads(node: Node) -> Reads:
    """Return what a selection reads of the document."""
    found: dict[str, set[str]] = {"inputs": set(), "steps": set(), "item": set(), "problem": set()}
    _read(node, found)
    problem = min(found["problem"], default="")
    if _count(node) > NODES:
        problem = "is too long; select less, or in several steps"
    elif growth(node) > GROWTH:
        problem = f"could repeat its data more than {GROWTH} times; select less"
    return Reads(
        inputs=tuple(sorted(found["inputs"])),
        steps=tuple(sorted(found["steps"])),
        item=bool(found["item"]),
        problem=problem,
    )


def _read(node: Node, found: dict[str, set[str]]) -> None:
    """Read a part whose current node is the document."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        _named(node["value"], None, found)
    elif kind in {"identity", "current"}:
        found["problem"].add(f"reads everything; name what it needs: {', '.join(NAMES)}")
    elif kind in _CHAINS:  # what follows the first part sees what that gives, not the document
        names = _leading(node)
        if names:
            _named(names[0], names[1] if len(names) > 1 else None, found)
        else:
            _read(children[0], found)
    elif kind not in {"literal", "expref"}:
        for child in children:
            _read(child, found)


def _leading(node: Node) -> tuple[str, ...]:
    """Return the names that a path begins with: `steps`, `plan`, ... of `steps.plan.output[0].x`."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        return (str(node["value"]),)
    if kind == "subexpression":
        names: tuple[str, ...] = ()
        for child in children:
            names = (*names, *_leading(child))
            if not _is_plain(child):
                break
        return names
    return _leading(children[0]) if kind in _CHAINS else ()


def _is_plain(node: Node) -> bool:
    """Say whether a node is a path of names and nothing else."""
    return node["type"] == "field" or (node["type"] == "subexpression" and all(map(_is_plain, node["children"])))


def _named(name: str, inner: str | None, found: dict[str, set[str]]) -> None:
    if name in {"item", "index"}:
        found["item"].add(name)
    elif name in {"inputs", "steps"} and inner is not None:
        found[name].add(inner)
    elif name in {"inputs", "steps"}:
        found["problem"].add(f"reads all {name}; name one: {name}.NAME")
    else:
        found["problem"].add(f"reads {name!r}, which is not there; there is: {', '.join(NAMES)}")


def growth(node: Node) -> int:
    """Return how often, at most, what a selection gives holds a part of its data."""
    kind, children = node["type"], node["children"]
    sizes = [growth(child) for child in children]
    maps = kind == "function_expression" and any(child["type"] == "expref" for child in children)
    if kind in _COPIES and not maps:
        return max(sum(sizes), 1)
    if kind in _CHAINS or maps:
        product = 1
        for size in sizes:
            product *= size
        return min(product, GROWTH + 1)
    return max(sizes, default=1)


def _count(node: Node) -> int:
    return 1 + sum(_count(child) for child in node["children"])


def type_of(node: Node, known: Callable[[str, str], InputType | None]) -> InputType | None:
    """Return the type that a selection gives, None when that shows only with the data.

    `known` gives the type of `inputs.NAME` and of `steps.NAME.output`: called with `inputs` or `steps`, and the name.
    """
    kind, children = node["type"], node["children"]
    if kind == "literal":
        return _type(node["value"])
    if kind == "function_expression":
        return _FUNCTIONS.get(node["value"])
    if kind == "pipe":
        return type_of(children[1], lambda _kind, _name: None)
    if _is_plain(node) and kind == "subexpression":
        return _of_path(_leading(node), known)
    if kind == "subexpression":
        return type_of(children[-1], lambda _kind, _name: None)
    if kind == "field" and node["value"] == "index":
        return "number"
    return _GIVES.get(kind)


def _of_path(path: tuple[str, ...], known: Callable[[str, str], InputType | None]) -> InputType | None:
    match path:
        case ("inputs", name):
            return known("inputs", name)
        case ("steps", name, "output"):
            return known("steps", name)
        case ("steps", _, "status" | "error"):
            return "string"
        case ("steps", _, "artifacts" | "items"):
            return "list"
        case _:
            return None


def _type(value: object) -> InputType | None:
    kinds: list[tuple[type, InputType]] = [
        (bool, "boolean"), (str, "string"), (int, "number"), (float, "number"), (list, "list"), (dict, "object"),
    ]  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), None)
