"""Agent files: what is accepted, and how clearly everything else is refused."""

from pathlib import Path

import pytest

from core.asking import Asking
from core.errors import InputError
from infra.agent_files import FILE_BYTES, list_agents, load_agent, read_agent

HEADER = "name: one\ndescription: The first.\n"
SHIPPED = Path(__file__).parents[2] / "agents"


def written(folder: Path, text: str | bytes, name: str = "one") -> Path:
    """Write an agent file and return its path."""
    path = folder / f"{name}.md"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problem(folder: Path, text: str | bytes) -> str:
    """Return what is said of a wrong file, without its folder."""
    with pytest.raises(InputError) as caught:
        read_agent(written(folder, text))
    return str(caught.value).replace(f"{folder}/", "")


def test_a_file_has_all_that_an_agent_is(tmp_path: Path) -> None:
    """Front matter becomes the header, the text below the instructions; Windows line ends and a BOM do no harm."""
    text = (
        f"\ufeff---\n{HEADER}tools: [publish]\napproval:\n  publish: ask\nlimits: {{turns: 3}}\n---\n\nDo it.\nWell.\n"
    )
    agent = read_agent(written(tmp_path, text.replace("\n", "\r\n")))
    assert (agent.name, agent.tools, agent.approval) == ("one", ("publish",), {"publish": Asking(mode="ask")})
    assert agent.limits.turns == 3
    assert agent.instructions == "Do it.\nWell."


def test_the_agents_that_ship_are_right() -> None:
    """Analyst and researcher load, and both ask a person before they publish."""
    listing = list_agents(SHIPPED)
    assert not listing.broken
    by_name = {agent.name: agent for agent in listing.agents}
    assert {"analyst", "researcher"} <= set(by_name)
    assert all(by_name[name].approval["write_report"].mode == "ask" for name in ("analyst", "researcher"))


def test_an_unknown_agent_is_answered_with_the_known_and_the_near(tmp_path: Path) -> None:
    """A misspelt name leads to the right one."""
    written(tmp_path, f"---\n{HEADER}---\nDo it.", "one")
    written(tmp_path, f"---\n{HEADER}---\nDo it.", "analyst")
    with pytest.raises(InputError, match=r"no agent 'analist'.*did you mean analyst\? known: analyst, one"):
        load_agent("analist", tmp_path)


@pytest.mark.parametrize("name", ["", "../one", "one.md", "ONE", "a\0b"])
def test_a_name_is_never_a_path(name: str, tmp_path: Path) -> None:
    """Only names of files in the folder are looked up."""
    written(tmp_path, f"---\n{HEADER}---\nDo it.")
    with pytest.raises(InputError, match="there is no agent"):
        load_agent(name, tmp_path)


def test_a_missing_folder_names_the_setting(tmp_path: Path) -> None:
    """Who runs from elsewhere learns how to name the folder."""
    with pytest.raises(InputError, match="set PERDURE_AGENTS_DIR"):
        list_agents(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "one.md:1: the front matter is missing"),
        ("Do it.", "one.md:1: the front matter is missing"),
        (f"---\n{HEADER}", "one.md:1: the front matter does not end"),
        ("---\n---\nDo it.", "one.md:2: the front matter must be fields"),
        ("---\n- a\n---\nDo it.", "one.md:2: the front matter must be fields"),
        ("---\nname: one\ndescription: a: b\n---\nDo it.", "one.md:3: this is no YAML"),
        ("---\nname: one\ndescription: *who\n---\nDo it.", "one.md:3: this is no YAML"),
        (f"---\n{HEADER}name: one\n---\nDo it.", "one.md:4: name is given twice"),
        (f"---\n{HEADER}model: !!python/object:os.system x\n---\nDo it.", "one.md:4: a value can't be read"),
        ("---\nname: one\ndescription: 2024-99-99\n---\nDo it.", "a value can't be read"),
        ("---\n" + "[" * 50_000 + "\n---\nDo it.", "the front matter is no YAML"),
        (f"---\n{HEADER}tool: [publish]\n---\nDo it.", "one.md:4: tool: there is no such field; did you mean tools?"),
        (
            f"---\n{HEADER}limits:\n  turn: 3\n---\nDo it.",
            "one.md:5: limits.turn: there is no such field; did you mean",
        ),
        (
            f"---\n{HEADER}limits:\n  turns: many\n---\nDo it.",
            "one.md:5: limits.turns: must be a whole number, it is",
        ),
        (f"---\n{HEADER}tools: publish\n---\nDo it.", "one.md:4: tools: must be a list, it is 'publish'"),
        (f"---\n{HEADER}approval: {{publish: ask}}\n---\nDo it.", "tools that the agent does not have: publish"),
        (
            f"---\n{HEADER}tools: [p]\napproval: {{p: maybe}}\n---\nDo it.",
            "p.mode: must be 'auto', 'ask' or 'deny'",
        ),
        (f"---\n{HEADER}limits: 3\n---\nDo it.", "one.md:4: limits: must be fields with values, it is 3"),
        (f"---\n{HEADER}model: bogus:x\n---\nDo it.", "one.md:4: model: there is no model 'bogus:x'; known: offline"),
        (f"---\n{HEADER}model: script:/none.yaml\n---\nDo it.", "one.md:4: model: the model 'script:/none.yaml' names"),
        (f"---\n{HEADER}model: [offline, bogus:x]\n---\nDo it.", "one.md:4: model: there is no model 'bogus:x'"),
        (f"---\n{HEADER}model: [offline, 3]\n---\nDo it.", "one.md:4: model.2: must be a text, it is 3"),
        (f"---\n{HEADER}model: [offline, offline]\n---\nDo it.", "model names one twice"),
        (f"---\n{HEADER}model: []\n---\nDo it.", "model is an empty list"),
        (f"---\n{HEADER}on_failure: stop\n---\nDo it.", "one.md:4: on_failure: must be 'pause' or 'fail'"),
        ("---\nname: One\ndescription: d\n---\nDo it.", "one.md:2: name: must be a-z, 0-9, - and _, a letter first"),
        ("---\nname: one\ndescription: ''\n---\nDo it.", "one.md:3: description: must not be empty"),
        ("---\nname: one\n---\nDo it.", "description: is missing"),
        ("---\nname: two\ndescription: d\n---\nDo it.", "one.md:2: name: the agent is called two, its file one.md"),
        (f"---\n{HEADER}---\n \n", "the instructions are empty"),
        (b"---\nname: \xff\n---\nDo it.", "one.md is no UTF-8 text (byte 10)"),
        ("x" * (FILE_BYTES + 1), "an agent file has at most 262,144"),
    ],
)
def test_a_wrong_file_is_told_where_and_how_to_mend_it(text: str | bytes, said: str, tmp_path: Path) -> None:
    """Every fault names the file, the line or the field, and what to do."""
    assert said in problem(tmp_path, text)


def test_an_agent_may_name_several_models(tmp_path: Path) -> None:
    """The first is its model; the others are asked when it fails. One alone may stand in a list, too."""
    written(tmp_path, f"---\n{HEADER}model: [anthropic:a, openai:b]\n---\nDo it.")
    assert load_agent("one", tmp_path).models == ("anthropic:a", "openai:b")
    written(tmp_path, f"---\n{HEADER}model: [offline]\n---\nDo it.")
    assert load_agent("one", tmp_path).models == ("offline",)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    """Two wrong fields are two lines."""
    said = problem(tmp_path, "---\nname: One\ndescription: ''\n---\nDo it.")
    assert [line.split(":")[1] for line in said.splitlines()] == ["2", "3"]


def test_a_wrong_file_does_not_hide_the_others(tmp_path: Path) -> None:
    """The listing has the good agents and the reason why the other is none; a README is no agent."""
    written(tmp_path, f"---\n{HEADER}---\nDo it.")
    written(tmp_path, "nothing", "two")
    written(tmp_path, "About these agents.", "README")
    listing = list_agents(tmp_path)
    assert [agent.name for agent in listing.agents] == ["one"]
    assert [broken.path.name for broken in listing.broken] == ["two.md"]


def test_what_is_no_file_is_told_and_not_left_out(tmp_path: Path) -> None:
    """A link to nothing and a folder, both named like agents, would be missed in silence."""
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.md").mkdir()
    problems = [broken.problem for broken in list_agents(tmp_path).broken]
    assert "folder.md is a folder" in problems[0]
    assert "gone.md can't be read: it is a link to a file that is not there" in problems[1]
    with pytest.raises(InputError, match="is a link to a file that is not there"):
        load_agent("gone", tmp_path)
