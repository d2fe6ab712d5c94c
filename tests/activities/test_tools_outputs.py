"""Facts about what tools return: what is inline, what becomes an artifact, what is listed as made on purpose."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from activities.tool_context import ToolContext, ToolOutput
from activities.toolbox import Toolbox, tool
from core.content import INLINE_BYTES, ArtifactRef
from tests.activities.calling import Calling
from tests.activities.made import SHORT, returning


class Point(BaseModel):
    """A result as a pydantic model."""

    x: float
    name: str


@dataclass
class Day:
    """A result as a dataclass."""

    on: date
    data: bytes = b""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("words", "words"),
        ("", "(empty)"),
        (None, "(nothing returned)"),
        (7, "7"),
        (0.5, "0.5"),
        (True, "true"),
        ([1, "zwei"], '[1, "zwei"]'),
        ([], "[]"),
        ({"a": {1: None}}, '{"a": {"1": null}}'),
        ({"a": float("nan")}, '{"a": null}'),
        (Point(x=1, name="ü"), '{"x": 1.0, "name": "ü"}'),
        (Day(date(2026, 1, 2)), '{"on": "2026-01-02", "data": ""}'),
        ("before \ud800 after", "before \ufffd\ufffd\ufffd after"),
        ("a\0b", "a\u2400b"),
        ({"\ud800": "\0"}, '{"\ufffd\ufffd\ufffd": "\u2400"}'),
    ],
)
async def test_a_short_result_is_inline_and_clean(calling: Calling, value: object, text: str) -> None:
    """Text, numbers, data and nothing."""
    calling.toolbox = Toolbox([returning(value)])
    outcome = await calling.call("returns")
    assert outcome.content.text == text
    assert not outcome.failed
    assert outcome.artifacts == ()
    assert outcome.attempt == 1
    assert outcome.seconds >= 0


@pytest.mark.parametrize("value", ["0123456789abcde\n" * 196_608, ["x" * 100] * 30_000, "ü" * 3000])
async def test_a_long_text_is_offloaded_with_a_preview_and_not_listed(calling: Calling, value: object) -> None:
    """It is no artifact that the tool made on purpose."""
    calling.toolbox = Toolbox([returning(value)])
    outcome = await calling.call("returns")
    assert outcome.artifacts == ()
    assert outcome.content.artifact is not None
    assert outcome.content.artifact.name.startswith("returns-t1c1.")
    assert outcome.content.artifact.preview
    assert len(outcome.model_dump_json()) < INLINE_BYTES
    stored = await calling.bytes_of(outcome.content.artifact)
    assert hashlib.sha256(stored).hexdigest() == outcome.content.artifact.sha256


def some_chunks() -> Iterator[bytes]:
    """Yield bytes."""
    yield b"\0\1"
    yield b"\2\3"


@pytest.mark.parametrize(
    ("value", "name", "media_type", "data"),
    [
        (bytes(range(256)), "returns-t1c1", "application/octet-stream", bytes(range(256))),
        (bytearray(b"text"), "returns-t1c1", "text/plain", b"text"),
        (b"", "returns-t1c1", "text/plain", b""),
        (some_chunks(), "returns-t1c1", "application/octet-stream", b"\0\1\2\3"),
        (ToolOutput("# Hi", "../a b/Größe.md", "text/markdown"), "Größe.md", "text/markdown", b"# Hi"),
        (ToolOutput("\ud800", "x.txt"), "x.txt", "text/plain", b"\xef\xbf\xbd" * 3),
        (ToolOutput(iter([b"a,b\n", b"1,2\n"]), "x.csv"), "x.csv", "text/csv", b"a,b\n1,2\n"),
    ],
)
async def test_what_a_tool_makes_on_purpose_is_a_listed_artifact(
    calling: Calling, value: object, name: str, media_type: str, data: bytes
) -> None:
    """Of any size, with a safe name."""
    calling.toolbox = Toolbox([returning(value)])
    outcome = await calling.call("returns")
    ref = outcome.content.artifact
    assert ref is not None
    assert outcome.artifacts == (ref,)
    assert (ref.name, ref.media_type) == (name, media_type)
    assert await calling.bytes_of(ref) == data


async def test_a_file_is_streamed_into_an_artifact(calling: Calling, tmp_path: Path) -> None:
    """A path is a result; the file stays where it is."""
    path = tmp_path / "made.bin"
    path.write_bytes(b"\0" * 20_000_000)
    calling.toolbox = Toolbox([returning(path)])
    outcome = await calling.call("returns")
    assert outcome.artifacts[0].name == "made.bin"
    assert outcome.artifacts[0].size_bytes == 20_000_000
    assert path.exists()


async def test_a_reference_that_a_tool_stored_is_a_result(calling: Calling) -> None:
    """A sync tool reaches the store through `context.wait`."""

    @tool(effect="read", timeout=SHORT)
    def stores(*, context: ToolContext) -> ArtifactRef:
        """Store something."""
        return context.wait(context.artifacts.store_bytes(b"kept", "kept.txt"))

    calling.toolbox = Toolbox([stores])
    outcome = await calling.call("stores")
    assert outcome.artifacts[0].name == "kept.txt"
    assert await calling.bytes_of(outcome.artifacts[0]) == b"kept"


async def test_several_artifacts_are_listed_by_what_they_are(calling: Calling) -> None:
    """A list of results made on purpose is one result."""
    calling.toolbox = Toolbox([returning([ToolOutput("a", "a.txt"), b"\0"])])
    outcome = await calling.call("returns")
    assert [ref.name for ref in outcome.artifacts] == ["a.txt", "returns-t1c1-2"]
    assert outcome.content.text is not None
    assert outcome.artifacts[0].handle in outcome.content.text


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: 1,
        iter(["text"]),
        Path("no/such/file"),
        ToolOutput(7, "x"),  # type: ignore[arg-type] # that is the fault
        [b""] * 21,
    ],
)
async def test_a_result_of_no_kind_is_an_error_that_names_the_kinds(calling: Calling, value: object) -> None:
    """A fault of the tool's author, not of the model."""
    calling.toolbox = Toolbox([returning(value)])
    with pytest.raises(ApplicationError) as caught:
        await calling.call("returns")
    assert caught.value.type == "TypeError"
