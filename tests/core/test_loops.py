"""Models that go round in circles and tools that fail in a row: told once, then paused."""

from core.agents import Limits
from core.entries import Paused, Resumed, Told
from core.fold import apply
from core.loops import SEEN_KEPT, canonical
from core.runs import RunSpec
from core.state import RunState
from core.steps import AskModel, Record, Step, next_step
from tests.entries import NOW, OPEN_STATE, call, finished, reply, spec

LIMITS = Limits(repeats=3, failures=3)


def turn(
    state: RunState, arguments: str, result: str = "seen", *, failed: bool = False, run: RunSpec | None = None
) -> tuple[RunState, list[str], Step]:
    """One turn with one call; what the model was told after it, and the step that the run then takes."""
    number = state.turn + 1
    call_id = f"t{number}c1"
    state = apply(state, reply(number, call(call_id, arguments=arguments)))
    state = apply(state, finished(call_id, result, failed=failed))
    told: list[str] = []
    while isinstance(step := next_step(run or spec(limits=LIMITS), state, NOW), Record):
        state = apply(state, step.entry)
        if isinstance(step.entry, Paused):
            break
        assert isinstance(step.entry, Told)
        told.append(step.entry.text)
    return state, told, step


def test_the_same_call_with_the_same_result_is_told_once_and_pauses_at_twice_as_many() -> None:
    """Order and spacing of the arguments do not matter."""
    state, told = OPEN_STATE, []
    for arguments in ('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a":1,  "b":2}', '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'):
        state, new, step = turn(state, arguments)
        told += new
        assert isinstance(step, AskModel)
    assert len(told) == 1
    assert told[0].startswith("You have called look 3 times with the same arguments")
    state, _, step = turn(state, '{"a": 1, "b": 2}')
    assert state.paused is not None
    assert state.paused.cause == "loop"
    assert "look was called 6 times" in state.paused.why
    state = apply(state, Resumed(at=NOW))
    assert isinstance(turn(state, '{"a": 1, "b": 2}')[2], AskModel)


def test_a_circle_of_several_calls_is_noticed_too() -> None:
    """A, B, A, B, A, B."""
    state, told = OPEN_STATE, []
    for number in range(6):
        state, new, _ = turn(state, f'{{"at": {number % 2}}}')
        told += new
    assert len(told) == 2


def test_other_arguments_or_another_result_are_no_circle() -> None:
    """A tool that is asked until something changes may be asked often."""
    state, told = OPEN_STATE, []
    for number in range(10):
        state, new, _ = turn(state, f'{{"at": {number}}}')
        told += new
        state, new, _ = turn(state, "{}", f"{number} done")
        told += new
    assert told == []
    assert len(state.seen) == SEEN_KEPT


def test_a_tool_that_fails_in_a_row_is_told_again_after_as_many() -> None:
    """One good result ends the row."""
    state, told = OPEN_STATE, []
    for number in range(6):
        state, new, _ = turn(state, f'{{"at": {number}}}', f"Failed: {number}", failed=True)
        told.append(new)
    assert [len(new) for new in told] == [0, 0, 1, 0, 0, 1]
    assert told[2][0].startswith("look has failed 3 times in a row. Stop using it")
    state, _, _ = turn(state, '{"at": 7}', "Failed", failed=True)
    state, _, _ = turn(state, '{"at": 8}')
    assert state.failures == {}


def test_both_can_be_switched_off() -> None:
    """None means no limit."""
    run = spec(limits=Limits(repeats=None, failures=None))
    state = OPEN_STATE
    for _ in range(20):
        state, told, step = turn(state, "{}", failed=True, run=run)
        assert (told, isinstance(step, AskModel)) == ([], True)


def test_arguments_that_are_no_json_stay_as_they_are() -> None:
    """They still compare."""
    assert canonical('{"b": [1, 2], "a": null}') == '{"a":null,"b":[1,2]}'
    assert canonical("{oops") == "{oops"
    assert canonical("[" * 100_000) == "[" * 100_000
