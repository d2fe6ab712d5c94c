"""A run of a pipeline in its workflow: the state, and each step of the rules carried out.

`core.pipelines.steps.next_steps` says what to do, `workflows.pipeline_work` does it, `core.pipelines.fold` takes in
what came of it.
"""

import asyncio
import json
from contextlib import suppress
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from core.content import one_line
    from core.entries import Forwarded, Paused, Refused, RunRef
    from core.failures import Failure
    from core.pipelines import fold, steps
    from core.pipelines.calls import Begin, Record, Verify
    from core.pipelines.details import details
    from core.pipelines.entries import Ended, Ending, Finalized, PipelineEntry
    from core.pipelines.plan import Plan
    from core.pipelines.results import result_of
    from core.pipelines.runs import (
        ClosePipelineInput,
        ContinuedPipeline,
        OpenPipelineInput,
        PipelineInput,
        PipelineResult,
        PipelineSpec,
        RecordInput,
    )
    from core.pipelines.state import PipelineState
    from workflows import pipeline_dispatch
    from workflows.inbox import Inbox
    from workflows.pipeline_work import PHASE, Work

SIGNALS_PER_GENERATION = 2000
UPDATES_PER_GENERATION = 500
ANSWERING = timedelta(milliseconds=1)
CLOSINGS = 10
PART = 60
"""So many entries are written at once, at most."""
RUNNING = frozenset({"init", "processing", "approved", "finalizing", "undoing", "rejected"})


class PipelineRun:
    """What one Temporal run knows of its run of a pipeline, and does. `before` is what an earlier one handed on."""

    def __init__(self, before: ContinuedPipeline | None) -> None:
        self.spec = before.spec if before else None
        self.state = before.state if before else PipelineState()
        self.changes = 0
        self.signals = 0
        self.updates = 0
        self.leaving = False
        self.inbox: Inbox[PipelineEntry] = Inbox(self)
        self._accepted_at = 0
        self._passing: list[asyncio.Task[None]] = []
        self._generation = before.generation if before else 1
        self._search_attributes = before is not None and before.spec.tools.search_attributes
        self._shown_phase = "" if before else "running"
        self._is_shown = True
        self._plan = Plan(before.spec.pipeline) if before else None
        self._work = Work(self, self.plan, self.spec) if self.spec else None

    @property
    def plan(self) -> Plan:
        """The plan; a run that has opened has one."""
        if self._plan is None:
            raise RuntimeError("the run has not opened")
        return self._plan

    @property
    def work(self) -> Work:
        """What is under way."""
        if self._work is None:
            raise RuntimeError("the run has not opened")
        return self._work

    def apply(self, entry: PipelineEntry) -> None:
        """Take in an entry, and what it makes of the whole run."""
        self.become(fold.apply(self.state, entry))
        if isinstance(entry, Forwarded):
            self._passing.append(asyncio.create_task(self._pass_on(entry)))
        if isinstance(entry, Ended) and (ending := steps.after(self.plan, self.state, entry)) is not None:
            self.become(fold.apply(self.state, ending))

    def become(self, state: PipelineState) -> None:
        """Take the new state, and show it in the Temporal UI."""
        self.state = state
        self.changes += 1
        if self._is_shown:  # once for all changes of a moment
            self._is_shown = False
            asyncio.get_running_loop().call_soon(self._show)
        phase = "running" if state.phase in RUNNING else state.phase
        if self._search_attributes and phase != self._shown_phase:
            self._shown_phase = phase
            workflow.upsert_search_attributes([PHASE.value_set(phase)])

    def _show(self) -> None:
        self._is_shown = True
        workflow.set_current_details(details(self.spec, self.state, workflow.info().workflow_id))

    def pause(self, failure: Failure) -> None:
        """Pause with the reason, until a person lets the run go on."""
        self.apply(Paused(at=workflow.now(), cause="failure", why=one_line(failure.text, 1000)))

    async def _pass_on(self, entry: Forwarded) -> None:
        try:
            await workflow.get_external_workflow_handle(entry.to).signal(entry.act, json.loads(entry.said.text or "{}"))
        except FailureError as error:
            why = f"{entry.to} can not be reached: {one_line(str(error), 200)}"
            self.apply(Refused(at=workflow.now(), act=entry.act, why=why))

    async def open(self, start: PipelineInput | ContinuedPipeline | ApplicationError) -> PipelineSpec:
        """Open the run; a store that refuses only pauses it.

        Raises:
            ApplicationError: the start input can't be read, or is wrong (`InputError`).
        """
        if not isinstance(start, PipelineInput):
            raise start if isinstance(start, Exception) else RuntimeError("a run that goes on is open already")
        self._search_attributes = start.search_attributes
        info = workflow.info()
        scope = start.reuse.origin.scope if start.reuse else info.workflow_id
        run = RunRef(scope=scope, workflow_id=info.workflow_id, run_id=info.run_id)
        opening = OpenPipelineInput(run=run, start=start, started_at=info.start_time)
        while isinstance(opened := await pipeline_dispatch.open_pipeline(opening), Failure):
            self.pause(opened)
            await workflow.wait_condition(lambda: self.state.paused is None)
        self.spec, self._plan = opened.spec, Plan(opened.spec.pipeline)
        self._work = Work(self, self._plan, self.spec)
        state = opened.state
        for entry in self.state.tail:
            state = fold.apply(state, entry)
        self.become(state)
        return opened.spec

    async def until_finished(self, spec: PipelineSpec) -> steps.Finish:
        """Carry out what is next, until nothing is."""
        while True:
            long = self._is_long(spec)
            if long and not self.work:
                await self._continue(spec)
            todo = steps.next_steps(self.plan, spec.tools, self.state, workflow.now())
            if long:  # what is under way comes to its end first: an agent can't be handed on
                todo = tuple(do for do in todo if not isinstance(do, steps.Prepare | Begin | Verify))
            for do in todo or (steps.Wait(until=steps.wakes_at(self.state)),):
                if isinstance(do, steps.Finish):
                    return do
                await self._carry_out(spec, do)

    async def _carry_out(self, spec: PipelineSpec, do: steps.Do) -> None:
        match do:
            case Record(entry=entry):
                self.apply(entry)
            case steps.Prepare(key=key, undo=undo):
                self.work.prepare(key, undo=undo)
            case Begin(key=key):
                self.work.begin(key)
            case Verify(key=key):
                self.work.verify(key)
            case steps.Stop(key=key):
                self.work.stop(key)
            case steps.Commit():
                await self._commit(spec)
            case steps.Wait(until=until):
                await self._changed(until)

    async def _commit(self, spec: PipelineSpec) -> bool:
        part = self.state.tail[:PART]
        write = RecordInput(run=spec.run, head=self.state.head, tail=part, texts=fold.to_store(self.state))
        written = await pipeline_dispatch.record(write, spec.tools.heartbeat_timeout)
        if isinstance(written, Failure):
            self.pause(written)
            return False
        self.become(fold.committed(self.state, written.head, len(part), written.texts))
        return True

    def _is_long(self, spec: PipelineSpec) -> bool:
        info = workflow.info()
        long = info.is_continue_as_new_suggested()
        long = long or info.get_current_history_length() >= spec.tools.events_per_generation
        return long or self.signals >= SIGNALS_PER_GENERATION or self.updates >= UPDATES_PER_GENERATION

    def accepted(self) -> None:
        """Take note that an update was accepted, and in which task."""
        self.updates += 1
        self._accepted_at = workflow.info().get_current_history_length()

    async def _continue(self, spec: PipelineSpec) -> None:
        """Write the tail, and hand all that the workflow knows to a new Temporal run."""
        while self.state.tail or self.inbox:
            if not self.state.tail:
                await workflow.wait_condition(lambda: bool(self.state.tail) or not self.inbox)
                continue
            if not await self._commit(spec):
                return
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.leaving = True
        if self._accepted_at == workflow.info().get_current_history_length():
            await workflow.sleep(ANSWERING, summary="answers before it goes on in a new Temporal run")
        workflow.continue_as_new(ContinuedPipeline(spec=spec, state=self.state, generation=self._generation + 1))

    async def cancelled(self) -> None:
        """Stop what is under way, and go on to the end as a cancelled run; one that undoes already is not disturbed."""
        if self.spec is None or self.state.ending is not None:
            return
        await self.work.cancel()
        now = workflow.now()
        compensate = self.spec.pipeline.on_cancel == "compensate"
        self.apply(Ending(at=now, outcome="cancelled", reason="cancelled by request", compensate=compensate))
        if self.state.paused is not None:
            self.become(self.state.model_copy(update={"paused": None}))
        self.become(fold.interrupted(self.state, now))

    async def close(self, spec: PipelineSpec, finish: steps.Finish) -> PipelineResult:
        """Write the end and return the result; a store that refuses only pauses the run, unless it was cancelled."""
        self.become(fold.finishing(self.state, finish.outcome))
        self.apply(Finalized(at=workflow.now(), outcome=finish.outcome, reason=finish.reason))
        result = result_of(spec, self.plan, self.state, workflow.now())
        for _ in range(CLOSINGS):
            tail = self.state.tail
            closing = ClosePipelineInput(run=spec.run, head=self.state.head, tail=tail, result=result)
            closed = await pipeline_dispatch.close_pipeline(closing, spec.tools.heartbeat_timeout)
            if isinstance(closed, Failure):
                self.pause(closed)
                await workflow.wait_condition(lambda: self.state.paused is None)
                continue
            result = closed
            self.become(fold.committed(self.state, closed.head, len(tail), {}))
            if not self.state.tail and not self.inbox:
                break
        return result

    async def _changed(self, until: datetime | None) -> None:
        """Wait until something has ended or a person has acted, or it is `until`."""
        seen = self.changes
        timeout = max(until - workflow.now(), timedelta()) if until is not None else None
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.changes != seen or self.work.crashed() is not None,
                timeout=timeout,
                timeout_summary="until a gate's time is over, or a step is tried again",
            )
        if (crashed := self.work.crashed()) is not None:
            crashed.result()
