"""Facts about the workspace: attachments as local files, verified, under safe names, from a bounded cache."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.tool_context import ToolContext
from activities.toolbox import Toolbox, tool
from activities.workspace import FILE_NAME_BYTES, safe_names, sweep
from core.content import ArtifactRef
from core.scopes import artifact_key
from tests.activities.calling import RUN, Calling
from tests.activities.made import SHORT


async def with_context(calling: Calling, act: Callable[[ToolContext], Awaitable[Any]]) -> Any:
    """Run something as a tool would."""
    results: list[Any] = []

    @tool(effect="read", timeout=SHORT)
    async def acts(*, context: ToolContext) -> None:
        """Act."""
        results.append(await act(context))

    calling.toolbox = Toolbox([acts])
    outcome = await calling.call("acts")
    return outcome.content.text if outcome.failed else results[0]


async def test_attachments_are_files_of_the_workspace(calling: Calling) -> None:
    """Under their names, with their bytes."""
    await calling.attach("a b.csv", "a,b\n")
    await calling.attach("Größe.md", "# Größe")

    async def look(context: ToolContext) -> list[tuple[str, str, str]]:
        folder = await context.workspace.folder()
        files = await context.workspace.files()
        assert all(path.parent == folder for path, _ in files)
        return [(path.name, path.read_text(), ref.name) for path, ref in files]

    assert await with_context(calling, look) == [("a b.csv", "a,b\n", "a b.csv"), ("Größe.md", "# Größe", "Größe.md")]


@pytest.mark.parametrize(
    ("names", "safe"),
    [
        (["../../etc/passwd", "/etc/passwd", "..\\passwd"], ["passwd", "passwd-2", "passwd-3"]),
        (["..", "", ".", "/", "\0"], ["unnamed", "unnamed-2", "unnamed-3", "unnamed-4", "\u2400"]),
        (["a.csv", "A.CSV", "a-2.csv"], ["a.csv", "A-2.CSV", "a-2-2.csv"]),
        (["u\u0308.md", "ü.md"], ["u\u0308.md", "ü-2.md"]),
        ([".bashrc", "a\nb.txt", "~"], ["bashrc", "a b.txt", "~"]),
    ],
)
def test_names_are_safe_and_no_two_alike(names: list[str], safe: list[str]) -> None:
    """One path segment each, on any file system."""
    assert safe_names(names) == safe


def test_a_long_name_keeps_its_suffix() -> None:
    """In bytes, as file systems count."""
    for name in ("漢" * 119 + ".csv", "x." + "漢" * 110):
        (safe,) = safe_names([name])
        assert len(safe.encode()) <= FILE_NAME_BYTES + 4
    assert safe_names(["漢" * 110 + ".csv"])[0].endswith("….csv")


async def test_an_artifact_is_found_by_name_or_handle(calling: Calling) -> None:
    """Upper and lower case alike; a made artifact only by its handle."""
    attached = await calling.attach("Sales 2026.csv", "a,b\n1,2\n")
    made = await calling.store("made.txt", "made")

    async def look(context: ToolContext) -> list[str]:
        wanted = ["sales 2026.CSV", attached.handle, attached.sha256, made.handle, made.handle.upper()]
        return [(await context.workspace.local(name)).read_text() for name in wanted]

    assert await with_context(calling, look) == ["a,b\n1,2\n"] * 3 + ["made"] * 2


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("sale.csv", "did you mean: sales.csv"),
        ("../sales.csv", "did you mean: sales.csv"),
        ("/etc/passwd", "attached are: sales.csv, notes.md"),
        ("a:3f9c", "no file 'a:3f9c'"),
        ("a:3f9c21d04b7e", "no artifact a:3f9c21d04b7e in this run"),
        ("", "no file ''"),
        ("x\ud800\0" * 100_000, "no file"),
    ],
)
async def test_what_names_no_file_says_what_there_is(calling: Calling, wanted: str, says: str) -> None:
    """A failed result, never a file from somewhere else."""
    await calling.attach("sales.csv", "a,b\n")
    await calling.attach("notes.md", "notes")
    text = await with_context(calling, lambda context: context.workspace.local(wanted))
    assert says in text
    assert len(text.encode()) < 1500


async def test_a_handle_that_fits_several_artifacts_asks_for_more(calling: Calling) -> None:
    """It is never resolved by chance."""
    for end in "01":
        key = artifact_key(RUN.scope, "3f9c21d04b7e" + end * 52)
        await calling.memory.put(key, b"", sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    text = await with_context(calling, lambda context: context.workspace.local("a:3f9c21d04b7e"))
    assert "give more digits" in text


async def test_a_run_without_attachments_says_so(calling: Calling) -> None:
    """There is nothing to guess at."""
    text = await with_context(calling, lambda context: context.workspace.local("x.csv"))
    assert text == "no file 'x.csv': nothing is attached to this run"


async def test_a_file_is_downloaded_once_for_all_calls(calling: Calling) -> None:
    """Also when many want it at the same time."""
    ref = await calling.attach("a.csv", "a,b\n1,2\n")

    async def look(context: ToolContext) -> None:
        await asyncio.gather(*(context.workspace.local("a.csv") for _ in range(5)), context.workspace.folder())

    gets = calling.memory.gets
    await with_context(calling, look)
    await with_context(calling, look)
    downloads = calling.memory.gets - gets
    assert downloads == 1
    assert (calling.folder / "cache" / "artifacts" / ref.sha256).exists()


async def test_a_file_that_someone_wrote_to_is_downloaded_again(calling: Calling) -> None:
    """What a tool gets has the bytes that its reference names."""
    await calling.attach("a.csv", "a,b\n1,2\n")

    async def spoil(context: ToolContext) -> None:
        ((path, _),) = await context.workspace.files()
        path.chmod(0o644)
        path.write_text("a,b\n9,9\n")

    async def look(context: ToolContext) -> list[str]:
        ((path, _),) = await context.workspace.files()
        return [path.read_text(), (await context.workspace.local("a.csv")).read_text()]

    await with_context(calling, spoil)
    assert await with_context(calling, look) == ["a,b\n1,2\n"] * 2


async def test_a_link_in_the_place_of_a_file_is_replaced(calling: Calling, tmp_path: Path) -> None:
    """No name of the workspace leads out of it."""
    await calling.attach("a.csv", "a,b\n")
    outside = tmp_path / "outside.csv"
    outside.write_text("a,b\n")

    async def look(context: ToolContext) -> str:
        ((path, _),) = await context.workspace.files()
        path.unlink()
        path.symlink_to(outside)
        ((again, _),) = await context.workspace.files()
        assert not again.is_symlink()
        return again.read_text()

    assert await with_context(calling, look) == "a,b\n"
    assert outside.read_text() == "a,b\n"


async def test_the_cache_is_bounded_and_keeps_what_is_in_use(calling: Calling) -> None:
    """The least recently used goes first; a tool that reads it keeps its file."""
    calling.cache_bytes = 250_000
    refs = [await calling.attach(f"{number}.bin", bytes([number]) * 100_000) for number in range(4)]

    async def look(context: ToolContext) -> list[Path]:
        await context.workspace.local("0.bin")
        await context.workspace.local("1.bin")
        await context.workspace.local_copy(refs[0])
        paths = [await context.workspace.local(f"{number}.bin") for number in (2, 3, 1)]
        assert [path.stat().st_size for path in paths] == [100_000] * 3
        return paths

    await with_context(calling, look)
    kept = sorted((calling.folder / "cache" / "artifacts").iterdir())
    assert sum(path.stat().st_size for path in kept) <= 250_000
    assert {path.name for path in kept} <= {ref.sha256 for ref in refs}


async def test_a_file_larger_than_the_cache_is_read_all_the_same(calling: Calling) -> None:
    """The bound is of the cache, not of files."""
    calling.cache_bytes = 10
    await calling.attach("a.csv", "a,b\n1,2\n3,4\n")

    async def look(context: ToolContext) -> str:
        return (await context.workspace.local("a.csv")).read_text()

    assert await with_context(calling, look) == "a,b\n1,2\n3,4\n"
    assert list((calling.folder / "cache" / "artifacts").iterdir()) == []


@pytest.mark.parametrize(("fault", "kind"), [("missing", "BlobMissing"), ("altered", "BlobCorrupt")])
async def test_a_lost_or_damaged_attachment_pauses_the_run(calling: Calling, fault: Any, kind: str) -> None:
    """Nothing of it reaches a tool, and nothing is left behind."""
    await calling.attach("a.csv", "a,b\n1,2\n")
    calling.blobs.fail("stream", fault)
    with pytest.raises(ApplicationError) as caught:
        await with_context(calling, lambda context: context.workspace.local("a.csv"))
    assert caught.value.type == kind
    assert caught.value.non_retryable
    assert "a.csv" in caught.value.message or kind == "BlobMissing"
    assert list((calling.folder / "cache" / "artifacts").iterdir()) == []


async def test_the_scope_is_no_path(calling: Calling) -> None:
    """A workflow id may be any text."""
    await calling.attach("a.csv", "a,b\n")
    await with_context(calling, lambda context: context.workspace.folder())
    (workspace,) = (calling.folder / "workspaces").iterdir()
    assert workspace.name.startswith("a-run-")


def test_folders_that_nobody_uses_are_swept(tmp_path: Path) -> None:
    """They hold only what can be made again; what is in use stays."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    long_ago = time.time() - 10 * 24 * 3600
    os.utime(tmp_path / "old", (long_ago, long_ago))
    sweep(tmp_path, unused_days=7)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    sweep(tmp_path / "not there", unused_days=7)


async def test_a_reference_of_the_run_needs_no_name(calling: Calling) -> None:
    """A tool that has a reference gets its file."""
    ref = await calling.store("x", "words")

    async def look(context: ToolContext) -> tuple[ArtifactRef, str]:
        return await context.workspace.reference(ref.handle), (await context.workspace.local_copy(ref)).read_text()

    found, text = await with_context(calling, look)
    assert (found.sha256, text) == (ref.sha256, "words")
