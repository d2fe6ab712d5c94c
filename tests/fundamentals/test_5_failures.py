"""Failures: what can be repeated is, what can't be mended by itself pauses, and nothing is lost."""

from core.errors import ModelRefused
from tests.running import FakeModel, Running, calls, says


async def test_a_failed_tool_is_told_to_the_model(perdure: Running, model: FakeModel) -> None:
    """After its attempts are used up; the model may try something else."""
    model.replies = [calls(("raises", "{}")), says("I'll do without.")]

    result = await perdure.result(await perdure.start(tools=["raises"]))

    assert result.outcome == "completed"
    assert "the disk is upside down" in model.requests[1].messages[-1].model_dump()["text"]


async def test_a_model_that_cannot_answer_pauses_the_run(perdure: Running, model: FakeModel) -> None:
    """The reason is shown; when it is mended, `resume` goes on where the run stood."""
    model.replies = [calls(("echo", '{"text": "a"}')), ModelRefused("401: no such key; set ANTHROPIC_API_KEY")]

    handle = await perdure.start(tools=["echo"])
    state = await perdure.until(handle, lambda state: state.phase == "paused", "it pauses")
    assert "set ANTHROPIC_API_KEY" in state.paused

    model.replies = [model.replies[0], says("Here I am again.")]
    await handle.signal("resume")
    result = await perdure.result(handle)

    assert (result.outcome, result.calls) == ("completed", {"echo": 1})
