"""Other arguments for a call, approvals taken back, tools allowed for some arguments: in real runs."""

import json
from pathlib import Path

from core.asking import Asking
from core.chat import ToolMessage
from core.content import Content
from core.entries import Decided, Refused
from tests.running import FakeModel, Running, calls, says
from tests.workflows.test_steering import entries_of

LONG = "x" * 300_000


def note(path: Path, text: str) -> tuple[str, str]:
    """A call of `note`."""
    return "note", json.dumps({"path": str(path), "text": text})


async def test_an_edited_call_runs_as_a_person_wrote_it_and_the_model_knows(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """What does not fit the tool is refused first, and the call waits on."""
    model.replies = [calls(note(tmp_path / "a", "proposed")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    await handle.execute_update("approve", {"id": "t1c1", "by": "eve", "arguments": {"text": 5, "where": "x"}})
    state = await running.until(handle, lambda state: len(state.acts) == 2, "it is refused")
    refused = state.acts[-1].entry
    assert isinstance(refused, Refused)
    assert refused.why.startswith("the other arguments for t1c1 by eve: ")
    assert [call.id for call in state.pending] == ["t1c1"]
    arguments = {"path": str(tmp_path / "a"), "text": "edited"}
    await handle.execute_update("approve", {"by": "eve", "arguments": arguments, "reason": "shorter"})
    result = await running.result(handle)
    assert (tmp_path / "a").read_text() == "edited\n"
    told = model.requests[-1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert all(part in told.text for part in ("eve", "shorter", '"text": "edited"', "noted"))
    (decided,) = (entry for entry in await entries_of(running, result) if isinstance(entry, Decided))
    assert decided.call is not None
    assert json.loads(decided.call.arguments.text or "") == arguments


async def test_arguments_of_any_length_come_as_an_artifact(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """And one that is not there is refused: the run does not wait for it."""
    model.replies = [calls(note(tmp_path / "a", "proposed")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    artifacts = running.storage().artifacts(handle.id)
    text = json.dumps({"path": str(tmp_path / "a"), "text": LONG})
    stored = await artifacts.store_text(text, "arguments.json", "application/json")
    assert stored.artifact is not None
    missing = Content(artifact=stored.artifact.model_copy(update={"sha256": "0" * 64}))
    await handle.signal("approve", {"content": missing.model_dump(mode="json")})
    state = await running.until(handle, lambda state: len(state.acts) == 2, "it is refused")
    assert "they can't be read" in state.recent[-1]
    await handle.signal("approve", {"content": stored.model_dump(mode="json")})
    await running.result(handle)
    assert (tmp_path / "a").read_text() == LONG + "\n"


async def test_an_approval_is_taken_back_before_the_call_begins(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """While the run is paused nothing begins; what is shown as approved can be revoked, and waits again."""
    model.replies = [calls(note(tmp_path / "a", "proposed")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": Asking(approvers=("eve", "ben"))})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    await handle.signal("pause")
    await handle.execute_update("approve", {"by": "eve"})
    assert [call.id for call in (await running.state(handle)).approved] == ["t1c1"]
    details = (await handle.query("__temporal_workflow_metadata")).current_details
    assert f"python starter.py revoke {handle.id} t1c1" in details
    await handle.execute_update("revoke", {"by": "ben", "reason": "not today"})
    await handle.signal("resume")
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", "it waits again")
    assert not (tmp_path / "a").exists()
    await handle.execute_update("reject", {"by": state.pending[0].approvers[0]})
    assert (await running.result(handle)).calls == {}


async def test_a_tool_allowed_for_some_arguments_is_asked_for_with_others(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """Until that is taken back."""
    turns = [calls(note(tmp_path / name, "text")) for name in ("a1", "a2", "b", "a3")]
    model.replies = [*turns, says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    await handle.signal("approve", {"scope": "run", "only": {"path": f"{tmp_path}/a*"}})
    state = await running.until(handle, lambda state: state.turn == 3 and bool(state.pending), "b waits")
    assert state.allowed == (f"note with path={tmp_path}/a*",)
    await handle.execute_update("revoke", {"tool": "note"})
    await handle.signal("reject", {"id": "t3c1"})
    await running.until(handle, lambda state: state.turn == 4 and bool(state.pending), "a3 waits")
    await handle.signal("approve")
    await running.result(handle)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a1", "a2", "a3"]
