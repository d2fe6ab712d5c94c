"""Facts about declaring tools, finding them, and checking the arguments of calls."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from activities.tool_context import ToolContext
from activities.toolbox import Tool, Toolbox, tool
from core.asking import Asking
from core.errors import InputError

SHORT = timedelta(seconds=5)


class Place(BaseModel):
    """A place, as an argument."""

    city: str
    zip: int = 0


@tool(effect="idempotent_write", timeout=SHORT, approval="ask")
def visit(  # noqa: D417 - the context is no argument of the model's, and a description may be left out
    place: Place,
    mode: Literal["walk", "drive"] = "walk",
    title: str | None = None,
    schema: dict[str, float] | None = None,
    *,
    context: ToolContext,
) -> str:
    """Visit a place.

    Only once.

    Args:
        place: Where to go:
            any city.
        mode: How to go.
        title (str): What to call it.

    Returns:
        Nothing of interest.
    """
    return f"{place.city} {mode} {title} {schema} {context.call_id}"


BOX = Toolbox([visit])


def test_a_tool_is_described_by_its_name_docstring_and_signature() -> None:
    """The model sees what the author wrote once; the context is no argument."""
    schema = BOX.schema("visit")
    assert schema.description == "Visit a place.\n\nOnly once."
    properties = schema.parameters["properties"]
    assert list(properties) == ["place", "mode", "title", "schema"]
    assert properties["place"]["description"] == "Where to go: any city."
    assert properties["mode"] == {
        "default": "walk",
        "description": "How to go.",
        "enum": ["walk", "drive"],
        "type": "string",
    }
    assert properties["title"]["description"] == "What to call it."
    assert schema.parameters["required"] == ["place"]
    assert schema.parameters["additionalProperties"] is False
    assert schema.parameters["$defs"]["Place"]["required"] == ["city"]


def test_the_agents_file_overrides_a_tools_own_approval() -> None:
    """What the tool's author says is the default."""
    assert BOX.policy("visit").approval == "ask"
    assert BOX.policy("visit", Asking(mode="auto")).approval == "auto"
    assert BOX.policy("visit").effect == "idempotent_write"
    assert BOX.policy("visit").timeout == SHORT


def test_a_tool_without_parameters_has_an_empty_schema() -> None:
    """Providers want an object, with properties."""

    @tool(effect="read", timeout=SHORT)
    def nothing() -> None:
        """Do nothing."""

    assert Toolbox([nothing]).schema("nothing").parameters == {
        "additionalProperties": False,
        "properties": {},
        "type": "object",
    }
    assert Toolbox([nothing]).problem("nothing", "{}") is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "they are empty; send {}"),
        ("  ", "they are empty"),
        ('{"place": {"city": "Rom"', "it ends in the middle"),
        ("{'place': 1}", "not JSON"),
        ('{"place": {"city": "Rom"}} or so', "not JSON: Extra data"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("{}", "- place: missing"),
        ('{"place": {}}', "- place.city: missing"),
        ('{"place": {"city": "Rom", "zip": "7"}}', "- place.zip: Input should be a valid integer"),
        ('{"place": {"city": "Rom", "zip": 7.5}}', "- place.zip: Input should be a valid integer"),
        ('{"place": {"city": 7}}', "- place.city: Input should be a valid string"),
        ('{"place": {"city": "Rom"}, "mode": "fly"}', "- mode: Input should be 'walk' or 'drive'"),
        ('{"place": {"city": "Rom"}, "speed": 1}', "- speed: unknown argument; known: place, mode, title, schema"),
        ('{"place": {"city": "Rom"}, "context": {}}', "- context: unknown argument"),
        ('{"place": {"city": "Rom"}, "schema": {"a": NaN}}', "NaN is no number in JSON"),
        ('{"place": {"city": "Rom"}, "schema": {"a": -Infinity}}', "-Infinity is no number"),
        ('{"place": {"city": "Rom"}, "schema": {"a": 1e999}}', "too large a number"),
        ('{"place": {"city": "Rom", "zip": ' + "9" * 5000 + "}}", "too many digits"),
        ('{"place": {"city": "Rom"}, "place": {"city": "Bonn"}}', "place is given twice"),
        ('{"place": {"city": "\\ud800"}}', "JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("x" * 5_000_000, "not JSON"),
        ('{"' + "y" * 100_000 + '": 1}', "unknown argument"),
    ],
)
def test_bad_arguments_are_told_to_the_model_and_never_guessed(arguments: str, says: str) -> None:
    """Each problem with its path, in a short text."""
    problem = BOX.problem("visit", arguments)
    assert problem is not None
    assert problem.startswith("visit was not run")
    assert says in problem
    assert len(problem.encode()) < 3000


def test_all_problems_are_listed_up_to_ten() -> None:
    """So that the model mends them in one go."""
    problem = BOX.problem("visit", "{" + ", ".join(f'"x{number}": 1' for number in range(30)) + "}")
    assert problem is not None
    assert problem.count("\n- ") == 11
    assert problem.endswith("- and 21 more")


def test_good_arguments_have_no_problem() -> None:
    """Defaults are filled in, models are made."""
    arguments = '{"place": {"city": "Köln"}, "schema": {"a": 1}}'
    assert BOX.problem("visit", arguments) is None
    parsed = BOX.tool("visit").signature.parse(arguments)
    assert parsed == {"place": Place(city="Köln"), "mode": "walk", "title": None, "schema": {"a": 1.0}}


def test_an_unknown_tool_names_the_near_and_the_known() -> None:
    """The agent's author finds the slip, or learns that the workers are older than the tool."""
    cure = "correct its name, or restart the workers if the tool is new"
    assert BOX.unknown("vist") == f"unknown tool 'vist' (did you mean visit?): {cure}; known: visit"
    assert len(BOX.unknown("x\n\ud800" * 1_000_000)) < 300
    with pytest.raises(InputError, match=r"unknown tool 'x': .*; known: visit"):
        BOX.schema("x")


def test_a_tool_is_still_the_function_it_was() -> None:
    """Its author may call and test it."""

    @tool(effect="read", timeout=SHORT)
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert double(4) == 8


def no_docstring(a: str) -> str:  # noqa: D103 - that is the fault
    return a


def only_arguments(a: str) -> str:
    """
    Args:
        a: no word of what it does.
    """  # noqa: D205, D212 - that is the fault
    return a


def no_annotation(a) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001 - that is the fault
    """Do it."""
    return str(a)


def star_arguments(*names: str) -> str:
    """Do it."""
    return str(names)


def star_star(**names: str) -> str:
    """Do it."""
    return str(names)


def positional(a: str, /) -> str:
    """Do it."""
    return a


def wrong_default(a: int = "x") -> int:  # type: ignore[assignment] # that is the fault
    """Do it."""
    return a


def no_json(a: Callable[[], int]) -> int:
    """Do it."""
    return a()


def no_schema(a: Path, b: Toolbox) -> str:
    """Do it."""
    return f"{a}{b}"


def unresolved(a: "NoSuchType") -> str:  # type: ignore[name-defined] # noqa: F821 - that is the fault
    """Do it."""
    return str(a)


def context_of_another_type(context: str) -> str:
    """Do it."""
    return context


def context_of_another_name(ctx: ToolContext) -> str:
    """Do it."""
    return ctx.call_id


def stranger(a: str) -> str:  # noqa: D417 - that is the fault
    """Do it.

    Args:
        b: not there
    """
    return a


async def async_generator() -> AsyncIterator[bytes]:
    """Do it."""
    yield b""


def ask_model() -> str:
    """Do it."""
    return ""


def größe() -> str:  # noqa: PLC2401 - that is the fault
    """Do it."""
    return ""


@pytest.mark.parametrize(
    ("function", "cure"),
    [
        (no_docstring, "no docstring; say in one what it does"),
        (only_arguments, "no docstring"),
        (no_annotation, "parameter a has no annotation; write its type"),
        (star_arguments, "name each parameter"),
        (star_star, "name each parameter"),
        (positional, "remove the /"),
        (wrong_default, "the default of a is not of its type"),
        (no_json, "use str, int, float"),
        (no_schema, "use str, int, float"),
        (unresolved, "import what they name"),
        (context_of_another_type, "`context: ToolContext`"),
        (context_of_another_name, "`context: ToolContext`"),
        (stranger, "describes b, which are no parameters"),
        (async_generator, "async generator"),
        (ask_model, "belongs to an activity of every run; rename it"),
        (größe, "letters, digits and underscores; rename it"),
    ],
)
def test_a_wrong_declaration_fails_at_once_and_names_the_cure(function: Callable[..., Any], cure: str) -> None:
    """The error names file and function."""
    with pytest.raises(InputError) as caught:
        tool(effect="read", timeout=SHORT)(function)
    assert f"test_toolbox.py, line {function.__code__.co_firstlineno}, tool {function.__name__}: " in str(caught.value)
    assert cure in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "cure"),
    [
        ({"effect": "delete", "timeout": SHORT}, "use one of read, idempotent_write, write"),
        ({"effect": "read", "timeout": timedelta()}, "above zero"),
        ({"effect": "read", "timeout": 30}, "timedelta"),
        ({"effect": "read", "timeout": SHORT, "approval": "never"}, "use one of auto, ask"),
        ({"effect": "write", "timeout": SHORT, "attempts": 2}, "a write is started once"),
        ({"effect": "read", "timeout": SHORT, "attempts": 0}, "attempts: Input should be greater than"),
        ({"effect": "read", "timeout": SHORT, "at_once": 0}, "at_once: Input should be greater than"),
        ({"effect": "read", "timeout": SHORT, "heartbeat": timedelta()}, "heartbeat must be a timedelta above zero"),
        ({"effect": "read", "timeout": SHORT, "verify": stranger}, "verify is for a write"),
        ({"effect": "write", "timeout": SHORT, "verify": stranger}, "stranger must take the same parameters"),
    ],
)
def test_a_wrong_policy_fails_at_once(declared: dict[str, Any], cure: str) -> None:
    """Effect, timeout and approval are checked where they are declared."""
    with pytest.raises(InputError, match=cure):
        tool(**declared)(star_free)


def star_free() -> None:
    """Do it."""


def test_two_tools_of_one_name_are_refused() -> None:
    """The error names both places."""

    def make() -> Tool[..., Any]:
        @tool(effect="read", timeout=SHORT)
        def visit() -> None:
            """Visit again."""

        return visit

    with pytest.raises(InputError, match=r"two tools are called visit: .*test_toolbox.py, line \d+.* and .*rename one"):
        Toolbox([visit, make()])
    assert Toolbox([visit, visit]).names == ("visit",)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `found_tools` to put modules into."""
    folder = tmp_path / "found_tools"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("found_tools")]:
        del sys.modules[name]


MODULE = """
from datetime import timedelta
from activities.toolbox import tool

@tool(effect="read", timeout=timedelta(seconds=1))
def {name}() -> str:
    "Do it."
    return ""
"""


def test_one_file_and_the_tool_is_there(package: Path) -> None:
    """Without registration; what a module imports from another is not found twice."""
    (package / "one.py").write_text(MODULE.format(name="one"))
    (package / "two.py").write_text("from found_tools.one import one\n" + MODULE.format(name="two"))
    assert Toolbox.discover(["found_tools"]).names == ("one", "two")


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_package", "No module named 'no_such_package'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (MODULE.format(name="one").replace('    "Do it."\n', ""), "bad.py, line 5, tool one: it has no docstring"),
        (MODULE.format(name="commit"), "tool commit: this name belongs"),
    ],
)
def test_a_module_that_fails_to_import_is_named_with_the_cause(package: Path, source: str, cause: str) -> None:
    """The worker does not start with a part of its tools."""
    (package / "bad.py").write_text(source)
    with pytest.raises(InputError, match=r"found_tools\.bad") as caught:
        Toolbox.discover(["found_tools"])
    assert cause in str(caught.value)


def test_a_missing_package_is_named() -> None:
    """As a wrong setting is."""
    with pytest.raises(InputError, match="no_such_package"):
        Toolbox.discover(["no_such_package"])


def test_a_package_without_any_tool_is_refused(package: Path) -> None:
    """A wrong name in the settings would otherwise pass in silence: any package can be imported."""
    (package / "one.py").write_text(MODULE.format(name="one"))
    for name in ("os", "found_tools.one"):
        with pytest.raises(InputError, match=f"tool package {name} has no tool: .* PERDURE_TOOLS"):
            Toolbox.discover(["found_tools", name])


def test_the_tools_that_ship_are_found() -> None:
    """All of them, described in full."""
    toolbox = Toolbox.discover()
    assert {"list_files", "read_file", "search_files", "read_artifact", "search_artifact", "query_artifact"} < set(
        toolbox.names
    )
    assert toolbox.policy("write_report").approval == "ask"
    assert toolbox.policy("write_report").effect == "idempotent_write"
    for name in toolbox.names:
        properties = toolbox.schema(name).parameters["properties"]
        assert all("description" in described for described in properties.values()), name
