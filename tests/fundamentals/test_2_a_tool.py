"""A tool: one file, one decorator. The listing is the one that the README shows."""

from pathlib import Path

from activities.toolbox import Toolbox
from tests.running import FakeModel, Running, calls, says


def test_a_tool_is_found_by_its_file() -> None:
    """Name, description and arguments come from the function; nothing is registered anywhere."""
    toolbox = Toolbox.discover(("tests.tools",))

    schema = toolbox.schema("word_count")

    assert schema.description.startswith("Count the words")
    assert list(schema.parameters["properties"]) == ["name"]


async def test_a_tool_works_on_the_files_of_the_run(perdure: Running, model: FakeModel, tmp_path: Path) -> None:
    """Attachments are in blob storage; on whichever worker a tool runs, they are there."""
    document = tmp_path / "speech.txt"
    document.write_text("four score and seven years ago")
    attached = await perdure.storage().artifacts("speech").store_file(document, document.name)
    model.replies = [calls(("word_count", '{"name": "speech.txt"}')), says("It has six words.")]

    handle = await perdure.start(tools=["word_count"], attachments=[attached], run_id="speech")
    await perdure.result(handle)

    assert model.requests[1].messages[-1].model_dump()["text"] == "6 words"


def test_the_readme_shows_this_very_tool() -> None:
    """What newcomers copy is what is tested."""
    assert Path("tests/tools/word_count.py").read_text() in Path("README.md").read_text()
