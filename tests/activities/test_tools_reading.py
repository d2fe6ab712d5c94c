"""Facts about listing, reading and searching files, and about reports."""

import asyncio
import re
from pathlib import Path

import pytest

from activities.searches import Search, is_simple
from activities.text_files import TextFile
from core.content import INLINE_BYTES
from core.errors import Failed
from tests.activities.calling import Calling

POEM = "".join(f"line {number} of the poem\n" for number in range(1, 501))


async def test_the_list_has_a_line_for_each_file(calling: Calling) -> None:
    """Name, media type, size and handle."""
    sales = await calling.attach("sales.csv", "a,b\n1,2\n")
    notes = await calling.attach("../Über uns.md", "# Wir")
    assert (await calling.text("list_files")).splitlines() == [
        "NAME | MEDIA_TYPE | SIZE | HANDLE",
        f"sales.csv | text/csv | 8 bytes | {sales.handle}",
        f"Über uns.md | text/markdown | 5 bytes | {notes.handle}",
        "(2 files)",
    ]
    assert "sales" not in await calling.text("list_files", {"pattern": "ÜBER*"})
    assert await calling.text("list_files", {"pattern": "*.pdf"}) == "(no file fits '*.pdf'; 2 attached)"


async def test_an_empty_list_says_so(calling: Calling) -> None:
    """It is no error."""
    assert await calling.text("list_files") == "(no files are attached to this run)"


async def test_a_long_list_is_cut_below_the_inline_limit(calling: Calling) -> None:
    """And says how to see the others."""
    for number in range(150):
        await calling.attach(f"file number {number}.csv", f"a,b\n{number},2\n")
    text = await calling.text("list_files")
    assert len(text.encode()) < INLINE_BYTES
    assert "150 files; the first" in text


@pytest.mark.parametrize("tool", ["read_file", "read_artifact"])
async def test_lines_are_numbered_and_the_last_line_says_how_to_read_on(calling: Calling, tool: str) -> None:
    """Page after page until the end, none of them offloaded."""
    await calling.attach("poem.txt", POEM)
    names = {"read_file": "name", "read_artifact": "handle"}
    read: list[str] = []
    first_line = 1
    while True:
        given = {names[tool]: "poem.txt", "first_line": first_line, "lines": 300}
        text = await calling.text(tool, given)
        assert len(text.encode()) < INLINE_BYTES
        *lines, last = text.splitlines()
        read += lines
        more = re.search(r"go on with first_line=(\d+)", last)
        if more is None:
            break
        first_line = int(more[1])
    assert read == [f"{number}: line {number} of the poem" for number in range(1, 501)]
    assert last.endswith("of 500 of poem.txt; the end)")


async def test_a_window_of_lines_is_read(calling: Calling) -> None:
    """Only what was asked for."""
    await calling.attach("poem.txt", POEM)
    text = await calling.text("read_file", {"name": "poem.txt", "first_line": 7, "lines": 2})
    assert text.splitlines()[:2] == ["7: line 7 of the poem", "8: line 8 of the poem"]
    assert text.splitlines()[2] == "(lines 7 to 8 of 500 of poem.txt; go on with first_line=9)"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "poem.txt", "first_line": 501}, "has 500 lines; first_line 501 is behind its end"),
        ({"name": "poem.txt", "first_line": 0}, "count from 1"),
        ({"name": "poem.txt", "lines": -1}, "count from 1"),
        ({"name": "picture.bin"}, "is no text; read_artifact with first_byte"),
        ({"name": "poems.txt"}, "did you mean: poem.txt"),
    ],
)
async def test_what_can_not_be_read_says_why(calling: Calling, arguments: dict[str, object], says: str) -> None:
    """With the cure."""
    await calling.attach("poem.txt", POEM)
    await calling.attach("picture.bin", bytes(range(256)))
    assert says in await calling.failure("read_file", arguments)


async def test_an_empty_file_is_read_as_empty(calling: Calling) -> None:
    """It is no error."""
    await calling.attach("empty.txt", "")
    assert await calling.text("read_file", {"name": "empty.txt"}) == "(empty.txt is empty)"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
async def test_every_encoding_is_read(calling: Calling, encoding: str) -> None:
    """As its preview is."""
    await calling.attach("a.txt", "größer\r\nals\n".encode(encoding))
    text = await calling.text("read_file", {"name": "a.txt"})
    assert text.splitlines()[:2] == ["1: größer", "2: als"]


async def test_one_huge_line_is_cut_and_read_by_bytes(calling: Calling) -> None:
    """A file of a single line can be read, too; no character is torn at a page's end."""
    await calling.attach("one.json", "ü€" * 2500)
    text = await calling.text("read_file", {"name": "one.json"})
    assert "read_artifact with first_byte reads any part" in text
    assert len(text.encode()) < INLINE_BYTES
    read, first_byte = "", 0
    while True:
        given = {"handle": "one.json", "first_byte": first_byte, "byte_count": 1000}
        page, last = (await calling.text("read_artifact", given)).rsplit("\n", 1)
        read += page
        more = re.search(r"go on with first_byte=(\d+)", last)
        if more is None:
            break
        first_byte = int(more[1])
    assert read == "ü€" * 2500


async def test_binary_bytes_are_shown_in_hexadecimal(calling: Calling) -> None:
    """With their place and what of them is text."""
    ref = await calling.attach("a.bin", bytes(range(256)) * 10)
    text = await calling.text("read_artifact", {"handle": ref.handle, "first_byte": 64, "byte_count": 16})
    assert text.splitlines() == [
        "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|",
        "(bytes 64 to 79 of 2,560 of a.bin; go on with first_byte=80)",
    ]
    text = await calling.text("read_artifact", {"handle": ref.handle, "first_byte": 0, "byte_count": 100_000})
    assert len(text.encode()) < INLINE_BYTES
    assert "behind its end" in await calling.failure("read_artifact", {"handle": ref.handle, "first_byte": 2560})


async def test_bytes_that_are_broken_utf8_stay_below_the_limit(calling: Calling) -> None:
    """Replacement characters take more room than what they replace."""
    await calling.attach("a.txt", b"words\n" * 20_000 + b"\xff" * 9000)
    given = {"handle": "a.txt", "first_byte": 120_000, "byte_count": 9000}
    assert len((await calling.text("read_artifact", given)).encode()) < INLINE_BYTES


async def test_an_offloaded_output_is_paged_by_its_handle(calling: Calling) -> None:
    """What a tool returned can be read in parts; the reader's own output is never offloaded."""
    ref = await calling.store("returns-t1c1.txt", "x" * 100 + "\n" + POEM * 100)
    text = await calling.text("read_artifact", {"handle": ref.handle, "first_line": 40_000, "lines": 2})
    assert text.startswith("40000: line ")
    text = await calling.text("search_artifact", {"handle": ref.handle, "pattern": "line 77 "})
    assert "returns-t1c1.txt:78: line 77 of the poem" in text
    assert "(100 matches in 1 file" in text
    assert len(text.encode()) < INLINE_BYTES


async def test_a_search_names_file_and_line(calling: Calling) -> None:
    """In all text files that fit; others are named as left out."""
    await calling.attach("a.md", "one\ntwo cats\nthree\n")
    await calling.attach("b.txt", "a cat\n")
    await calling.attach("c.bin", b"\0cat\0")
    text = await calling.text("search_files", {"pattern": r"\bcats?\b"})
    assert text.splitlines() == [
        "a.md:2: two cats",
        "b.txt:1: a cat",
        "(2 matches in 2 files; 1 file without text left out: c.bin)",
    ]
    assert "b.txt" not in await calling.text("search_files", {"pattern": "cat", "files": "*.md"})
    assert await calling.text("search_files", {"pattern": "dog", "files": "*.md"}) == "(no match)"


async def test_lines_around_a_match_are_shown_once(calling: Calling) -> None:
    """Before and after, as grep does."""
    await calling.attach("a.txt", "1\n2\nx\n4\nx\n6\n7\n8\n")
    text = await calling.text("search_files", {"pattern": "x", "context_lines": 1})
    assert text.splitlines()[:-1] == ["a.txt-2- 2", "a.txt:3: x", "a.txt-4- 4", "a.txt:5: x", "a.txt-6- 6"]


async def test_many_matches_are_counted_and_cut(calling: Calling) -> None:
    """And the model is told to narrow the pattern."""
    await calling.attach("poem.txt", POEM)
    text = await calling.text("search_files", {"pattern": "poem", "context_lines": 2})
    assert len(text.encode()) < INLINE_BYTES
    assert "500 matches in 1 file, the first" in text


async def test_a_match_deep_in_a_huge_line_is_found_and_shown(calling: Calling) -> None:
    """With what is around it, not the whole line."""
    await calling.attach("one.txt", "a" * 200_000 + "needle" + "b" * 200_000)
    text = await calling.text("search_files", {"pattern": "needle"})
    assert "one.txt:1: …a" in text
    assert "needle" in text
    assert len(text) < 1000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pattern": "[a"}, "no regular expression"),
        ({"pattern": ""}, "is empty"),
        ({"pattern": "x" * 2000}, "at most 1,000"),
        ({"pattern": "(" * 900 + ")" * 90}, "no regular expression"),
        ({"pattern": "x", "files": "*.pdf"}, "attached are: a.txt"),
        ({"pattern": "x", "context_lines": 50}, "from 0 to 10"),
    ],
)
async def test_a_search_that_makes_no_sense_says_why(calling: Calling, arguments: dict[str, object], says: str) -> None:
    """A failed result with the cure."""
    await calling.attach("a.txt", "x\n")
    assert says in await calling.failure("search_files", arguments)


@pytest.mark.parametrize("pattern", ["(a+)+$", r"(a|aa)+$", r"(.*a){20}$"])
async def test_a_runaway_pattern_is_stopped_and_the_loop_goes_on(tmp_path: Path, pattern: str) -> None:
    """A pattern that backtracks without end takes its time and no more, and blocks nobody meanwhile."""
    path = tmp_path / "a.txt"
    path.write_text("a" * 5000 + "b\n")
    ticks = 0
    searching = asyncio.create_task(
        asyncio.to_thread(lambda: Search(pattern, seconds=2).over([TextFile(path, "a.txt")]))
    )
    while not searching.done():
        ticks += 1
        await asyncio.sleep(0.01)
    assert ticks > 3
    with pytest.raises(Failed, match="was stopped; use a simpler pattern"):
        await searching


def test_a_search_of_too_much_text_gives_what_it_found(tmp_path: Path) -> None:
    """And says where it stopped."""
    path = tmp_path / "a.txt"
    path.write_text("needle\n" + "hay\n" * 10_000)
    files = [TextFile(path, f"{number}.txt") for number in range(2000)]
    text = Search("(?=needle)", seconds=1).over(files)
    assert text.startswith("0.txt:1: needle")
    assert re.search(r"; stopped after 1 seconds in \d+\.txt at line [\d,]+: search fewer files\)$", text)


@pytest.mark.parametrize(
    ("pattern", "simple"),
    [
        ("needle", True),
        (r"(?i)^ne+(?:ed|x)\w{2,3}\b$", True),
        (r"(?P<a>x)\1", True),
        ("^$", True),
        (r"\Aneedle", False),
        ("(?=needle)", False),
        ("(?<!x)needle", False),
        (r"[^x]*+$", False),
        ("(?>a|ab)c", False),
        ("(?s)a.b", False),
        ("(?:needle){e<=1}", False),
    ],
)
def test_only_patterns_that_can_not_miss_are_tried_on_many_lines_at_once(pattern: str, simple: bool) -> None:
    """Whether a line is looked at alone or among others never changes what is found."""
    assert is_simple(pattern) is simple


@pytest.mark.parametrize(
    "pattern", ["^b$", r"b\s*$", "^$", r"[^a]b?$", "a$", r"(?=^b)", r"\Ab", "(?i)B", r"^\s+x", "a\nb"]
)
def test_a_line_is_found_as_if_it_stood_alone(tmp_path: Path, pattern: str) -> None:
    """The beginning and end of a line are those of a text."""
    lines = ["a", "b", "", "ab", " x", "b ", "ba"] * 3
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    found = re.findall(r"^a\.txt:(\d+):", Search(pattern).over([TextFile(path, "a.txt")]), re.MULTILINE)
    expected = [str(number) for number, line in enumerate(lines, start=1) if re.search(pattern, line)]
    assert found == expected


async def test_a_report_is_an_artifact_of_the_run(calling: Calling) -> None:
    """Named after its title, which also heads it."""
    outcome = await calling.call("write_report", {"title": "Größte Städte: 2026/Q1", "markdown": "Berlin.\0"})
    (ref,) = outcome.artifacts
    assert (ref.name, ref.media_type) == ("größte-städte-2026-q1.md", "text/markdown")
    assert (await calling.bytes_of(ref)).decode() == "# Größte Städte: 2026/Q1\n\nBerlin.\u2400\n"
    assert ref.handle in outcome.content.shown()
    again = await calling.call("write_report", {"title": "../..", "markdown": "# Own heading\n\nText"})
    assert again.artifacts[0].name == "report.md"
    assert (await calling.bytes_of(again.artifacts[0])).decode() == "# Own heading\n\nText\n"


@pytest.mark.parametrize("arguments", [{"title": " \n", "markdown": "x"}, {"title": "x", "markdown": " "}])
async def test_an_empty_report_is_refused(calling: Calling, arguments: dict[str, object]) -> None:
    """With the reason."""
    assert "is empty" in await calling.failure("write_report", arguments)
