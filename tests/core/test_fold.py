"""The state stays bounded, and what is carried from one Temporal run to the next loses nothing."""

from core.agents import Context, Limits
from core.content import Content
from core.entries import Compacted, Forked, Paused, Raised, Refused, Replied, Resumed, ToolFinished
from core.fold import added, all_recorded, apply, carried, opened
from core.open_calls import put_back, started
from core.runs import Continued
from core.sizes import COMMIT_BYTES, first_part
from core.state import ARTIFACTS_KEPT, TAIL_HARD_BYTES, RunState
from core.steps import AskModel, Compact, Record, Wait, next_step
from tests.entries import NOW, OPEN_STATE, RUN, artifact, call, finished, reply, spec


def many(count: int, size: int) -> RunState:
    """A turn of so many calls, of which all but the first have a result of this size."""
    calls = [call(f"t1c{number}") for number in range(1, count + 1)]
    state = started(apply(OPEN_STATE, reply(1, *calls)), [entry.id for entry in calls])
    for entry in calls[1:]:
        state = apply(state, finished(entry.id, "x" * size))
    return state


def test_a_commit_takes_no_more_than_fits_a_payload() -> None:
    """Hundreds of results that become ready at once are written in parts."""
    state = apply(many(200, 4000), finished("t1c1"))
    assert state.tail_bytes > 2 * COMMIT_BYTES
    parts, rest = 0, state.tail
    while rest:
        part = first_part(rest)
        assert sum(len(entry.model_dump_json()) for entry in part) <= COMMIT_BYTES
        parts, rest = parts + 1, rest[len(part) :]
    assert parts >= 3


def test_results_that_wait_for_an_earlier_call_can_be_recorded_before_it() -> None:
    """For a new Temporal run: their contents must not travel in the state. Each is recorded once."""
    state = all_recorded(many(50, 4000))
    assert sum(isinstance(entry, ToolFinished) for entry in state.tail) == 49
    without_tail = state.model_copy(update={"tail": ()})
    assert len(without_tail.model_dump_json()) < 60_000
    state = apply(state, finished("t1c1"))
    assert sum(isinstance(entry, ToolFinished) for entry in state.tail) == 50
    assert state.open_calls == ()
    assert state.mistakes == 0


def test_the_carried_state_is_at_most_32_kib() -> None:
    """With 50 artifacts and 10 pending approvals, the tail written."""
    state = OPEN_STATE
    for number in range(ARTIFACTS_KEPT):
        one = call(f"t{number + 1}c1")
        state = started(apply(state, reply(number + 1, one)), [one.id])
        made = artifact(number).model_copy(
            update={"preview": "x" * 700, "name": f"a-report-of-some-length-{number}.md"}
        )
        state = apply(state, finished(one.id).model_copy(update={"artifacts": (made,)}))
    stored = Content(artifact=artifact(99).model_copy(update={"preview": "x" * 512}))
    waiting = [call(f"t99c{number}", "publish") for number in range(10)]
    state = apply(state, reply(99, *waiting))
    while isinstance(step := next_step(spec(), state, NOW), Record):
        state = apply(state, step.entry)
    state = carried(state, [entry.model_copy(update={"arguments": stored}) for entry in waiting])
    state = state.model_copy(update={"tail": (), "tail_bytes": 0})
    assert len(state.pending) == 10
    assert len(Continued(spec=spec(), state=state, generation=2).model_dump_json()) <= 32 * 1024


def test_what_came_in_before_the_run_opened_counts() -> None:
    """A pause or a raise that was sent while no worker was there holds when it opens, as its journal says."""
    early = apply(RunState(), Paused(at=NOW, cause="person", why="by ana", by="ana"))
    early = apply(early, Raised(at=NOW, turns=5, by="ana"))
    state = opened(early, OPEN_STATE)
    assert state.paused is not None
    assert (state.raised.turns if state.raised else 0, state.phase, state.steps) == (5, "paused", 2)
    assert [entry.kind for entry in state.tail] == ["paused", "raised"]


def test_a_flood_of_refused_acts_does_not_fill_the_state() -> None:
    """While nothing can be written, they only show in the newest lines."""
    state = OPEN_STATE
    for number in range(2000):
        state = apply(state, Refused(at=NOW, act="approve", why=f"number {number}: nothing waits"))
    assert state.tail_bytes < TAIL_HARD_BYTES + 1000
    assert "number 1999" in state.recent[-1]


def test_a_call_that_was_put_back_counts_once() -> None:
    """How often a tool was called is how often it was really started."""
    state = started(apply(OPEN_STATE, reply(1, call("t1c1"))), ["t1c1"])
    state = started(put_back(state, "t1c1"), ["t1c1"])
    assert state.calls == {"look": 1}


def test_a_conversation_that_is_too_long_is_compacted_then_paused_then_tried_again() -> None:
    """Bounded: the first compaction sums up, the next ones drop, and resume starts over."""
    run = spec(limits=Limits(output_tokens=100)).model_copy(update={"context": Context(window_tokens=1000)})
    state = apply(OPEN_STATE, reply(1, call("t1c1")).model_copy(update={"prompt_tokens": 900}))
    state = apply(started(state, ["t1c1"]), finished("t1c1"))
    steps = []
    while isinstance(step := next_step(run, state, NOW), Compact):
        steps.append(step.drop)
        state = apply(
            state, Compacted(at=NOW, summary=Content(text="short"), keep_from=1, fallback="", prompt_tokens=900)
        )
    assert steps == [False, True, True]
    assert isinstance(step, Record)
    assert isinstance(step.entry, Paused)
    state = apply(state, step.entry)
    assert next_step(run, state, NOW) == Wait()
    assert next_step(run, apply(state, Resumed(at=NOW)), NOW) == Compact(drop=False)


def test_other_policies_are_not_compacted() -> None:
    """`accumulate` and `reset` choose the prompt by themselves."""
    state = apply(OPEN_STATE, reply(1, call("t1c1")).model_copy(update={"prompt_tokens": 10**6}))
    state = apply(started(state, ["t1c1"]), finished("t1c1"))
    run = spec().model_copy(update={"context": Context(policy="accumulate")})
    assert next_step(run, state, NOW) == AskModel(turn=2)


def test_a_cost_that_is_not_known_cannot_be_limited_in_silence() -> None:
    """The run pauses and says so; a person may let it go on."""
    unpriced = reply(1, call("t1c1"))
    usage = unpriced.usage.model_copy(update={"cost_usd": None})
    state = apply(OPEN_STATE, Replied(**{**dict(unpriced), "usage": usage}))
    state = apply(started(state, ["t1c1"]), finished("t1c1"))
    step = next_step(spec(limits=Limits(cost_usd=1.0)), state, NOW)
    assert isinstance(step, Record)
    assert isinstance(step.entry, Paused)
    assert "price is not known" in step.entry.why
    state = apply(apply(state, step.entry), Resumed(at=NOW))
    assert next_step(spec(limits=Limits(cost_usd=1.0)), state, NOW) == AskModel(turn=2)


def test_a_fork_inherits_what_was_used_but_nothing_that_waited() -> None:
    """Usage, turns and artifacts count on; open calls, pauses and the answer do not."""
    state = apply(OPEN_STATE, reply(1, call("t1c1", "publish")))
    state = apply(state, Paused(at=NOW, cause="failure", why="down"))
    agent = {"name": "analyst", "description": "Answers.", "instructions": {"text": "Be brief."}}
    fork = Forked.model_validate(
        {
            "at": NOW,
            "turn": 1,
            "run": RUN,
            "agent": agent,
            "model": "offline",
            "tools": (),
            "task": {"text": "Count."},
            "origin": RUN,
            "origin_turn": 1,
        }
    )
    forked = apply(state, fork)
    assert (forked.turn, forked.usage, forked.open_calls, forked.paused) == (1, state.usage, (), None)
    assert next_step(spec(), forked, NOW) == AskModel(turn=2)


def test_what_came_in_during_a_model_call_stands_behind_its_reply() -> None:
    """The model has not seen it; the next prompt begins with the last one."""
    sent = len(OPEN_STATE.tail)
    during = apply(OPEN_STATE, Refused(at=NOW, act="approve", why="nothing waits"))
    for head in (None, OPEN_STATE.head):
        after = added(during, reply(1, text="Hm."), head, sent)
        assert [entry.kind for entry in after.tail] == (["replied", "refused"] if head is None else ["refused"])
