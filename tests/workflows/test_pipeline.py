"""Pipelines on real servers: data flows by selection, people decide, failures are taken back."""

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError

from core.asking import Asking
from core.chat import ChatReply, ChatRequest
from core.content import inline
from core.pipelines.entries import Prepared
from core.pipelines.record import Record
from core.pipelines.runs import PipelineResult, Reuse
from core.ports import BlobStore
from infra.settings import Settings
from tests.fakes import BrokenBlobStore
from tests.piping import AGENT, entries, lines, pipeline_of, put, result, start, state, statuses, until
from tests.running import FakeModel, Running, calls, says, worker_for
from tests.waiting import wait_until

GATE = {"id": "ok", "kind": "gate", "ask": "Go on?"}


def answers(request: ChatRequest) -> ChatReply:
    """Plan when asked to, else say how long the task was."""
    task = next(message.text for message in request.messages if message.role == "user")
    if task.startswith("Plan"):
        return says('```json\n{"parts": ["one", "two", "three"]}\n```')
    return says(f"did {task.rpartition('<selected')[2].partition('>')[2].partition('<')[0].strip()}")


async def test_agents_in_parallel_a_gate_and_a_tool(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """Each step sees what it selects and nothing else, and its record shows it."""
    model.replies = [answers]
    book = tmp_path / "book"
    pipeline = pipeline_of(
        {"id": "plan", "kind": "agent", "agent": "worker", "task": "Plan it.", "select": {"topic": "inputs.topic"}},
        {
            "id": "work",
            "kind": "for_each",
            "items": "steps.plan.output.parts",
            "at_once": 3,
            "steps": [{"id": "one", "kind": "agent", "agent": "worker", "task": "Work.", "select": {"part": "item"}}],
        },
        {**GATE, "show": {"answers": "steps.work.output"}},
        put("publish", book, select={"line": "steps.work.items[1].one.output"}, arguments={"book": str(book)}),
        inputs={"topic": {}},
    )
    handle = await start(running, pipeline, {"topic": "bees"})
    asked = await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
    shown = json.loads(asked.pending[0].arguments.text or "")
    assert shown == {"ask": "Go on?", "answers": ["did one", "did two", "did three"]}
    assert not lines(book)
    await handle.execute_update("approve", {"by": "ann", "reason": "good"})
    ended = await result(handle)
    assert (ended.outcome, lines(book)) == ("completed", ["did two"])
    view = await state(handle)
    assert (view.phase, statuses(view)["one.2"]) == ("completed", "done")
    given = {entry.step: entry.given.shown() for entry in await entries(running, view) if isinstance(entry, Prepared)}
    assert "bees" in given["plan"]
    assert "two" in given["one.1"]
    assert "bees" not in given["one.1"]
    assert next(step.by for step in view.steps if step.key == "ok") == "ann"
    manifest = await Record(running.blobs, ended.scope).manifest(handle.first_execution_run_id or "")
    assert manifest.result.steps["publish"].status == "done"


async def test_a_failure_undoes_what_was_done(running: Running, tmp_path: Path) -> None:
    """In reverse order; an undo that fails is told, and the others go on."""
    book = tmp_path / "book"
    (tmp_path / "c.fails").touch()
    (tmp_path / "undo b.fails").touch()
    steps = [put(name, book, undone=True) for name in "abc"]
    handle = await start(running, pipeline_of(*steps, put("d", book), on_failure="compensate"))
    with pytest.raises(WorkflowFailureError) as caught:
        await result(handle)
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.message == "c failed: c can't be written"
    ended = PipelineResult.model_validate(cause.details[0])
    assert (ended.outcome, ended.undo_failed) == ("failed", ("b",))
    assert lines(book) == ["a", "b", "undo c", "undo a"]
    assert statuses(await state(handle)) == {"a": "undone", "b": "undo failed", "c": "undone", "d": "waiting"}


async def test_who_is_rejected_is_undone(running: Running, tmp_path: Path) -> None:
    """By the signal of a person, with the reason."""
    book = tmp_path / "book"
    handle = await start(running, pipeline_of(put("a", book, undone=True), GATE, put("b", book)))
    await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
    await handle.signal("reject", {"id": "ok", "by": "ann", "reason": "not today"})
    ended = await result(handle)
    assert (ended.outcome, ended.reason) == ("cancelled", "ok was rejected: not today")
    assert lines(book) == ["a", "undo a"]


async def test_a_step_is_tried_again_and_a_gate_that_nobody_answers_ends(running: Running, tmp_path: Path) -> None:
    """Retries have calls of their own; nothing is approved by waiting."""
    book = tmp_path / "book"
    (tmp_path / "a.fails").write_text("once")
    gate = {**GATE, "approval": {"expires": 1}}
    handle = await start(running, pipeline_of(put("a", book, retry={"attempts": 2, "wait": 0}), gate, put("b", book)))
    ended = await result(handle)
    assert (ended.outcome, ended.reason) == ("cancelled", "ok was rejected: nobody decided in time")
    assert (lines(book), ended.steps["a"].attempts) == (["a"], 2)


async def test_a_cancel_closes_the_record_and_undoes_where_the_file_says_so(running: Running, tmp_path: Path) -> None:
    """Temporal's own cancel."""
    book = tmp_path / "book"
    handle = await start(running, pipeline_of(put("a", book, undone=True), GATE, on_cancel="compensate"))
    await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await result(handle)
    assert isinstance(caught.value.cause, CancelledError)
    view = await state(handle)
    assert (view.phase, lines(book)) == ("cancelled", ["a", "undo a"])
    assert (await entries(running, view))[-1].kind == "finalized"


async def test_a_selection_that_finds_nothing_fails_the_step_and_says_what_there_is(
    running: Running, tmp_path: Path
) -> None:
    """The step is not run with a hole in its input."""
    book = tmp_path / "book"
    echo = {"id": "e", "kind": "tool", "tool": "echo", "arguments": {"text": '{"title": "x"}'}}
    pipeline = pipeline_of(echo, put("a", book, select={"line": "steps.e.output.name"}, arguments={"book": str(book)}))
    with pytest.raises(WorkflowFailureError) as caught:
        await result(await start(running, pipeline))
    said = str(caught.value.cause)
    assert "line (steps.e.output.name) finds nothing" in said
    assert "its output is an object with title" in said


async def test_an_output_of_50_mb_flows_as_a_handle(running: Running, tmp_path: Path) -> None:
    """No payload grows with it; who selects it gets what it is, not what is in it."""
    book = tmp_path / "book"
    big = {"id": "big", "kind": "tool", "tool": "letters", "arguments": {"count": 50_000_000}}
    line = {"line": "steps.big.output.handle"}
    handle = await start(running, pipeline_of(big, put("a", book, select=line, arguments={"book": str(book)})))
    ended = await result(handle)
    artifact = ended.steps["big"].output.artifact if ended.steps["big"].output else None
    assert artifact is not None
    assert (artifact.size_bytes, lines(book)) == (50_000_000, [artifact.handle])


async def test_a_long_run_goes_on_in_new_temporal_runs(running: Running, tmp_path: Path) -> None:
    """Nothing is done twice, and the record is one."""
    book = tmp_path / "book"
    inner = put("a", book, select={"line": "to_string(item)"}, arguments={"book": str(book)})
    each = {"id": "all", "kind": "for_each", "items": "inputs.numbers", "at_once": 2, "steps": [inner]}
    pipeline = pipeline_of(each, inputs={"numbers": {"type": "list"}})
    handle = await start(running, pipeline, {"numbers": list(range(12))}, events=60)
    ended = await result(handle)
    assert ended.outcome == "completed"
    assert sorted(map(int, lines(book))) == list(range(12))
    assert (await handle.describe()).run_id != handle.first_execution_run_id
    record = await entries(running, await state(handle))
    assert sum(entry.kind == "began" for entry in record) == 12


async def test_a_rerun_goes_on_from_a_step_with_what_was_there(running: Running, tmp_path: Path) -> None:
    """What came before the step is not done again."""
    book = tmp_path / "book"
    (tmp_path / "b.fails").write_text("once")
    first = await start(running, pipeline_of(put("a", book), put("b", book)))
    with pytest.raises(WorkflowFailureError):
        await first.result()
    view = await state(first)
    assert view.run is not None
    whole = await first.query("whole")
    runs = {"a": whole["state"]["runs"]["a"]}
    reuse = Reuse.model_validate({"origin": view.run, "step": "b", "runs": runs})
    again = await start(running, pipeline_of(put("a", book), put("b", book)), reuse=reuse)
    ended = await result(again)
    assert (ended.outcome, lines(book)) == ("completed", ["a", "b"])
    assert [step.reused for step in (await state(again)).steps] == [True, False]


async def test_wrong_starts_and_unknown_tools_fail_at_once(running: Running) -> None:
    """With the reason, never by hanging."""
    unknown = pipeline_of({"id": "a", "kind": "tool", "tool": "ecko"})
    with pytest.raises(WorkflowFailureError) as caught:
        await result(await start(running, unknown))
    assert "step a: unknown tool 'ecko' (did you mean echo?)" in str(caught.value.cause)
    with pytest.raises(WorkflowFailureError) as caught:
        await result(await start(running, pipeline_of(GATE, inputs={"n": {"type": "number"}}), {"n": "x"}))
    assert "input n must be a number" in str(caught.value.cause)
    wrong = await running.client.start_workflow(
        "Pipeline", {"nothing": 1}, id="pipe-wrong", task_queue=running.settings.task_queue
    )
    with pytest.raises(WorkflowFailureError):
        await wrong.result()


async def test_an_agent_that_takes_too_long_is_stopped_and_a_failed_step(running: Running, model: FakeModel) -> None:
    """With `continue` the steps behind it see why."""
    model.replies = [calls(("echo", '{"text": "x"}'))]
    agent = {"id": "a", "kind": "agent", "agent": "worker", "task": "Work.", "timeout": 1, "on_failure": "continue"}
    echo = {"id": "e", "kind": "tool", "tool": "echo", "select": {"text": "steps.a.error"}}
    asks = AGENT.model_copy(update={"approval": {"echo": Asking(mode="ask")}})
    handle = await start(running, pipeline_of(agent, echo), agent=asks)
    ended = await result(handle)
    assert ended.outcome == "completed"
    assert ended.output == inline("it did not end within 1 seconds, and was stopped")
    child = running.client.get_workflow_handle(f"{handle.id}.a")
    description = await child.describe()
    assert description.status is not None
    assert description.status.name == "CANCELED"


async def test_a_write_whose_end_nobody_saw_is_put_to_a_person(running: Running, tmp_path: Path) -> None:
    """Nothing is guessed: they say what became of it."""
    book = tmp_path / "book"
    ship = {"id": "s", "kind": "tool", "tool": "ship", "arguments": {"path": str(book), "what": "x", "loses": "after"}}
    handle = await start(running, pipeline_of(ship))
    asked = await until(handle, lambda view: bool(view.pending), "a person is asked")
    assert "did not report its end" in asked.pending[0].doubt
    await handle.signal("settle", {"id": "s", "settlement": "done", "by": "ann"})
    assert (await result(handle)).outcome == "completed"
    assert len(lines(book)) == 1


async def test_a_paused_run_begins_nothing_and_acts_that_make_no_sense_are_refused(
    running: Running, tmp_path: Path
) -> None:
    """Each with the reason."""
    book = tmp_path / "book"
    handle = await start(running, pipeline_of(GATE, put("a", book)))
    await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
    await handle.execute_update("pause", {"by": "ann"})
    for name, act, why in (
        ("approve", {"id": "no"}, "'no' does not wait for approval; waiting: ok"),
        ("approve", {"id": "ok", "arguments": {}}, "a step's arguments are those of its pipeline"),
        ("settle", {"id": "ok", "settlement": "done"}, "ok does not wait to be settled"),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update(name, act)
        assert why in str(caught.value.cause)
    await handle.signal("message", {"text": "hello"})
    view = await until(handle, lambda view: "a pipeline takes" in view.recent[-1], "it is refused")
    assert view.phase == "paused"
    await handle.execute_update("approve", {"id": "ok", "by": "ann"})
    await handle.execute_update("resume", {"by": "ann"})
    assert (await result(handle)).outcome == "completed"


async def test_what_an_agent_waits_for_is_shown_and_decided_at_the_pipeline(running: Running, model: FakeModel) -> None:
    """Its own acts too: a question is answered there."""
    model.replies = [calls(("echo", '{"text": "x"}')), answers]
    agent = {"id": "a", "kind": "agent", "agent": "worker", "task": "Work."}
    asks = AGENT.model_copy(update={"approval": {"echo": Asking(mode="ask")}})
    handle = await start(running, pipeline_of(agent), agent=asks)
    asked = await until(handle, lambda view: bool(view.pending), "the agent's call is shown")
    assert (asked.pending[0].id, asked.pending[0].tool) == (f"{handle.id}.a/t1c1", "echo")
    assert asked.phase == "awaiting_approval"
    await handle.signal("approve", {"id": asked.pending[0].id, "by": "ann"})
    ended = await result(handle)
    assert ended.outcome == "completed"
    assert not (await state(handle)).pending


async def test_a_failure_stops_the_agents_that_still_run(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """They are stopped, not left behind; then the run ends, and what was done is undone."""
    model.replies = [calls(("echo", '{"text": "x"}'))]
    book = tmp_path / "book"
    (tmp_path / "b.fails").touch()
    agent = {"id": "a", "kind": "agent", "agent": "worker", "task": "Work."}
    both = {"id": "all", "kind": "parallel", "steps": [agent, {**GATE, "needs": []}, put("b", book, needs=["ok"])]}
    asks = AGENT.model_copy(update={"approval": {"echo": Asking(mode="ask")}})
    pipeline = pipeline_of(put("first", book, undone=True), both, on_failure="compensate")
    handle = await start(running, pipeline, agent=asks)
    await until(handle, lambda view: len(view.pending) == 2, "the agent and the gate wait")
    await handle.signal("approve", {"id": "ok", "by": "ann"})
    with pytest.raises(WorkflowFailureError) as caught:
        await result(handle)
    assert "b failed: b can't be written" in str(caught.value.cause)
    assert lines(book) == ["first", "undo first"]
    assert (
        await running.client.get_workflow_handle(f"{handle.id}.a").describe()
    ).status == WorkflowExecutionStatus.CANCELED


async def test_a_cancel_waits_for_what_runs_before_it_undoes(running: Running, tmp_path: Path) -> None:
    """A tool that is stopped in its middle may have done a part: its undo runs, too, and last of all begins."""
    book, never = tmp_path / "book", tmp_path / "never"
    waits = {"id": "w", "kind": "tool", "tool": "wait_for_file", "arguments": {"path": str(never), "starts": str(book)}}
    undo = {"tool": "put_line", "arguments": {"book": str(book), "line": "undo w"}}
    pipeline = pipeline_of(put("a", book, undone=True), {**waits, "undo": undo}, on_cancel="compensate")
    handle = await start(running, pipeline)
    await wait_until(lambda: len(lines(book)) == 2, description="the tool has started")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await result(handle)
    assert lines(book)[2:] == ["undo w", "undo a"]
    assert statuses(await state(handle)) == {"a": "undone", "w": "undone"}


async def test_a_store_that_refuses_pauses_the_run_and_nothing_is_lost(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """At its opening, and when its end is written."""
    broken, book = BrokenBlobStore(blobs), tmp_path / "book"
    broken.fail("put", "refused")
    async with worker_for(client, tested, broken, FakeModel([])) as running:
        handle = await start(running, pipeline_of(put("a", book), GATE))
        paused = await until(handle, lambda view: view.phase == "paused", "it is paused")
        assert "a test has made the store refuse" in paused.paused
        broken.heal()
        await handle.signal("resume", {"by": "ann"})
        await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
        broken.fail("put", "refused")
        await handle.signal("approve", {"by": "ann"})
        await until(handle, lambda view: bool(view.paused), "its end can't be written")
        broken.heal()
        await handle.signal("resume", {"by": "ann"})
        assert (await result(handle)).outcome == "completed"
        assert [entry.kind for entry in await entries(running, await state(handle))][-1] in {"finalized", "resumed"}
    assert lines(book) == ["a"]


async def test_many_signals_at_once_are_all_taken(running: Running, tmp_path: Path) -> None:
    """Each refusal is told; the one that counts is not lost among them."""
    handle = await start(running, pipeline_of(GATE, put("a", tmp_path / "book")))
    await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
    await asyncio.gather(*(handle.signal("approve", {"id": f"x{number}"}) for number in range(300)))
    await handle.signal("approve", {"id": "ok", "by": "ann"})
    assert (await result(handle)).outcome == "completed"
    record = await entries(running, await state(handle))
    assert sum(entry.kind == "refused" for entry in record) == 300


async def test_a_cancel_does_not_disturb_an_undo(running: Running, tmp_path: Path) -> None:
    """What is taken back is taken back once, to its end."""
    book, there, starts = tmp_path / "book", tmp_path / "there", tmp_path / "starts"
    (tmp_path / "b.fails").touch()
    undo = {"tool": "wait_for_file", "arguments": {"path": str(there), "starts": str(starts)}}
    pipeline = pipeline_of(put("a", book, undo=undo), put("b", book), on_failure="compensate")
    handle = await start(running, pipeline)
    await wait_until(lambda: len(lines(starts)) == 1, description="the undo has begun")
    await handle.cancel()
    there.touch()
    with pytest.raises(WorkflowFailureError):
        await result(handle)
    assert statuses(await state(handle)) == {"a": "undone", "b": "failed"}
    assert len(lines(starts)) == 1
