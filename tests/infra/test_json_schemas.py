"""Schemas of final answers: which can be used, what is wrong with an answer, and where an agent's file has them."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from infra.agent_files import load_agent
from infra.json_schemas import JsonSchemas

COUNT = {"type": "object", "properties": {"birds": {"type": "integer"}}, "required": ["birds"]}
HEADER = "name: one\ndescription: The first.\n"


@pytest.mark.parametrize(
    ("schema", "answer", "said"),
    [
        (COUNT, {"birds": 42}, ""),
        (COUNT, {"birds": "42"}, "birds: '42' is not of type 'integer'"),
        (COUNT, {}, "'birds' is a required property"),
        (COUNT, [], "[] is not of type 'object'"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"minimum": 3}}}, 2, "2 is less than the minimum of 3"),
        ({"pattern": "^[a-z]+$"}, "A", "'A' does not match"),
        ({"pattern": "^(a|a|aa)+$"}, "a" * 60 + "b", "takes too long"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]},
            [1],
            "0: 1 is not of type",
        ),
        ({"not": {}}, 1, "should not be valid under"),
    ],
)
def test_an_answer_fits_or_the_model_reads_why_not(schema: dict[str, Any], answer: object, said: str) -> None:
    """With the place; bounded in length and time."""
    JsonSchemas().check(schema)
    problem = JsonSchemas().problem(schema, answer)
    assert said in problem
    assert bool(problem) == bool(said)
    assert len(problem) <= 500


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("{type: objekt}", "one.md:4: output: type: 'objekt' is not valid"),
        ("{$schema: 'http://there.is.none/x'}", "there is no draft"),
        ("{$ref: 'http://169.254.169.254/latest'}", "$ref 'http://169.254.169.254/latest' leads nowhere in the schema"),
        ("{$ref: '#/$defs/none'}", "leads nowhere in the schema; put it under $defs"),
        ("{const: 2024-01-01}", "is no JSON"),
        ("[]", "must be a JSON Schema"),
        ("none.json", "there is no file"),
        ("broken.json", "broken.json can't be read as JSON or YAML"),
        ("wrong.json", "wrong.json: required: 'birds' is not of type 'array'"),
    ],
)
def test_a_wrong_schema_is_told_with_file_and_cure(output: str, said: str, tmp_path: Path) -> None:
    """Before anything starts; nothing is fetched."""
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "wrong.json").write_text('{"required": "birds"}')
    (tmp_path / "one.md").write_text(f"---\n{HEADER}output: {output}\n---\nDo it.")
    with pytest.raises(InputError) as raised:
        load_agent("one", tmp_path)
    assert said in str(raised.value)


def test_a_schema_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Beside the agent's; the run keeps what stood there when it was started."""
    (tmp_path / "count.json").write_text('{"type": "integer"}')
    (tmp_path / "one.md").write_text(f"---\n{HEADER}output: count.json\n---\nDo it.")
    assert load_agent("one", tmp_path).output == {"type": "integer"}
