"""Big outputs: at most 4 KiB travel inline, the rest is an artifact with a preview."""

from temporalio.client import WorkflowHistory

from tests.running import FakeModel, Running, calls, says


async def test_a_big_output_is_an_artifact_that_the_model_can_read(perdure: Running, model: FakeModel) -> None:
    """The model gets a handle and a preview, and pages through it with a tool."""

    def read_on(request: object) -> object:
        del request
        shown = model.requests[-1].messages[-1].model_dump()["text"]
        handle = shown.split(", ")[0].removeprefix("artifact ")
        return calls(("read_artifact", f'{{"handle": "{handle}", "first_line": 9000, "lines": 1}}'))

    model.replies = [calls(("letters", '{"count": 1000000}')), read_on, says("Done.")]  # type: ignore[list-item]

    handle = await perdure.start(tools=["letters", "read_artifact"])
    await perdure.result(handle)

    results = [message.model_dump() for message in model.requests[-1].messages if message.role == "tool"]
    assert results[0]["text"].startswith("artifact a:")
    assert "9000" in results[1]["text"]
    assert _bytes(await handle.fetch_history()) < 50_000


def _bytes(history: WorkflowHistory) -> int:
    return sum(event.ByteSize() for event in history.events)
