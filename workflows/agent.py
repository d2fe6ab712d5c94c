"""The workflow `Agent`: a durable shell around `core`.

It asks `core.steps.next_step` what to do, does that as activities, and applies what came back. It holds the journal's
head and the newest entries, never the conversation, so its history grows by the same few KB each turn.
"""

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from core import fold
    from core.approvals import ACT_NAMES, ActName, act_on
    from core.content import one_line
    from core.entries import Closed, Entry, Paused, Refused, RunRef, ToolFinished
    from core.failures import Failure
    from core.journal import Head
    from core.results import result_of
    from core.runs import (
        AgentInput,
        AskInput,
        CloseInput,
        CommitInput,
        CompactInput,
        Continued,
        OpenInput,
        Position,
        RunResult,
        RunSpec,
    )
    from core.state import RunState
    from core.steps import AskModel, Commit, Compact, Finish, Record, RunCalls, Wait, next_step
    from core.tools import Call
    from core.view import Progress, StateView, details, progress, state_view
    from workflows import dispatch
    from workflows.dispatch import NOTHING, read_input, total

PHASE = SearchAttributeKey.for_keyword("AgentPhase")

SIGNALS_PER_GENERATION = 2000
"""After so many signals a run goes on in a new Temporal run: at 10,000 Temporal refuses any further one."""


@workflow.defn(name="Agent")
class Agent:
    """One run of an agent: input `AgentInput`, result `RunResult`; signals `approve`, `reject`, `resume`."""

    @workflow.init
    def __init__(self, raw: RawValue = NOTHING) -> None:
        """Signals may come before `run` begins, so the state is there from the start."""
        self._input = read_input(raw)
        before = self._input if isinstance(self._input, Continued) else None
        self._spec = before.spec if before else None
        self._state = before.state if before else RunState()
        self._generation = before.generation if before else 1
        self._search_attributes = not isinstance(self._input, ApplicationError) and self._input.search_attributes
        self._shown_phase = "running"
        self._changes = 0
        self._signals = 0
        self._calls: dict[str, asyncio.Task[None]] = {}

    @workflow.run
    async def run(self, raw: RawValue = NOTHING) -> RunResult:  # noqa: ARG002 - read in `__init__`
        """Run the agent to its end.

        Raises:
            ApplicationError: the start input can't be read, or names a tool that no worker has (`InputError`).
        """
        try:
            spec = self._spec or await self._open()
            finish = await self._until_finished(spec)
            return await self._close(spec, finish)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error):
                await self._close_cancelled()
            elif isinstance(error, ApplicationError):
                self._apply(self._last_entry(Finish(outcome="failed", reason=one_line(error.message, 1000))))
            raise

    @workflow.query(description="The run for people: phase, what waits, usage, last steps. Not the conversation.")
    def state(self) -> StateView:
        """Answer with all but the conversation."""
        return state_view(self._spec, self._state)

    @workflow.query(description="A few numbers for a progress line.")
    def progress(self) -> Progress:
        """Answer with little, for polling."""
        return progress(self._state)

    @workflow.query(description="Where the journal is, and the entries that are not yet in it; null before it opened.")
    def position(self) -> Position | None:
        """Answer with what is needed to read or fork a run that is not closed."""
        state, spec = self._state, self._spec
        return None if spec is None or state.head is None else Position(run=spec.run, head=state.head, tail=state.tail)

    @workflow.signal(description='Approve a waiting call: {"id": "t3c1", "by": "you"}, or {} when only one waits.')
    @total
    def approve(self, act: RawValue = NOTHING) -> None:
        """Let a waiting call run."""
        self._act("approve", act)

    @workflow.signal(description='Reject a waiting call: {"id": "t3c1", "by": "you", "reason": "why"}.')
    @total
    def reject(self, act: RawValue = NOTHING) -> None:
        """Let the model know that the call was not run, and why."""
        self._act("reject", act)

    @workflow.signal(description='Let a paused run go on: {"by": "you"}, or {}.')
    @total
    def resume(self, act: RawValue = NOTHING) -> None:
        """Go on after a pause."""
        self._act("resume", act)

    @workflow.signal(dynamic=True, description="Any other signal is refused, and the refusal recorded.")
    def unknown(self, name: str, _sent: Sequence[RawValue]) -> None:
        """Record a signal that nobody knows, so that its sender can see why nothing came of it."""
        self._signals += 1
        why = f"there is no such signal; known: {', '.join(ACT_NAMES)}"
        self._apply(Refused(at=workflow.now(), turn=self._state.turn, act=one_line(name, 60), why=why))

    def _act(self, name: ActName, act: RawValue) -> None:
        self._signals += 1
        self._apply(act_on(self._state, name, act.payload.data, workflow.now()))

    async def _open(self) -> RunSpec:
        """Open the run; a store that refuses only pauses it."""
        if not isinstance(self._input, AgentInput):
            raise self._input if isinstance(self._input, ApplicationError) else RuntimeError("a run opens once")
        info = workflow.info()
        scope = self._input.fork.run.scope if self._input.fork else info.workflow_id
        run = RunRef(scope=scope, workflow_id=info.workflow_id, run_id=info.run_id)
        opening = OpenInput(run=run, start=self._input, started_at=info.start_time)
        while isinstance(opened := await dispatch.open_run(opening), Failure):
            await self._paused(opened)
        self._spec = opened.spec
        self._become(fold.opened(self._state, opened.state))
        return opened.spec

    async def _until_finished(self, spec: RunSpec) -> Finish:
        """Carry out one step after the other."""
        while True:
            if self._is_long(spec):
                await self._continue(spec)
            match next_step(spec, self._state, workflow.now()):
                case Record(entry=entry):
                    self._apply(entry)
                case AskModel(turn=turn):
                    await self._ask(spec, turn)
                case RunCalls(calls=calls):
                    self._start_calls(spec, calls)
                case Commit():
                    await self._commit(spec)
                case Compact(drop=drop):
                    await self._compact(spec, drop=drop)
                case Wait():
                    await self._changed()
                case Finish() as finish:
                    return finish

    async def _ask(self, spec: RunSpec, turn: int) -> None:
        tail = self._state.tail
        asked = await dispatch.ask_model(spec, AskInput(run=spec.run, head=self._head(), tail=tail, turn=turn))
        if not isinstance(asked, Failure):
            self._become(fold.added(self._state, asked.reply, asked.head, len(tail)))
        elif asked.kind == "ContextTooLong" and spec.context.policy == "compact":
            self._become(fold.overflowed(self._state, spec.context.window_tokens))
        else:
            self._pause(asked)

    async def _compact(self, spec: RunSpec, *, drop: bool) -> None:
        state = self._state
        compact = CompactInput(run=spec.run, head=self._head(), tail=state.tail, turn=state.turn, drop=drop)
        compacted = await dispatch.compact(spec, compact)
        if isinstance(compacted, Failure):
            self._pause(compacted)
        else:
            self._become(fold.added(self._state, compacted.entry, compacted.head, len(state.tail)))

    def _start_calls(self, spec: RunSpec, calls: Sequence[Call]) -> None:
        self._become(fold.started(self._state, [call.id for call in calls]))
        for call in calls:
            self._calls[call.id] = asyncio.create_task(self._run_call(spec, call))

    async def _run_call(self, spec: RunSpec, call: Call) -> None:
        result = await dispatch.run_call(spec, call, self._state.turn)
        del self._calls[call.id]
        if isinstance(result, ToolFinished):
            self._apply(result)
        else:
            self._become(fold.put_back(self._state, call.id))
            self._pause(result)

    async def _commit(self, spec: RunSpec, calls: Sequence[Call] = ()) -> bool:
        tail = self._state.tail
        write = CommitInput(run=spec.run, head=self._head(), tail=tail, calls=tuple(calls))
        written = await dispatch.commit(spec, write)
        if isinstance(written, Failure):
            self._pause(written)
            return False
        self._become(fold.carried(fold.committed(self._state, written.head, len(tail)), written.calls))
        return True

    def _is_long(self, spec: RunSpec) -> bool:
        """Say whether to go on in a new Temporal run: the history is long, and nothing is under way."""
        info = workflow.info()
        long = info.is_continue_as_new_suggested() or info.get_current_history_length() >= spec.events_per_generation
        return (long or self._signals >= SIGNALS_PER_GENERATION) and not self._calls

    async def _continue(self, spec: RunSpec) -> None:
        """Write the tail, and hand all that the workflow knows to a new Temporal run; handlers end at once here."""
        await self._commit(spec, [entry.call for entry in self._state.open_calls])
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(Continued(spec=spec, state=self._state, generation=self._generation + 1))

    async def _close(self, spec: RunSpec, finish: Finish) -> RunResult:
        """Close the journal and return the result; a store that refuses only pauses the run."""
        while isinstance(closed := await dispatch.close_run(spec, self._closing(spec, finish)), Failure):
            await self._paused(closed)
        self._apply(self._last_entry(finish))
        return closed

    async def _close_cancelled(self) -> None:
        """Stop what runs, keep what it gave, and close the journal: it can be read as that of any other run."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        self._become(fold.interrupted(self._state, workflow.now()))
        finish = Finish(outcome="cancelled", reason="cancelled by request")
        if self._spec is not None:
            closed = await dispatch.close_run(self._spec, self._closing(self._spec, finish))
            if isinstance(closed, Failure):
                workflow.logger.warning("the journal of a cancelled run could not be closed: %s", closed.text)
        self._apply(self._last_entry(finish))

    def _closing(self, spec: RunSpec, finish: Finish) -> CloseInput:
        result = result_of(spec, self._state, finish.outcome, finish.reason, workflow.now())
        tail = (*self._state.tail, self._last_entry(finish))
        return CloseInput(run=spec.run, head=self._head(), tail=tail, agent=spec.agent, result=result)

    def _last_entry(self, finish: Finish) -> Closed:
        return Closed(at=workflow.now(), turn=self._state.turn, outcome=finish.outcome, reason=finish.reason)

    def _pause(self, failure: Failure) -> None:
        why = one_line(failure.text, 1000)
        self._apply(Paused(at=workflow.now(), turn=self._state.turn, cause="failure", why=why))

    async def _paused(self, failure: Failure) -> None:
        """Pause until a person lets the run go on."""
        self._pause(failure)
        await workflow.wait_condition(lambda: self._state.paused is None)

    async def _changed(self) -> None:
        """Wait until a call has ended or a person has acted."""
        seen = self._changes
        await workflow.wait_condition(lambda: self._changes != seen or self._crashed() is not None)
        if (crashed := self._crashed()) is not None:
            crashed.result()

    def _crashed(self) -> asyncio.Task[None] | None:
        """Return a call's task that ended by a fault of ours: it must be seen, not waited for."""
        return next((task for task in self._calls.values() if task.done()), None)

    def _apply(self, entry: Entry) -> None:
        self._become(fold.apply(self._state, entry))

    def _become(self, state: RunState) -> None:
        """Take the new state, and show it in the Temporal UI."""
        self._state = state
        self._changes += 1
        workflow.set_current_details(details(self._spec, state, workflow.info().workflow_id))
        phase = "running" if state.phase in {"opening", "thinking", "acting"} else state.phase
        if self._search_attributes and phase != self._shown_phase:
            self._shown_phase = phase
            workflow.upsert_search_attributes([PHASE.value_set(phase)])

    def _head(self) -> Head:
        if self._state.head is None:
            raise RuntimeError("the run has no journal yet")
        return self._state.head
