"""What a run does next: the rules, tried without a server."""

from core.agents import Limits
from core.entries import ApprovalRequested, Decided, Paused, Resumed, Told, ToolFinished
from core.fold import apply, interrupted
from core.open_calls import put_back, started
from core.runs import RunSpec
from core.state import RunState
from core.steps import MISTAKES, AskModel, Commit, Finish, Record, RunCalls, Step, Wait, next_step
from tests.entries import NOW, OPEN_STATE, call, finished, policy, reply, spec


def after(state: RunState, *entries: object) -> RunState:
    """Apply entries in order."""
    for entry in entries:
        state = apply(state, entry)  # type: ignore[arg-type]  # tests hand in any entry
    return state


def settled(run: RunSpec, state: RunState) -> tuple[RunState, Step]:
    """Carry out what the rules decide alone, up to the first step that needs the outside."""
    while isinstance(step := next_step(run, state, NOW), Record):
        state = apply(state, step.entry)
    return state, step


def test_a_run_that_has_opened_asks_the_model() -> None:
    """The first step is turn 1."""
    assert next_step(spec(), OPEN_STATE, NOW) == AskModel(turn=1)


def test_calls_that_need_nobody_run_at_once_and_together() -> None:
    """The calls of one reply start in its order."""
    state = after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2")))
    assert next_step(spec(), state, NOW) == RunCalls(calls=(call("t1c1"), call("t1c2")))


def test_no_more_calls_run_at_once_than_the_limit() -> None:
    """The rest waits for room."""
    run = spec(limits=Limits(parallel_calls=1))
    state = after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2")))
    assert next_step(run, state, NOW) == RunCalls(calls=(call("t1c1"),))
    state = started(state, ["t1c1"])
    assert next_step(run, state, NOW) == Wait()
    state = after(state, finished("t1c1"))
    assert next_step(run, state, NOW) == RunCalls(calls=(call("t1c2"),))


def test_calls_of_a_group_take_turns_while_others_run() -> None:
    """As many as the group allows, over all its tools; the order of the calls is kept."""
    group = {"group": "warehouse", "at_once": 1}
    run = spec(policy("look"), *(policy(name).model_copy(update=group) for name in ("fetch", "count")))
    state = after(OPEN_STATE, reply(1, call("t1c1", "fetch"), call("t1c2", "count"), call("t1c3"), call("t1c4")))
    assert next_step(run, state, NOW) == RunCalls(calls=(call("t1c1", "fetch"), call("t1c3"), call("t1c4")))
    state = started(state, ["t1c1", "t1c3", "t1c4"])
    assert next_step(run, state, NOW) == Wait()
    state = after(state, finished("t1c1"))
    assert next_step(run, state, NOW) == RunCalls(calls=(call("t1c2", "count"),))


def test_the_next_turn_comes_when_all_calls_have_ended() -> None:
    """The model is asked again with all results."""
    state = started(after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2"))), ["t1c1", "t1c2"])
    state = after(state, finished("t1c2"))
    assert next_step(spec(), state, NOW) == Wait()
    assert next_step(spec(), after(state, finished("t1c1")), NOW) == AskModel(turn=2)


def test_results_are_recorded_in_the_order_of_the_calls() -> None:
    """Whichever ends first, the journal is the same."""
    state = started(after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2"))), ["t1c1", "t1c2"])
    state = after(state, finished("t1c2"), finished("t1c1"))
    assert [entry.call_id for entry in state.tail if isinstance(entry, ToolFinished)] == ["t1c1", "t1c2"]


def test_a_reply_without_calls_is_the_answer() -> None:
    """The run is complete."""
    state = after(OPEN_STATE, reply(1, text="42 birds"))
    assert next_step(spec(), state, NOW) == Finish(outcome="completed")


def test_a_call_that_needs_approval_waits_while_others_run() -> None:
    """One gate per call: the others do not wait for it."""
    state = after(OPEN_STATE, reply(1, call("t1c1", "publish"), call("t1c2")))
    state, step = settled(spec(), state)
    assert step == RunCalls(calls=(call("t1c2"),))
    assert [entry.call.id for entry in state.pending] == ["t1c1"]
    state = after(started(state, ["t1c2"]), finished("t1c2"))
    assert next_step(spec(), state, NOW) == Wait()
    assert state.phase == "awaiting_approval"


def test_an_approved_call_runs() -> None:
    """A decision lets the call go."""
    state, _ = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1", "publish"))))
    state = after(state, Decided(at=NOW, call_id="t1c1", approved=True, by="ana"))
    assert next_step(spec(), state, NOW) == RunCalls(calls=(call("t1c1", "publish"),))


def test_a_rejected_call_is_a_failed_result_with_the_reason() -> None:
    """The model must not believe that the tool ran."""
    state, _ = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1", "publish"))))
    state = after(state, Decided(at=NOW, call_id="t1c1", approved=False, by="ana", reason="not on a Friday"))
    state, step = settled(spec(), state)
    assert step == AskModel(turn=2)
    result = state.tail[-1]
    assert isinstance(result, ToolFinished)
    assert result.failed
    assert result.content.text == "Not run: rejected by ana: not on a Friday. Nothing was changed."
    assert state.calls == {}


def test_an_unknown_tool_is_a_failed_result_that_lists_the_tools() -> None:
    """The model is told, nothing runs."""
    state, step = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1", "fly"))))
    assert step == AskModel(turn=2)
    result = state.tail[-1]
    assert isinstance(result, ToolFinished)
    assert result.content.text == "Not run: there is no tool 'fly'. Your tools: look, publish."


def test_a_malformed_call_is_never_run_nor_put_to_a_person() -> None:
    """Arguments that can't be read are told to the model, with what is wrong."""
    broken = call("t1c1", "publish", '{"title": ', problem="the arguments are no JSON")
    state, step = settled(spec(), after(OPEN_STATE, reply(1, broken)))
    assert step == AskModel(turn=2)
    assert not any(isinstance(entry, ApprovalRequested) for entry in state.tail)


def test_mistakes_in_a_row_pause_the_run() -> None:
    """A model that can't do better is not asked for ever."""
    state, asked = OPEN_STATE, 0
    while isinstance(next_step(spec(), state, NOW), AskModel):
        asked += 1
        state, _ = settled(spec(), after(state, reply(asked, call(f"t{asked}c1", "fly"))))
    assert asked == MISTAKES
    assert state.paused is not None
    assert state.paused.cause == "mistakes"


def test_a_good_result_ends_the_row_of_mistakes() -> None:
    """Only mistakes in a row count."""
    state, _ = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1", "fly"))))
    assert state.mistakes == 1
    state = after(started(after(state, reply(2, call("t2c1"))), ["t2c1"]), finished("t2c1"))
    assert state.mistakes == 0


def test_an_empty_reply_is_told_to_the_model() -> None:
    """It is asked again, and knows why."""
    state, step = settled(spec(), after(OPEN_STATE, reply(1)))
    assert step == AskModel(turn=2)
    assert isinstance(state.tail[-1], Told)


def test_a_reply_cut_at_the_output_limit_is_no_answer() -> None:
    """Half an answer does not end the run."""
    state, step = settled(spec(), after(OPEN_STATE, reply(1, text="The birds are", stop_reason="length")))
    assert step == AskModel(turn=2)
    assert state.said is None


def test_a_refusal_pauses_and_is_asked_again_after_resume() -> None:
    """A person may mend the task and let it go on."""
    state, step = settled(spec(), after(OPEN_STATE, reply(1, text="I can't.", stop_reason="refusal")))
    assert step == Wait()
    assert state.phase == "paused"
    assert next_step(spec(), after(state, Resumed(at=NOW)), NOW) == AskModel(turn=2)


def test_the_turn_limit_pauses_and_resume_grants_the_same_again() -> None:
    """A limit asks; it does not end the run."""
    run = spec(limits=Limits(turns=1))
    state = after(started(after(OPEN_STATE, reply(1, call("t1c1"))), ["t1c1"]), finished("t1c1"))
    state, step = settled(run, state)
    assert step == Wait()
    assert state.paused == Paused(
        at=NOW, turn=1, cause="limit", why="limit of 1 turns reached; resume grants the same again"
    )
    assert next_step(run, after(state, Resumed(at=NOW, by="ana")), NOW) == AskModel(turn=2)


def test_token_and_cost_limits_pause_too() -> None:
    """Whatever was limited."""
    state = after(started(after(OPEN_STATE, reply(1, call("t1c1"), tokens=500)), ["t1c1"]), finished("t1c1"))
    for limits in (Limits(tokens=501), Limits(cost_usd=0.01)):
        paused, step = settled(spec(limits=limits), state)
        assert step == Wait()
        assert paused.phase == "paused"


def test_a_long_tail_is_written_before_the_next_model_call() -> None:
    """The input of a model call stays bounded, however many results a turn gave."""
    calls = [call(f"t1c{number}") for number in range(1, 51)]
    state = started(after(OPEN_STATE, reply(1, *calls)), [entry.id for entry in calls])
    state = after(state, *(finished(entry.id, "x" * 4000) for entry in calls))
    assert next_step(spec(), state, NOW) == Commit()


def test_calls_past_the_limit_of_a_reply_are_not_run() -> None:
    """The model is told which were not."""
    run = spec(limits=Limits(calls_per_turn=1))
    state, step = settled(run, after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2"))))
    assert step == RunCalls(calls=(call("t1c1"),))
    assert state.open_calls[1].result is not None


def test_a_paused_run_starts_nothing() -> None:
    """Not even calls that are approved."""
    state = after(OPEN_STATE, reply(1, call("t1c1")), Paused(at=NOW, cause="failure", why="store down"))
    assert next_step(spec(), state, NOW) == Wait()


def test_a_call_put_back_runs_after_resume() -> None:
    """A call that the store's failure stopped is neither lost nor asked for again."""
    state, _ = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1"))))
    state = put_back(started(state, ["t1c1"]), "t1c1")
    state = after(state, Paused(at=NOW, cause="failure", why="store down"), Resumed(at=NOW))
    assert next_step(spec(), state, NOW) == RunCalls(calls=(call("t1c1"),))


def test_a_cancelled_turn_leaves_no_call_without_a_result() -> None:
    """What ended is kept, what did not says so."""
    run = spec(policy("look"), policy("publish", "write", "ask"))
    state, _ = settled(run, after(OPEN_STATE, reply(1, call("t1c1"), call("t1c2"), call("t1c3", "publish"))))
    state = after(started(state, ["t1c1", "t1c2"]), finished("t1c2"))
    state = interrupted(state, NOW)
    results = [entry for entry in state.tail if isinstance(entry, ToolFinished)]
    assert [(entry.call_id, entry.failed) for entry in results] == [("t1c1", True), ("t1c2", False), ("t1c3", True)]
    assert "may or may not" in (results[0].content.text or "")
    assert "Not run" in (results[2].content.text or "")


def test_waiting_for_people_is_counted() -> None:
    """The time between the question and the decision is known."""
    state, _ = settled(spec(), after(OPEN_STATE, reply(1, call("t1c1", "publish"))))
    later = NOW.replace(hour=14)
    state = after(state, Decided(at=later, call_id="t1c1", approved=True))
    assert state.waited_seconds == 7200
