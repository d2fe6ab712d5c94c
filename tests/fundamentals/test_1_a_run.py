"""A run: an agent, a task, turns of model and tools, a result."""

from tests.running import FakeModel, Running, calls, says


async def test_a_run_ends_with_the_models_answer(perdure: Running, model: FakeModel) -> None:
    """A reply without tool calls is the answer, and the run is complete."""
    model.replies = [says("Paris.")]

    handle = await perdure.start(task="What is the capital of France?")
    result = await perdure.result(handle)

    assert result.outcome == "completed"
    assert result.text.text == "Paris."


async def test_the_model_calls_tools_and_sees_what_they_return(perdure: Running, model: FakeModel) -> None:
    """A turn is one model call and the tool calls it asked for; then the model is asked again."""
    model.replies = [calls(("echo", '{"text": "hello"}')), says("The echo said hello.")]

    result = await perdure.result(await perdure.start(tools=["echo"]))

    assert result.turns == 2
    assert result.calls == {"echo": 1}
    assert model.requests[1].messages[-1].model_dump()["text"] == "hello"
