"""What people see of a run, in the Temporal UI and by the starter."""

import pytest

from core.details import DETAILS_BYTES, details
from core.entries import ApprovalRequested, Decided, Paused, Refused, Told
from core.fold import apply
from core.lines import line, readable_arguments, summary
from core.open_calls import started
from core.state import ACTS_KEPT, RECENT_LINES, RunState
from core.view import new_lines, progress, state_view
from tests.entries import NOW, OPEN_STATE, call, finished, reply, spec


def told(state: RunState, count: int) -> RunState:
    """The state after so many further entries."""
    for number in range(count):
        state = apply(state, Told(at=NOW, text=f"entry {number}"))
    return state


def waiting() -> RunState:
    """A run in which a call waits for a person."""
    state = apply(
        OPEN_STATE, reply(1, call("t1c1", "publish", '{"title": "Birds", "markdown": "# Birds\\n```sh\\nrm"}'))
    )
    return apply(state, ApprovalRequested(at=NOW, turn=1, call_id="t1c1", tool="publish"))


def test_details_show_what_waits_and_what_to_send() -> None:
    """The exact arguments, readable; the JSON of the signal; the command."""
    text = details(spec(), waiting(), "run-1")
    assert "**awaiting approval**" in text
    assert "title: Birds\nmarkdown: # Birds\n'''sh\nrm" in text
    assert '{"id": "t1c1", "by": "your name", "reason": "why"}' in text
    assert "starter.py approve run-1 t1c1" in text


def test_details_name_the_task() -> None:
    """In every generation: Temporal's own summary of a run does not outlive its first one."""
    run = spec().model_copy(update={"task": "Count the birds."})
    assert "`Count the birds.`" in details(run, OPEN_STATE, "run-1")


def test_details_of_a_paused_run_say_why_and_how_to_go_on() -> None:
    """The person at 3 a.m. finds both in one place."""
    text = details(spec(), apply(OPEN_STATE, Paused(at=NOW, cause="failure", why="401: the key is wrong")), "run-1")
    assert "401: the key is wrong" in text
    assert "starter.py resume run-1" in text


def test_details_are_bounded() -> None:
    """However many calls wait."""
    state = apply(OPEN_STATE, reply(1, *(call(f"t1c{n}", "publish", '{"x": "' + "y" * 3000 + '"}') for n in range(50))))
    for number in range(50):
        state = apply(state, ApprovalRequested(at=NOW, turn=1, call_id=f"t1c{number}", tool="publish"))
    assert len(details(spec(), state, "run-1").encode()) <= DETAILS_BYTES


def test_before_the_run_has_opened_there_is_a_view_too() -> None:
    """Queries are answered at any time."""
    assert state_view(None, RunState()).phase == "opening"
    assert progress(RunState()).phase == "opening"


@pytest.mark.parametrize(("before", "more", "new"), [(3, 2, 2), (3, 0, 0), (3, 100, RECENT_LINES), (40, 5, 5)])
def test_new_lines_are_those_after_the_earlier_view(before: int, more: int, new: int) -> None:
    """Also when lines read the same, or more came than are kept."""
    earlier = told(OPEN_STATE, before)
    later = told(earlier, more)
    lines = new_lines(state_view(None, earlier), state_view(None, later))
    assert len(lines) == new
    assert lines == later.recent[len(later.recent) - new :]


def test_what_became_of_acts_is_kept_for_those_who_sent_them() -> None:
    """The newest ones, with their step."""
    state = apply(waiting(), Refused(at=NOW, act="approve", why="nothing waits"))
    state = apply(state, Decided(at=NOW, call_id="t1c1", approved=True, by="ana"))
    assert [(taken.step, taken.entry.kind) for taken in state.acts] == [(3, "refused"), (4, "decided")]
    for _ in range(30):
        state = apply(state, Refused(at=NOW, act="approve", why="nothing waits"))
    assert len(state.acts) == ACTS_KEPT


def test_a_summary_says_what_a_call_does() -> None:
    """In one line, whatever the arguments are."""
    assert summary(call("t1c1", "look", '{"sql": "SELECT 1,\\n 2", "n": [1]}')) == "look: sql=SELECT 1, 2, n=[1]"
    assert summary(call("t1c1", "look", "no json")) == "look: no json"
    assert len(summary(call("t1c1", "look", '{"x": "' + "y" * 3000 + '"}'))) == 160


def test_arguments_are_readable() -> None:
    """Texts keep their line breaks; what is no object stays as it is."""
    assert readable_arguments('{"title": "A", "n": 1, "text": "a\\nb"}') == "title: A\nn: 1\ntext: a\nb"
    assert readable_arguments("[1]") == "[1]"
    assert readable_arguments("{") == "{"


def test_a_line_has_time_turn_and_what_happened() -> None:
    """One for each kind of entry."""
    state = started(apply(OPEN_STATE, reply(1, call("t1c1"), text="Let me look.")), ["t1c1"])
    state = apply(state, finished("t1c1", "three\nbirds"))
    assert state.recent[0] == "12:00:00 turn 1: Let me look. | calls look"
    assert state.recent[1] == "12:00:00 turn 1: look done: three birds"
    assert line(Paused(at=NOW, turn=2, cause="limit", why="limit reached")) == "12:00:00 turn 2: paused: limit reached"
