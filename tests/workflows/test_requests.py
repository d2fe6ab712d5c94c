"""Approval policies in real runs: rules on real arguments, quorum, deadlines by durable timers, taint."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError

from core.asking import Asking
from core.chat import ToolMessage
from core.entries import Decided
from core.runs import RunResult
from tests.running import FakeModel, Running, calls, replay, says

LONG = "x" * 20_000
SOON = timedelta(seconds=3)


def note(path: Path, text: str) -> tuple[str, str]:
    """A call of `note`."""
    return "note", json.dumps({"path": str(path), "text": text})


def told(model: FakeModel) -> ToolMessage:
    """What the model read last."""
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message


async def kinds(running: Running, result: RunResult) -> list[str]:
    """The kinds of a closed run's entries."""
    assert result.head is not None
    return [entry.kind for entry in await running.storage().journal(result.scope).entries(result.head)]


async def test_a_rule_asks_only_where_it_holds_or_can_not_be_told(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """Over the whole arguments, also where they are too long to travel."""
    asking = Asking(when="contains(text, 'secret')")
    turn = calls(
        note(tmp_path / "a", "harmless"), note(tmp_path / "b", "secret"), note(tmp_path / "c", LONG + "secret")
    )
    model.replies = [turn, says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": asking})
    state = await running.until(handle, lambda state: len(state.pending) == 2 and not state.running, "two wait")
    assert [call.id for call in state.pending] == ["t1c2", "t1c3"]
    assert (tmp_path / "a").read_text() == "harmless\n"
    for call in state.pending:
        await handle.signal("approve", {"id": call.id, "digest": call.digest})
    assert (await running.result(handle)).calls == {"note": 3}


async def test_a_rule_sees_what_the_tool_would_get(running: Running, model: FakeModel) -> None:
    """An argument that is left out has its default, and can't get round the rule."""
    model.replies = [calls(("risky", "{}"), ("risky", '{"dry": true}')), says("Done.")]
    handle = await running.start(tools=["risky"], approval={"risky": Asking(when="dry == `false`")})
    state = await running.until(handle, lambda state: state.phase == "awaiting_approval", "one waits")
    assert [call.id for call in state.pending] == ["t1c1"]
    await handle.signal("reject")
    assert (await running.result(handle)).calls == {"risky": 1}


async def test_two_people_must_approve_and_one_of_them_is_not_enough_twice(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """The journal says who did."""
    model.replies = [calls(note(tmp_path / "a", "paid")), says("Done.")]
    asking = Asking(needed=2, approvers=("ben", "eve", "tests"), exclude_requester=True, reason="money leaves")
    handle = await running.start(tools=["note"], approval={"note": asking})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    for by in ("zoe", "tests", "ben", "ben"):
        await handle.signal("approve", {"by": by})
    state = await running.until(handle, lambda state: len(state.acts) == 4, "all four are taken in")
    assert (state.pending[0].approved_by, state.pending[0].needed) == (("ben",), 2)
    assert not (tmp_path / "a").exists()
    await handle.signal("approve", {"by": "eve"})
    result = await running.result(handle)
    assert result.head is not None
    entries = await running.storage().journal(result.scope).entries(result.head)
    assert [entry.by for entry in entries if isinstance(entry, Decided)] == ["ben", "eve"]


async def test_nobody_decides_in_time(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """The request is shown again, goes to other people, and is rejected in the end; the agent goes on and knows."""
    asking = Asking(expires=SOON, remind=SOON / 3, at_deadline="escalate", escalate_to=("eve",))
    model.replies = [calls(note(tmp_path / "a", "paid")), says("Done.")]
    result = await running.result(await running.start(tools=["note"], approval={"note": asking}))
    assert "nobody decided in time" in told(model).text
    assert not (tmp_path / "a").exists()
    found = await kinds(running, result)
    assert (found.count("expired"), found.count("approval_requested")) == (2, 2)
    assert found.count("reminded") >= 2
    assert (result.outcome, result.waited_seconds > 0) == ("completed", True)


async def test_what_is_denied_is_told_to_the_model(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """And nobody is asked."""
    model.replies = [calls(note(tmp_path / "a", "paid")), says("Done.")]
    result = await running.result(await running.start(tools=["note"], approval={"note": "deny"}))
    assert "denied by this agent's policy" in told(model).text
    assert "approval_requested" not in await kinds(running, result)


async def test_once_strangers_were_read_writes_are_asked_for(
    running: Running, model: FakeModel, tmp_path: Path
) -> None:
    """Before that they run by themselves; allowing the tool for the run does not lift this."""
    asking = Asking(mode="auto", when_tainted=True)
    before, after = note(tmp_path / "a", "before"), note(tmp_path / "a", "after")
    model.replies = [calls(before), calls(("strange", "{}")), calls(after), calls(after), says("Done.")]
    handle = await running.start(tools=["note", "strange"], approval={"note": asking})
    await running.until(handle, lambda state: bool(state.pending), "it waits")
    assert (tmp_path / "a").read_text() == "before\n"
    await handle.signal("approve", {"scope": "run"})
    await running.until(handle, lambda state: state.turn == 4 and bool(state.pending), "it waits again")
    await handle.signal("reject")
    result = await running.result(handle)
    assert (tmp_path / "a").read_text() == "before\nafter\n"
    assert result.calls == {"note": 2, "strange": 1}


async def test_a_rule_that_is_none_fails_the_run_at_once(running: Running, model: FakeModel) -> None:
    """With its place and how one looks."""
    model.replies = []
    handle = await running.start(tools=["echo"], approval={"echo": Asking(when="amount >")})
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    await replay(handle)
    assert "approval of echo: the rule 'amount >' is no JMESPath" in str(failed.value.cause)
