"""What people do to a run, by signals, on the real server."""

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import CancelledError

from core.chat import ToolMessage
from core.entries import Closed
from core.errors import ModelRefused, ModelUnavailable
from core.ports import BlobStore
from infra.settings import Settings
from tests.fakes import BrokenBlobStore
from tests.running import FakeModel, Running, calls, says, worker_for

NOTE = ("note", '{"path": "PATH", "text": "hello"}')


def note(path: object) -> tuple[str, str]:
    """A call of tool `note`, which writes to a file."""
    return ("note", NOTE[1].replace("PATH", str(path)))


@pytest.mark.parametrize("act", [{"id": "t1c1", "by": "ana"}, {}, None, "t1c1"])
async def test_an_approved_call_runs_once(running: Running, model: FakeModel, tmp_path: object, act: object) -> None:
    """The state shows what waits with its exact arguments; the id may be left out when only one waits."""
    path = f"{tmp_path}/notes"
    model.replies = [calls(note(path)), says("Noted.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
    assert [(pending.id, pending.tool) for pending in state.pending] == [("t1c1", "note")]
    assert state.pending[0].arguments.text == note(path)[1]
    await handle.signal("approve", act)
    result = await running.result(handle)
    assert (result.outcome, result.calls) == ("completed", {"note": 1})
    with open(path) as file:  # noqa: PTH123 - a line in a test
        assert file.read() == "hello\n"


async def test_a_rejected_call_does_not_run_and_the_model_knows_why(
    running: Running, model: FakeModel, tmp_path: object
) -> None:
    """A denial is an explicit failed result."""
    path = f"{tmp_path}/notes"
    model.replies = [calls(note(path)), says("Not noted.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
    await handle.signal("reject", {"by": "ana", "reason": "not today"})
    result = await running.result(handle)
    assert (result.outcome, result.calls) == ("completed", {})
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.text == "Not run: rejected by ana: not today. Nothing was changed."


async def test_one_decision_decides_one_call(running: Running, model: FakeModel, tmp_path: object) -> None:
    """The others of the turn go on waiting."""
    model.replies = [calls(note(f"{tmp_path}/a"), note(f"{tmp_path}/b")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: len(state.pending) == 2, "both calls wait")
    await handle.signal("reject", {"id": "t1c2", "reason": "no"})
    state = await running.until(handle, lambda state: len(state.pending) == 1, "one call waits")
    assert state.pending[0].id == "t1c1"
    await handle.signal("approve", {})
    assert (await running.result(handle)).calls == {"note": 1}


async def test_acts_that_can_not_be_carried_out_are_recorded(
    running: Running, model: FakeModel, tmp_path: object
) -> None:
    """No signal hangs the run or disappears, whatever it carries."""
    model.replies = [calls(note(f"{tmp_path}/a")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
    await handle.signal("approve", {"id": "t9c9"})
    await handle.signal("approve", args=[{}, {}])
    await handle.signal("aprove", {})
    await handle.signal("resume")
    config = running.client.config()
    config["data_converter"] = pydantic_data_converter
    careless = Client(**config)
    await careless.get_workflow_handle(handle.id).signal("reject", "x" * 1_900_000)
    await handle.signal("approve", b"\x00\xff")
    state = await running.until(
        handle, lambda state: sum("refused" in line for line in state.recent) == 6, "all six are refused"
    )
    assert any("there is no such signal; known: approve, reject, revoke, settle," in line for line in state.recent)
    await handle.signal("approve")
    assert (await running.result(handle)).outcome == "completed"


async def test_the_temporal_ui_shows_what_waits_and_how_to_decide(
    running: Running, model: FakeModel, tmp_path: object
) -> None:
    """Without any codec: current details, and a search attribute that finds all waiting runs."""
    model.replies = [calls(note(f"{tmp_path}/a")), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
    details = (await handle.query("__temporal_workflow_metadata")).current_details
    for expected in ("awaiting approval", "Waits for approval: note (t1c1)", "text: hello", '"id": "t1c1"'):
        assert expected in details
    assert f"python starter.py approve {handle.id} t1c1" in details
    description = await handle.describe()
    assert description.search_attributes["AgentPhase"] == ["awaiting_approval"]
    await handle.signal("approve")
    await running.result(handle)


async def test_a_model_that_refuses_pauses_the_run_and_resume_goes_on(running: Running, model: FakeModel) -> None:
    """Nothing is lost: the conversation goes on where it stood."""
    model.replies = [calls(("echo", '{"text": "a"}')), ModelRefused("401: the key is wrong; set ANTHROPIC_API_KEY")]
    handle = await running.start(tools=["echo"])
    state = await running.until(handle, lambda state: state.phase == "paused", "the run pauses")
    assert state.paused.startswith("401: the key is wrong; set ANTHROPIC_API_KEY - resume tries again")
    model.replies = [model.replies[0], says("Better.")]
    await handle.signal("resume", {"by": "ana"})
    result = await running.result(handle)
    assert (result.outcome, result.turns, result.calls) == ("completed", 2, {"echo": 1})


async def test_a_model_that_is_down_is_asked_again(running: Running, model: FakeModel) -> None:
    """A transient failure costs a retry, no person."""
    failed: list[int] = []

    def answer(request: object) -> object:
        del request
        if not failed:
            failed.append(1)
            raise ModelUnavailable("503: overloaded", retry_after_seconds=0.1)
        return says("Here.")

    model.replies = [answer]  # type: ignore[list-item]
    assert (await running.result(await running.start())).text.text == "Here."


async def test_a_store_that_refuses_pauses_the_run_and_resume_goes_on(
    client: Client, tested: Settings, blobs: BlobStore
) -> None:
    """Credentials that stop working in mid-run cost no step: the call is run again after they are mended."""
    broken = BrokenBlobStore(blobs)
    model = FakeModel([calls(("letters", '{"count": 50000}')), says("Done.")])
    async with worker_for(client, tested, broken, model) as running:
        broken.fail("put", "refused", prefix="scopes/")
        handle = await running.start(tools=["letters"])
        state = await running.until(handle, lambda state: state.phase == "paused", "the run pauses at its opening")
        assert state.turn == 0
        broken.heal()
        await handle.signal("resume")
        result = await running.result(handle)
        assert (result.outcome, result.turns) == ("completed", 2)


async def test_a_cancelled_run_has_a_proper_journal(running: Running, model: FakeModel, tmp_path: object) -> None:
    """Cancel reaches the tool, keeps what was done, and closes the journal."""
    never = f'{{"path": "{tmp_path}/never", "starts": "{tmp_path}/starts"}}'
    model.replies = [calls(("echo", '{"text": "a"}'), ("wait_for_file", never)), says("Never.")]
    handle = await running.start(tools=["echo", "wait_for_file"])
    await running.until(handle, lambda state: state.calls == {"echo": 1, "wait_for_file": 1}, "the tool runs")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as cancelled:
        await running.result(handle)
    assert isinstance(cancelled.value.cause, CancelledError)
    assert (await handle.describe()).status == WorkflowExecutionStatus.CANCELED
    manifest = await running.storage().manifest(handle.id, handle.result_run_id or "")
    entries = await running.storage().journal(handle.id).entries(manifest.head)
    assert [entry.kind for entry in entries][-3:] == ["tool_finished", "tool_finished", "closed"]
    assert isinstance(entries[-1], Closed)
    assert entries[-1].outcome == "cancelled"


async def test_a_run_that_waits_can_be_cancelled(running: Running, model: FakeModel, tmp_path: object) -> None:
    """The call that nobody decided is recorded as not run."""
    model.replies = [calls(note(f"{tmp_path}/a")), says("Never.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await running.until(handle, lambda state: state.phase == "awaiting_approval", "the call waits")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await running.result(handle)
    manifest = await running.storage().manifest(handle.id, handle.result_run_id or "")
    entries = await running.storage().journal(handle.id).entries(manifest.head)
    assert [entry.kind for entry in entries][-2:] == ["tool_finished", "closed"]
