"""The rules of pipelines, without a server: what runs when, what a failure makes of it, and what is taken back."""

from collections import Counter
from datetime import timedelta

import pytest

from core.call_entries import Settled
from core.content import inline
from core.pipelines import fold, steps
from core.pipelines.acts import act_on_pipeline
from core.pipelines.entries import Began, Ended, Undone
from core.pipelines.plan import Plan, faults, step_of
from core.pipelines.state import ENDS
from tests.core.pipelines import SPEC, START, World, made, order_of_undo, random_pipeline, starts, tool

PIPELINES = 400


def status(world: World) -> dict[str, str]:
    """The status of each run of a step."""
    return {key: run.shown for key, run in world.state.runs.items()}


@pytest.mark.parametrize("seed", range(8))
def test_any_pipeline_comes_to_an_end_and_keeps_its_order(seed: int) -> None:
    """Whatever goes wrong: each step begins after what it needs, ends once, and is undone at most once, in reverse."""
    for number in range(seed * PIPELINES // 8, (seed + 1) * PIPELINES // 8):
        world = World(random_pipeline(number), seed=number)
        assert not faults(world.pipeline)
        finish = world.run()
        assert all(run.status in ENDS for run in world.state.runs.values())
        again = Counter(
            entry.call_id for entry in world.entries if isinstance(entry, Settled) and entry.settlement == "run_again"
        )
        assert all(count <= 1 + again[call] for call, count in world.begun.items())
        _needs_came_first(world)
        orders = [order for _, order in order_of_undo(world)]
        assert orders == sorted(orders, reverse=True)
        assert len(orders) == len(set(orders))
        if world.state.ending is None:
            assert finish.outcome == "completed"
            assert not orders
        elif world.state.ending.compensate:
            began = {key for key, run in world.state.runs.items() if run.attempts and _has_undo(world.plan, key)}
            assert {key for key, _ in order_of_undo(world)} == began
        else:
            assert not orders


def _needs_came_first(world: World) -> None:
    over: set[str] = set()
    for entry in world.entries:
        if isinstance(entry, Ended):
            over.add(entry.step)
        if isinstance(entry, Began) and not entry.undo:
            indices = entry.step.split(".")[1:]
            for needed in world.plan.places[step_of(entry.step)].needs:
                assert ".".join((needed, *indices)) in over


def _has_undo(plan: Plan, key: str) -> bool:
    return getattr(plan.step(key), "undo", None) is not None


def test_steps_run_in_the_order_of_the_file() -> None:
    """A step without `needs` waits for the one before it."""
    world = World(made(tool("a"), tool("b"), tool("c")), seed=1, bad=0)
    assert world.run().outcome == "completed"
    assert starts(world) == ["a", "b", "c"]


def test_steps_of_a_parallel_run_at_once_and_items_as_many_as_are_allowed() -> None:
    """Groups have their own limits."""
    inner = [tool("a"), tool("b"), tool("c")]
    world = World(made({"id": "all", "kind": "parallel", "at_once": 2, "steps": inner}), seed=1, bad=0)
    wanted = [steps.next_steps(world.plan, SPEC, world.state, START)]
    world.carry_out(wanted[0][0])
    wanted.append(steps.next_steps(world.plan, SPEC, world.state, START))
    assert [[do.key for do in each if isinstance(do, steps.Prepare)] for each in wanted] == [["all"], ["a", "b"]]


def test_a_failure_undoes_what_was_done_the_last_first_and_a_part_of_a_step_too() -> None:
    """The step that failed may have done a part: its undo runs as well."""
    undo = {"tool": "pull"}
    world = World(
        made(tool("a", undo=undo), tool("b", undo=undo), tool("c", undo=undo), on_failure="compensate"), seed=0, bad=0
    )
    for _ in range(100):
        world.bad = 1.1 if "c" in world.under_way and not world.undone else 0
        world.random.seed(5)
        for do in steps.next_steps(world.plan, SPEC, world.state, world.now):
            if isinstance(do, steps.Finish):
                assert do.outcome == "failed"
                assert world.undone == ["c", "b", "a"]
                assert world.state.phase == "undoing"
                return
            world.carry_out(do)
    raise AssertionError(world.state.recent)


def test_who_is_rejected_is_undone_and_never_goes_on() -> None:
    """A gate that is rejected ends the run as cancelled; what came before it is taken back."""
    gate = {"id": "ok", "kind": "gate", "ask": "well?"}
    world = World(made(tool("a", undo={"tool": "pull"}), gate, tool("b")), seed=1, bad=0)
    while not world.state.pending:
        for do in steps.next_steps(world.plan, SPEC, world.state, world.now):
            world.carry_out(do)
    before = world.state.phase
    world.apply(act_on_pipeline(world.state, "reject", b'{"by": "ann", "reason": "not today"}', START))
    finish = world.run()
    assert (finish.outcome, finish.reason) == ("cancelled", "ok was rejected: not today")
    assert status(world) == {"a": "undone", "ok": "rejected"}
    assert (before, world.state.phase) == ("awaiting_approval", "rejected")


def test_what_needs_a_rejected_gate_is_blocked_where_the_run_goes_on() -> None:
    """With `continue` a rejection is about one item: the others are decided by themselves."""
    gate = {"id": "ok", "kind": "gate", "ask": "well?", "on_failure": "continue"}
    each = {"id": "all", "kind": "parallel", "steps": [gate, tool("merge", needs=["ok"])]}
    world = World(made(each, tool("last")), seed=1, bad=0)
    while not world.state.pending:
        for do in steps.next_steps(world.plan, SPEC, world.state, world.now):
            world.carry_out(do)
    world.apply(act_on_pipeline(world.state, "reject", b'{"by": "ann"}', START))
    assert world.run().outcome == "completed"
    assert status(world) == {"all": "done", "ok": "rejected", "merge": "blocked", "last": "done"}


def test_a_gate_that_nobody_answers_is_rejected_at_its_deadline() -> None:
    """Nothing is approved by waiting."""
    world = World(made({"id": "ok", "kind": "gate", "ask": "well?", "approval": {"expires": 60}}), seed=1, bad=0)
    for _ in range(20):
        todo = steps.next_steps(world.plan, SPEC, world.state, world.now)
        if isinstance(todo[0], steps.Finish):
            break
        if isinstance(todo[0], steps.Wait) and todo[0].until is not None:
            world.now = todo[0].until
        else:
            world.carry_out(todo[0])
    assert world.now == START + timedelta(seconds=60)
    assert world.state.reason == ""
    assert status(world) == {"ok": "rejected"}
    assert world.state.ending is not None
    assert world.state.ending.reason == "ok was rejected: nobody decided in time"


def test_an_undo_that_fails_is_told_and_the_others_still_run() -> None:
    """What could not be taken back is named."""
    undo = {"tool": "pull"}
    world = World(made(tool("a", undo=undo), tool("b", undo=undo), on_failure="compensate"), seed=1, bad=0)
    while len(starts(world)) < 2:
        for do in steps.next_steps(world.plan, SPEC, world.state, world.now):
            world.carry_out(do)
    world.apply(Ended(at=START, step="b", status="failed", error="no"))
    world.under_way.clear()
    while "b" not in world.undone:
        for do in steps.next_steps(world.plan, SPEC, world.state, world.now):
            world.carry_out(do)
    world.apply(Undone(at=START, step="b", error="stuck"))
    world.under_way.clear()
    assert world.run().outcome == "failed"
    assert world.state.undo_failed == ("b",)
    assert status(world) == {"a": "undone", "b": "undo failed"}


def test_a_paused_run_begins_nothing_and_acts_that_make_no_sense_are_refused() -> None:
    """Pause and resume, and what a pipeline does not take."""
    world = World(made(tool("a")), seed=1, bad=0)
    world.apply(act_on_pipeline(world.state, "pause", b'{"by": "ann"}', START))
    assert steps.next_steps(world.plan, SPEC, world.state, START) == (steps.Wait(),)
    refused = act_on_pipeline(world.state, "message", b'{"text": "hello"}', START)
    assert refused.kind == "refused"
    world.apply(act_on_pipeline(world.state, "resume", b"", START))
    assert steps.next_steps(world.plan, SPEC, world.state, START) == (steps.Prepare(key="a"),)


def test_cycles_unknown_steps_and_steps_that_are_never_reached_are_named() -> None:
    """Each with what to do."""
    cycle = faults(made(tool("a", needs=["c"]), tool("b", needs=["a"]), tool("c", needs=["b"]), tool("d")))
    assert [fault.text for fault in cycle] == [
        "a needs c needs b needs a: a cycle, none of them could ever start; take one `needs` out",
        "d is never reached: it needs c, which can't start; mend that first",
    ]
    assert cycle[0].where == ("steps", "0", "needs")
    unknown = faults(made(tool("a"), tool("b", needs=["x"])))
    assert unknown[0].text == "there is no step x; steps beside b: a"
    twice = faults(made(tool("a"), tool("a")))
    assert twice[0].text == "a is given twice; each step needs its own id"


def test_long_texts_leave_the_state_when_they_are_written() -> None:
    """Of many outputs of 4 KiB, the state keeps references only."""
    world = World(made(tool("a")), seed=1, bad=0)
    world.apply(Ended(at=START, step="a", status="done", output=inline("x" * 4000)))
    assert list(fold.to_store(world.state)) == ["a"]
