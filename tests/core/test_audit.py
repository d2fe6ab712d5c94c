"""A journal as people read it: who did what, at which cost; the state after each entry; where two journals part."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.audit import (
    RULES,
    Parting,
    artifacts_of,
    made_by_tools,
    parting,
    play,
    reading,
    readings,
    who,
)
from core.content import Content
from core.entries import ApprovalRequested, Closed, Decided, Entry, Messaged, Resumed, Told
from core.errors import InputError
from core.fold import apply
from core.state import RunState
from tests.entries import NOW, artifact, call, finished, reply, started
from tests.record_journal import commits

TOLD = [Told(at=NOW + timedelta(seconds=number), text=str(number)) for number in range(4)]


def flat() -> list[Entry]:
    """Return a journal with every kind of entry."""
    return [entry for commit in commits() for entry in commit]


def test_a_decision_is_read_with_its_author() -> None:
    """Who decided what, and why, stands in one line."""
    read = reading(7, Decided(at=NOW, turn=2, call_id="t2c1", approved=False, by="ana", reason="too dear"))
    assert (read.number, read.turn, read.who, read.what) == (7, 2, "ana", "t2c1 rejected by ana: too dear")
    assert (read.usage, read.seconds, read.text) == (None, None, None)


def test_a_reply_is_read_with_its_calls_and_its_cost() -> None:
    """The text in the line, each call with its arguments below, and what was paid."""
    said = reply(1, call("t1c1", arguments='{"at": "birds"}'), text="I look.")
    read = reading(2, said)
    assert read.what == "I look. | calls look"
    assert read.details == ("calls look (t1c1): at=birds",)
    assert read.usage == said.usage


def test_somebody_or_something_did_each_entry() -> None:
    """People by their names, tools and models by theirs, all else by the rules."""
    assert [who(entry) for entry in (started(), Resumed(at=NOW, by="ana"))] == ["somebody", "ana"]
    assert who(finished("t1c1")) == "look"
    assert who(Closed(at=NOW, outcome="completed")) == RULES
    assert all(who(entry) for entry in flat())


def test_one_turn_is_read_alone_under_its_numbers() -> None:
    """The numbers are those of the whole journal; a turn that is not there is refused with those that are."""
    second = readings(flat(), 2)
    assert {read.turn for read in second} == {2}
    assert [read.number for read in second] == sorted(read.number for read in second)
    assert second[0].number > 1
    with pytest.raises(InputError, match=r"nothing of turn 9: it has turns 0 \(the task\) to 2"):
        readings(flat(), 9)


def test_a_replay_shows_what_the_run_knew() -> None:
    """After each entry the state is the fold up to it, whatever was cut off before it is shown."""
    state = RunState()
    for entry, step in zip(flat(), play(flat()), strict=True):
        state = apply(state, entry)
        assert (step.entry, step.state.phase, step.state.usage) == (entry, state.phase, state.usage)
    asked = next(step for step in play(flat()) if isinstance(step.entry, ApprovalRequested))
    assert (asked.state.phase, asked.state.open_calls["t1c1"]) == ("awaiting_approval", "awaiting_approval")


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_journals_part_after_what_they_have_in_common(common: int, left: int, right: int) -> None:
    """Entries are counted one by one, commits only when all of one is the same."""
    before = [(entry,) for entry in TOLD[:common]]
    one = [*before, *[(Told(at=NOW, text=f"left {number}"),) for number in range(left)]]
    other = [*before, *[(Told(at=NOW, text=f"right {number}"),) for number in range(right)]]
    assert parting(one, other) == parting(other, one) == Parting(entries=common, commits=common)


def test_entries_may_be_common_where_commits_are_not() -> None:
    """A fork in the middle of a commit repeats its first entries in a commit of its own."""
    assert parting([tuple(TOLD[:3])], [(TOLD[0],), (TOLD[1],)]) == Parting(entries=2, commits=0)


def test_every_artifact_that_is_named_is_found_once() -> None:
    """Task, attachments, messages, arguments and results: wherever a reference stands."""
    task = started(attachments=(artifact(1),)).model_copy(update={"task": Content(artifact=artifact(2))})
    asks = call("t1c1").model_copy(update={"arguments": Content(artifact=artifact(3))})
    made = finished("t1c1").model_copy(update={"content": Content(artifact=artifact(4)), "artifacts": (artifact(5),)})
    message = Messaged(at=NOW, text=Content(artifact=artifact(4)))
    entries: list[Entry] = [task, reply(1, asks), made, message]
    assert [ref.sha256 for ref in artifacts_of(entries)] == [artifact(n).sha256 for n in (2, 1, 3, 4, 5)]
    assert made_by_tools(entries) == [artifact(5)]
