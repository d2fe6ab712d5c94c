"""Writes whose end was not seen, in real runs: verified, settled by a person, never guessed, never done twice."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError

from core.chat import ToolMessage
from core.entries import Settled, ToolFinished
from tests.running import FakeModel, Running, calls, replay, says

WAITS = "a person is asked"


def lines(path: Path) -> int:
    """How often the effect took place."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def told(model: FakeModel) -> ToolMessage:
    """What the model read of the call."""
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize(
    ("loses", "effects", "shown", "failed"),
    [
        ("never", 1, "ordered tea", False),
        ("after", 1, "found the order of tea", False),
        ("before once", 1, "ordered tea", False),
        ("before", 0, "it did not take effect in 3 runs", True),
    ],
)
async def test_a_tool_that_can_look_settles_its_own_doubt(  # noqa: PLR0913, PLR0917 - the row of a table
    running: Running, model: FakeModel, tmp_path: Path, loses: str, effects: int, shown: str, failed: bool
) -> None:
    """Nobody is asked, and the effect is there once, or not at all and said so."""
    book = tmp_path / "book"
    arguments = json.dumps({"path": str(book), "what": "tea", "loses": loses})
    model.replies = [calls(("order", arguments)), says("Done.")]
    result = await running.result(await running.start(tools=["order"]))
    assert result.outcome == "completed"
    assert lines(book) == effects
    assert shown in told(model).text
    assert told(model).failed == failed


@pytest.mark.parametrize(
    ("loses", "act", "effects", "shown"),
    [
        ("after", {"settlement": "done", "by": "ana", "result": "parcel 7"}, 1, "parcel 7"),
        ("before", {"settlement": "give_up", "by": "ana"}, 0, "Not done: ship did not take effect"),
        ("before once", {"settlement": "run_again", "by": "ana"}, 1, "shipped tea"),
    ],
)
async def test_a_person_settles_what_nobody_else_can(  # noqa: PLR0913, PLR0917 - the row of a table
    running: Running, model: FakeModel, tmp_path: Path, loses: str, act: dict[str, str], effects: int, shown: str
) -> None:
    """The run waits until somebody has looked; the journal says who said what."""
    book = tmp_path / "book"
    arguments = json.dumps({"path": str(book), "what": "tea", "loses": loses})
    model.replies = [calls(("ship", arguments)), says("Done.")]
    handle = await running.start(tools=["ship"])
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", WAITS)
    assert "did not report its end (ConnectionError: connection lost)" in state.pending[0].doubt
    await handle.signal("approve", {"id": "t1c1"})
    await handle.signal("settle", act)
    result = await running.result(handle)
    assert lines(book) == effects
    assert shown in told(model).text
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    kinds = [entry.kind for entry in entries if entry.kind != "closed"]
    assert kinds[2:5] == ["unsettled", "refused", "settled"]
    settled = next(entry for entry in entries if isinstance(entry, Settled))
    assert (settled.by, settled.settlement) == ("ana", act["settlement"])


async def test_a_verify_that_cannot_tell_lets_a_person_be_asked(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """With what it said."""
    arguments = json.dumps({"path": str(tmp_path / "book"), "what": "no book", "loses": "after"})
    model.replies = [calls(("order", arguments)), says("Done.")]
    handle = await running.start(tools=["order"])
    state = await running.until(handle, lambda state: bool(state.pending), WAITS)
    assert "its verify could not tell (the book is closed today)" in state.pending[0].doubt
    await handle.signal("settle", {"settlement": "done"})
    assert (await running.result(handle)).outcome == "completed"
    assert lines(tmp_path / "book") == 1


async def test_what_says_that_nothing_happened_is_started_again(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """`NotDone` makes also a write safe to repeat, and nobody is asked."""
    calls_file = tmp_path / "calls"
    model.replies = [calls(("ring", json.dumps({"path": str(calls_file), "busy": 1}))), says("Done.")]
    result = await running.result(await running.start(tools=["ring"]))
    assert result.outcome == "completed"
    assert told(model).text == "talked"
    assert lines(calls_file) == 2


async def test_other_calls_of_the_turn_keep_their_results(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """One that waits to be settled holds up the turn, and loses nothing of it."""
    arguments = json.dumps({"path": str(tmp_path / "book"), "what": "tea", "loses": "after"})
    model.replies = [calls(("echo", '{"text": "a"}'), ("ship", arguments), ("echo", '{"text": "b"}')), says("Done.")]
    handle = await running.start(tools=["echo", "ship"])
    await running.until(handle, lambda state: state.phase == "awaiting_approval", WAITS)
    await handle.signal("settle", {"settlement": "done", "result": "gone"})
    result = await running.result(handle)
    assert [message.text for message in model.requests[-1].messages[-3:]] == ["a", "gone", "b"]
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    assert [entry.call_id for entry in entries if isinstance(entry, ToolFinished)] == ["t1c1", "t1c2", "t1c3"]


async def test_a_run_that_is_cancelled_while_a_call_waits_says_that_it_may_have_happened(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """The journal is closed, and nothing claims to know."""
    arguments = json.dumps({"path": str(tmp_path / "book"), "what": "tea", "loses": "after"})
    model.replies = [calls(("ship", arguments)), says("Never.")]
    handle = await running.start(tools=["ship"])
    await running.until(handle, lambda state: bool(state.pending), WAITS)
    position = await handle.query("position")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    await replay(handle)
    assert any(entry["kind"] == "unsettled" for entry in position["tail"])
