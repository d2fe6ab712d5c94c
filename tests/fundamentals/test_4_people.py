"""People: a tool that is marked so waits for a decision."""

from pathlib import Path

from tests.running import FakeModel, Running, calls, says


async def test_a_marked_tool_waits_until_a_person_approves(perdure: Running, model: FakeModel, tmp_path: Path) -> None:
    """The state shows what would run, exactly; a signal lets it run."""
    path = tmp_path / "notes"
    arguments = f'{{"path": "{path}", "text": "hello"}}'
    model.replies = [calls(("note", arguments)), says("Noted.")]

    handle = await perdure.start(tools=["note"], approval={"note": "ask"})
    state = await perdure.until(handle, lambda state: state.phase == "awaiting_approval", "it waits")

    assert state.pending[0].arguments.text == arguments
    assert not path.exists()

    await handle.signal("approve", {"id": state.pending[0].id, "by": "ana"})
    await perdure.result(handle)

    assert path.read_text() == "hello\n"


async def test_a_rejection_is_a_result_that_the_model_reads(perdure: Running, model: FakeModel, tmp_path: Path) -> None:
    """It must not believe that the tool ran."""
    model.replies = [calls(("note", f'{{"path": "{tmp_path}/notes", "text": "hello"}}')), says("Not noted, then.")]

    handle = await perdure.start(tools=["note"], approval={"note": "ask"})
    await perdure.until(handle, lambda state: state.phase == "awaiting_approval", "it waits")
    await handle.signal("reject", {"by": "ana", "reason": "we don't keep notes"})
    await perdure.result(handle)

    assert "rejected by ana: we don't keep notes" in model.requests[1].messages[-1].model_dump()["text"]
