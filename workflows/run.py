"""A run in its workflow: the state, and each step of the rules carried out as activities.

`core.steps.next_step` says what to do, `workflows.dispatch` does it, `core.fold` takes in what came of it.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from core import fold
    from core.below import passed_on
    from core.content import one_line
    from core.entries import Closed, Entry, Refused, RunRef
    from core.errors import BlobCorrupt
    from core.failures import Failure
    from core.results import result_of
    from core.runs import (
        AgentInput,
        CloseInput,
        CommitInput,
        Continued,
        OpenInput,
        RunResult,
        RunSpec,
    )
    from core.sizes import carried_bytes, first_part
    from core.steps import AskModel, Check, Commit, Compact, Finish, Record, RunCalls, Verify, Wait, next_step
    from core.tools import Call
    from workflows import dispatch, thinking
    from workflows.below import Below
    from workflows.calls import Calls
    from workflows.held import HeldState
    from workflows.inbox import Inbox

SIGNALS_PER_GENERATION = 2000
UPDATES_PER_GENERATION = 500
"""After so many a run goes on in a new Temporal run: at 10,000 signals or 2,000 updates Temporal refuses more."""

CARRIED_BYTES = 768 * 1024
"""A state that would be longer is not carried on yet: what is sent must stay far below what Temporal takes."""
CARRIED_TAIL_BYTES = 512
CARRYING_COMMITS = 5
"""Before it is handed on, the tail is written until next to nothing is left of it; acts may come in all the while."""

REASON_CHARACTERS = 2000
"""Longest reason of a failed run that Temporal is told."""

ANSWERING = timedelta(milliseconds=1)

CLOSINGS = 10
"""So often an ended journal is written on, behind acts that come in: who never stops sending can not keep a run."""


class Run(HeldState):
    """What one Temporal run knows of its run of an agent, and does. `before` is what an earlier one handed on."""

    def __init__(self, before: Continued | None) -> None:
        super().__init__(before)
        self.signals = 0
        self.updates = 0
        self.leaving = False
        """Whether the run goes on in a new Temporal run in this moment: no update is taken any more."""
        self._accepted_at = 0
        self._generation = before.generation if before else 1
        self._calls = Calls(self)
        self.inbox: Inbox[Entry] = Inbox(self)
        self._below = Below(self, anew=before is not None)

    async def open(self, start: AgentInput | Continued | ApplicationError | BlobCorrupt) -> RunSpec:
        """Open the run; a store that refuses only pauses it.

        Raises:
            ApplicationError: the start input can't be read, or is wrong (`InputError`).
            BlobCorrupt: a newer version carried the run on; the task is tried again, by a worker that can read it.
        """
        if not isinstance(start, AgentInput):
            raise start if isinstance(start, Exception) else RuntimeError("a run that goes on is open already")
        self.search_attributes = start.search_attributes
        info = workflow.info()
        scope = start.scope or (start.fork.run.scope if start.fork else info.workflow_id)
        run = RunRef(scope=scope, workflow_id=info.workflow_id, run_id=info.run_id)
        opening = OpenInput(run=run, start=start, started_at=info.start_time)
        while isinstance(opened := await dispatch.open_run(opening), Failure):
            await self._paused(opened)
        self.spec = opened.spec
        self.become(fold.opened(self.state, opened.state))
        return opened.spec

    async def until_finished(self, spec: RunSpec) -> Finish:
        """Carry out one step after the other; the run above, if there is one, is told what waits."""
        self._below.tell(spec)
        while True:
            if self._is_long(spec):
                await self._continue(spec)
            match next_step(spec, self.state, workflow.now()):
                case Record(entry=entry):
                    self.apply(entry)
                case AskModel(turn=turn):
                    if (finish := await thinking.ask(self, spec, turn)) is not None:
                        return finish
                case RunCalls(calls=calls):
                    self._calls.start(spec, calls)
                case Verify(call=call):
                    self._calls.verify(spec, call)
                case Check(call=call, arguments=arguments):
                    self._calls.check(spec, call, arguments)
                case Commit():
                    await self._commit(spec)
                case Compact(drop=drop):
                    await thinking.compact(self, spec, drop=drop)
                case Wait(until=until):
                    await self._changed(until)
                case Finish() as finish:
                    return finish

    def apply(self, entry: Entry) -> None:
        """Take in an entry; an act that is for a run below is passed on."""
        super().apply(entry)
        for forwarded in passed_on(self.state, entry):
            self._below.pass_on(forwarded)

    async def _commit(self, spec: RunSpec, calls: Sequence[Call] = ()) -> bool:
        part = first_part(self.state.tail)
        write = CommitInput(run=spec.run, head=self.head, tail=part, calls=tuple(calls))
        written = await dispatch.commit(spec, write)
        if isinstance(written, Failure):
            self.pause(written)
            return False
        self.become(fold.carried(fold.committed(self.state, written.head, len(part)), written.calls))
        return True

    def _is_long(self, spec: RunSpec) -> bool:
        """Say whether to go on in a new Temporal run: the history is long, and nothing is under way."""
        info = workflow.info()
        long = info.is_continue_as_new_suggested() or info.get_current_history_length() >= spec.events_per_generation
        many = self.signals >= SIGNALS_PER_GENERATION or self.updates >= UPDATES_PER_GENERATION
        return (
            (long or many)
            and not (self._calls or self.inbox or self._below)
            and carried_bytes(self.state) <= CARRIED_BYTES
        )

    def accepted(self) -> None:
        """Take note that an update was accepted, and in which task."""
        self.updates += 1
        self._accepted_at = workflow.info().get_current_history_length()

    async def _continue(self, spec: RunSpec) -> None:
        """Write the tail, and hand all that the workflow knows to a new Temporal run; handlers end at once here."""
        self.become(fold.all_recorded(self.state))
        calls = [entry.call for entry in self.state.open_calls]
        for _ in range(CARRYING_COMMITS):
            if not await self._commit(spec, calls) or (self.state.tail_bytes <= CARRIED_TAIL_BYTES and not self.inbox):
                break
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.leaving = True
        if self._accepted_at == workflow.info().get_current_history_length():
            # An update that is answered in the same task as the change might be applied once more after it.
            await workflow.sleep(ANSWERING, summary="answers before it goes on in a new Temporal run")
        if self.inbox or self._below:  # what was sent to this Temporal run is read, and passed on, first
            self.leaving = False
            return
        workflow.continue_as_new(Continued(spec=spec, state=self.state, generation=self._generation + 1))

    async def close(self, spec: RunSpec, finish: Finish) -> RunResult:
        """Close the journal and return the result; a store that refuses only pauses the run.

        Acts that come in meanwhile are refused and written behind the end; if they never cease, the last are counted.

        Raises:
            ApplicationError: the run has failed (`RunFailed`): its agent wants no pause then.
        """
        self.apply(self.last_entry(finish))
        result = result_of(spec, self.state, finish.outcome, finish.reason, workflow.now())
        closings = 0
        while isinstance(closed := await self._written(spec, result), Failure) or not self._is_closed(closings):
            closings += 1
            if isinstance(closed, Failure):
                await self._paused(closed)
        if finish.outcome == "failed":
            raise ApplicationError(one_line(finish.reason, REASON_CHARACTERS), type="RunFailed", non_retryable=True)
        return closed.model_copy(update={"late_acts": len(self.state.tail) + len(self.inbox)})

    async def close_cancelled(self) -> None:
        """Stop what runs, keep what it gave, and close the journal: it can be read as that of any other run."""
        await self._calls.cancel()
        self.become(fold.interrupted(self.state, workflow.now()))
        finish = Finish(outcome="cancelled", reason="cancelled by request")
        self.apply(self.last_entry(finish))
        if self.spec is None:
            return
        result = result_of(self.spec, self.state, finish.outcome, finish.reason, workflow.now())
        closings = 0
        while not self._is_closed(closings):
            closings += 1
            if isinstance(closed := await self._written(self.spec, result), Failure):
                workflow.logger.warning("the journal of a cancelled run could not be closed: %s", closed.text)
                return

    def _is_closed(self, closings: int) -> bool:
        """Say whether all is written, or all but acts on an ended run that come in faster than they can be written."""
        tail = self.state.tail
        return not (tail or self.inbox) or (closings >= CLOSINGS and all(isinstance(entry, Refused) for entry in tail))

    async def _written(self, spec: RunSpec, result: RunResult) -> RunResult | Failure:
        """Write the tail, as much as goes at once, and the manifest behind it."""
        if not self.state.tail:
            await workflow.wait_condition(lambda: bool(self.state.tail))
        part = first_part(self.state.tail)
        closing = CloseInput(run=spec.run, head=self.head, tail=part, agent=spec.agent, result=result)
        closed = await dispatch.close_run(spec, closing)
        if not isinstance(closed, Failure):
            self.become(fold.committed(self.state, closed.head or self.head, len(part)))
        return closed

    def last_entry(self, finish: Finish) -> Closed:
        """Return the entry that ends the run now."""
        return Closed(at=workflow.now(), turn=self.state.turn, outcome=finish.outcome, reason=finish.reason)

    async def _paused(self, failure: Failure) -> None:
        """Pause until a person lets the run go on."""
        self.pause(failure)
        await workflow.wait_condition(lambda: self.state.paused is None)

    async def _changed(self, until: datetime | None) -> None:
        """Wait until a call has ended or a person has acted, or it is `until`."""
        seen = self.changes
        timeout = max(until - workflow.now(), timedelta()) if until is not None else None
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self.changes != seen or self._calls.crashed() is not None,
                timeout=timeout,
                timeout_summary="until a request for approval is over, or shown again",
            )
        if (crashed := self._calls.crashed()) is not None:
            crashed.result()
