"""What is checked before anything is started: task, attachments, id, model, size."""

import os
from pathlib import Path

import pytest

from core.agents import AgentFile, PinnedAgent
from core.content import NAME_CHARACTERS, ArtifactRef, inline
from core.errors import InputError
from core.runs import ATTACHMENTS, START_BYTES, AgentInput
from infra.attachments import PREVIEW_BYTES, check_attachments
from infra.launch import details, fitted, make_order
from infra.model_names import PREFIXES, check_model
from infra.providers import PROVIDERS
from infra.runs import check_run_id

AGENT = AgentFile(name="one", description="The first.", instructions="Do it.")


def filled(path: Path, text: str = "a,b\n1,2\n") -> Path:
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("task", ["", " \n\t"])
def test_an_empty_task_is_refused(task: str) -> None:
    """An agent without a task would only cost money."""
    with pytest.raises(InputError, match="the task is empty"):
        make_order(AGENT, task)


def test_a_task_that_no_model_reads_is_refused() -> None:
    """What is longer than 2 MiB belongs into an attachment."""
    with pytest.raises(InputError, match="attach it as a file"):
        make_order(AGENT, "x" * 3_000_000)


def test_bad_attachments_are_all_named(tmp_path: Path) -> None:
    """A missing file, a folder, an empty one and a pipe are told in one message, each with its reason."""
    (tmp_path / "empty.csv").touch()
    os.mkfifo(tmp_path / "pipe")
    names = ["none.csv", "empty.csv", "pipe", "bad\0name"]
    with pytest.raises(InputError) as caught:
        check_attachments([tmp_path, *(tmp_path / name for name in names), filled(tmp_path / "good.csv")])
    said = str(caught.value)
    for reason in ("is missing", "is a folder", "is empty", "is no regular file", "can't be read"):
        assert reason in said
    assert "good.csv" not in said


def test_attachments_have_safe_names_that_differ(tmp_path: Path) -> None:
    """Spaces and umlauts stay, folders go, and what would be the same name on any system gets a number."""
    paths = [
        filled(tmp_path / "Größe 1.csv"),
        filled(tmp_path / "a" / "größe 1.csv"),
        filled(tmp_path / "b" / "Gro\u0308ße 1.csv"),
        tmp_path / "a" / ".." / "Größe 1.csv",
    ]
    names = [attachment.name for attachment in check_attachments(paths)]
    assert names == ["Größe 1.csv", "größe 1-2.csv", "Größe 1-3.csv", "Größe 1-4.csv"]


def test_a_long_name_stays_within_its_bound_with_a_number(tmp_path: Path) -> None:
    """Two files with the longest name differ in the end of theirs."""
    paths = [filled(tmp_path / folder / f"{'n' * 180}.csv") for folder in ("a", "b")]
    names = [attachment.name for attachment in check_attachments(paths)]
    assert len(set(names)) == 2
    assert all(len(name) <= NAME_CHARACTERS for name in names)


def test_too_many_attachments_are_refused(tmp_path: Path) -> None:
    """One more than a run takes is told with the number."""
    with pytest.raises(InputError, match=f"a run takes {ATTACHMENTS}"):
        check_attachments([tmp_path / "one.csv"] * (ATTACHMENTS + 1))


@pytest.mark.parametrize(
    "run", ["", "  ", " a", "a\nb", "a\0", "\ud800", "x" * 201, "-x", "--json", "a\u202eb", "a\u200bb"]
)
def test_an_id_that_can_not_be_typed_is_refused(run: str) -> None:
    """Ids are typed and shown: nothing endless or unseen, and nothing that is taken for an option."""
    with pytest.raises(InputError, match="id"):
        check_run_id(run)


def test_a_made_up_id_begins_with_the_agent() -> None:
    """Two orders get different, readable ids."""
    first, second = make_order(AGENT, "Do it."), make_order(AGENT, "Do it.")
    assert first.id.startswith("one-")
    assert first.id != second.id


def test_a_script_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers run in other folders; a script that is not there is refused."""
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "replies.yaml")
    assert check_model("script:replies.yaml") == f"script:{tmp_path / 'replies.yaml'}"
    assert check_model("anthropic:some-model") == "anthropic:some-model"
    for name in ("script:none.yaml", f"script:{tmp_path}/none.yaml", f"script:{tmp_path}", "script:a\0b"):
        with pytest.raises(InputError, match="names no file"):
            check_model(name)
    with pytest.raises(InputError, match="the model is empty"):
        check_model(" ")


@pytest.mark.parametrize("name", ["bogus", "bogus:foo", "anthropic", "anthropic:", "Offline", "offline:x", "script:"])
def test_a_model_that_there_is_not_is_refused_with_the_known_ones(name: str) -> None:
    """A run keeps its model, so a mistyped one could never be mended."""
    with pytest.raises(InputError, match=r"there is no model .*known: offline, script:FILE, anthropic:NAME"):
        check_model(name)


def test_the_models_that_are_known_here_are_those_of_the_workers() -> None:
    """The starter loads no provider, so it has a list of its own."""
    assert set(PREFIXES) == set(PROVIDERS)


def test_200_attachments_fit_into_a_start_input_and_more_text_is_refused() -> None:
    """The worst names and previews still fit, if need be without previews; what does not is refused with its size."""
    reference = ArtifactRef(
        sha256="0" * 64,
        size_bytes=10**12,
        media_type="m" * 120,
        name="ä" * NAME_CHARACTERS,
        detail="d" * 120,
        preview="\t" * PREVIEW_BYTES,
    )
    agent = PinnedAgent(name="one", description="d", instructions=inline("Do it."))
    start = AgentInput(agent=agent, task=inline("Do it."), attachments=(reference,) * ATTACHMENTS)
    assert len(fitted(start).model_dump_json().encode()) <= START_BYTES
    worse = reference.model_copy(update={"name": "\t" * 5000, "preview": "\t" * 5000})
    with pytest.raises(InputError, match="attach fewer files"):
        fitted(start.model_copy(update={"attachments": (worse,) * ATTACHMENTS}))


def test_the_temporal_ui_shows_task_and_commands_and_stays_short() -> None:
    """What a person sees there is Markdown of bounded length, whatever the task holds."""
    order = make_order(AGENT, "Look ~~~~ here.\n" * 5000, run="it's")
    shown = details(order)
    assert "python starter.py watch 'it'\"'\"'s'" in shown
    assert len(shown.encode()) < 20_000
    assert shown.count("~~~~") == 2
