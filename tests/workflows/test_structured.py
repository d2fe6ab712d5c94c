"""Agents whose final answer is JSON by a schema: it fits, or the model is told, or a person is."""

import json
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from core.steps import AS_JSON, MISTAKES
from tests.running import FakeModel, Running, calls, says

COUNT: dict[str, Any] = {
    "type": "object",
    "properties": {"birds": {"type": "integer"}, "notes": {"type": "string"}},
    "required": ["birds"],
}


@pytest.mark.parametrize("answer", ['{"birds": 42}', '```json\n{"birds": 42}\n```', ' {"birds":\n42}\n'])
async def test_an_answer_that_fits_is_the_runs_output(running: Running, model: FakeModel, answer: str) -> None:
    """As JSON; the model was told of the schema, and what it says beside its calls is no answer."""
    model.replies = [calls(("echo", '{"text": "seven"}'), text="I look."), says(answer)]
    result = await running.result(await running.start(tools=["echo"], output=COUNT))
    assert result.output is not None
    assert json.loads(result.output.text or "") == {"birds": 42}
    assert json.dumps(COUNT, sort_keys=True) in model.requests[0].instructions


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("42 birds.", "it is no JSON"),
        ('{"birds": "42"}', "birds: '42' is not of type 'integer'"),
        ('{"birds": NaN}', "NaN is no number in JSON"),
        ("[" * 100_000, "it is"),
    ],
)
async def test_an_answer_that_does_not_fit_is_told_to_the_model(
    running: Running, model: FakeModel, wrong: str, why: str
) -> None:
    """With the reason; it may mend it."""
    model.replies = [says(wrong), says('{"birds": 42}')]
    result = await running.result(await running.start(output=COUNT))
    told = model.requests[1].messages[-1].text
    assert told.startswith("Your answer does not fit: ")
    assert why in told
    assert told.endswith(AS_JSON)
    assert result.output is not None


async def test_a_long_answer_in_parts_is_one_json(running: Running, model: FakeModel) -> None:
    """Cut at the output limit, gone on with, held against the schema as a whole, kept as an artifact."""
    text = json.dumps({"birds": 42, "notes": "tweet " * 2000})
    model.replies = [says(text[:5000], "length"), says(text[5000:])]
    result = await running.result(await running.start(output=COUNT))
    assert result.output is not None
    assert json.loads(await running.storage().artifacts(result.scope).read_text(result.output)) == json.loads(text)


async def test_a_schema_that_no_answer_can_meet_pauses(running: Running, model: FakeModel) -> None:
    """It says what did not fit; resume lets it try again."""
    model.replies = [says("42") for _ in range(MISTAKES)]
    handle = await running.start(output={"allOf": [{"type": "integer"}, {"type": "string"}]})
    state = await running.until(handle, lambda state: state.phase == "paused", "it is paused")
    assert state.paused == (
        f"{MISTAKES} unusable replies in a row; of the last answer: 42 is not of type 'string'; "
        "resume lets it try again"
    )
    await handle.cancel()


async def test_a_schema_that_is_none_fails_the_run_at_once(running: Running) -> None:
    """Also when it did not come through the starter."""
    with pytest.raises(WorkflowFailureError) as failed:
        await running.result(await running.start(output={"type": "objekt"}))
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InputError"
    assert failed.value.cause.message.startswith("agent tested: output: type: 'objekt' is not valid")
