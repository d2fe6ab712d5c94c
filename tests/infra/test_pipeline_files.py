"""A pipeline's file is checked as a whole before anything runs: each fault has its line and a cure."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.pipelines.graph import mermaid, tree
from infra.pipeline_files import agents_of, find_pipeline, read_pipeline

HEAD = "name: tested\ndescription: Tested.\ninputs:\n  names: {type: list}\n  topic: {}\nsteps:\n"
GOOD = (
    HEAD
    + """\
- {id: plan, kind: agent, agent: analyst, task: Plan it., select: {topic: inputs.topic}}
- id: look
  kind: for_each
  items: steps.plan.output.questions
  at_once: 3
  steps:
  - {id: one, kind: agent, agent: researcher, task: Answer., select: {question: item}}
  - {id: store, kind: tool, tool: write, select: {text: steps.one.output}, undo: {tool: remove, arguments: {a: 1}}}
- {id: ok, kind: gate, ask: 'Publish it?', show: {answers: steps.look.output}, when: 'length(steps.look.items) > `1`'}
- {id: side, kind: tool, tool: note, needs: []}
"""
)


def problem(text: str, folder: Path) -> str:
    """Return what is said of a file, without its path."""
    path = folder / "tested.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_pipeline(path)
    return str(caught.value).replace(f"{path}:", "")


def test_a_pipeline_is_read_and_drawn(tmp_path: Path) -> None:
    """As a tree for the terminal, and as Mermaid."""
    path = tmp_path / "tested.yaml"
    path.write_text(GOOD)
    pipeline = read_pipeline(path)
    assert tree(pipeline) == [
        "tested",
        "├─ plan      agent analyst",
        "├─ look      for each of steps.plan.output.questions, 3 at once",
        "│  ├─ one    agent researcher",
        "│  └─ store  tool write; undo: remove",
        "├─ ok        gate: Publish it?; when length(steps.look.items) > `1`",
        "└─ side      tool note  (at once)",
    ]
    drawn = mermaid(pipeline).splitlines()
    assert drawn[0] == "flowchart TD"
    assert "  plan --> look" in drawn
    assert '  store -.-> store__undo["undo: remove"]' in drawn
    assert "  one --> store" in drawn


A = "- {id: a, kind: tool, tool: x"
B = "- {id: b, kind: tool, tool: x"
DOUBLED = "|".join(["[inputs.topic, inputs.topic]", *["[@,@]"] * 9])
KINDS = "agent, tool, gate, for_each, parallel"
WRONG = {
    f"{A}, needs: [b]}}": "7: needs: there is no step b; steps beside a: none",
    f"{A}, needs: [b]}}\n{B}, needs: [a]}}": "7: needs: a needs b needs a: a cycle, none of them could ever start",
    "- {id: a, kind: tol, tool: x}": f"7: steps: there is no kind 'tol'; kinds: {KINDS}",
    "- {id: a, tool: x}": f"7: steps: its kind is missing; kinds: {KINDS}",
    f"{A}, tol: x}}": "7: steps.tol: there is no such field; did you mean tool?",
    "- id: a\n  kind: tool": "7: steps.tool: is missing; add it",
    "- id: A-1\n  kind: tool\n  tool: x": "7: steps.id: must be a-z, 0-9 and _, a letter first",
    f"{A},\n  undo: {{tol: x, tool: x}}}}": "8: steps.undo.tol: there is no such field; did you mean tool?",
    f"{A}}}\n{A}}}": "8: id: a is given twice",
    f"- {{id: g, kind: for_each, items: inputs.topic, steps: [{A[2:]}}}]}}": "gives a string, and items must be a list",
    f"{A}, when: 'inputs.names[*].x'}}": "gives a list, and when must be a boolean",
    f"{A}, select: {{t: inputs.topik}}}}": "reads input topik, which is not there; inputs: names, topic",
    f"{A}, select: {{t: steps.b.output}}}}\n{B}}}": "reads step b, which need not have ended by then; add it to its",
    f"{A}}}\n{B}, select: {{t: steps.aa.output}}}}": "8: select.t: step b: 'steps.aa.output' reads step aa, which is",
    f"{A}, select: {{t: item}}}}": "reads item or index, and the step is in no for_each",
    f"{A}, select: {{t: steps}}}}": "reads all steps; name one: steps.NAME",
    f"{A}, select: {{t: 'inputs.['}}}}": "is no JMESPath",
    f"{A}, arguments: {{t: 1}}, select: {{t: inputs.topic}}}}": "t is given and selected",
    "- {id: a, kind: gate, ask: ok, approval: {mode: auto}}": "a gate always asks",
    f"- {{id: g, kind: for_each, items: inputs.names, steps: [{A[2:]}}}]}}\n{B}, select: {{t: steps.a.output}}}}": (
        "reads step a, which is in g; select steps.g.items[*].a"
    ),
    f"{A}, select: {{t: '{DOUBLED}'}}}}": "could repeat its data more than 64 times",
}


@pytest.mark.parametrize(("steps", "said"), WRONG.items())
def test_what_is_wrong_is_said_with_its_line_and_a_cure(steps: str, said: str, tmp_path: Path) -> None:
    """Before anything runs."""
    assert said in problem(HEAD + steps, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "1: it must be fields"),
        ("name: a\nname: b", "2: name is given twice"),
        ("name: &a x\ndescription: *a", "is a YAML alias; write it out"),
        ("name: [", "this is no YAML"),
        ("", "1: it must be fields"),
        ("name: x\ndescription: y", "steps: is missing; add it"),
    ],
)
def test_what_is_no_pipeline_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """Whatever stands in the file."""
    assert said in problem(text, tmp_path)


def test_agents_and_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    """With the line of the step, and what there is."""
    path = tmp_path / "tested.yaml"
    path.write_text(HEAD + "- {id: a, kind: agent, agent: analist, task: x}\n")
    with pytest.raises(InputError, match="step a: there is no agent 'analist'"):
        agents_of(read_pipeline(path), path, Path("agents"))
    with pytest.raises(InputError, match="there is no pipeline 'nothing'"):
        find_pipeline("nothing")
    with pytest.raises(InputError, match="no such file"):
        read_pipeline(tmp_path / "other.yaml")
