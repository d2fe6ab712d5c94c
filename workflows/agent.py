"""The workflow `Agent`: what it is started with, what it can be asked, what people can send it.

A durable shell around `core`: it holds the journal's head and the newest entries, never the conversation, so its
history grows by the same few KB each turn.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from core.acts import ActName
    from core.approvals import Answer
    from core.content import one_line
    from core.runs import Continued, Position, RunResult
    from core.steps import Finish
    from core.view import Progress, StateView, progress, state_view
    from workflows.answers import answer, check
    from workflows.below import hear
    from workflows.dispatch import NOTHING, read_input, total, total_run
    from workflows.run import Run
    from workflows.signatures import taken_by


@workflow.defn(name="Agent")
class Agent:
    """One run of an agent: input `AgentInput`, result `RunResult`. Each act of people is a signal and an update."""

    @workflow.init
    @total
    def __init__(self, raw: RawValue = NOTHING) -> None:
        """Signals may come before `run` begins, so the state is there from the start."""
        self._input = read_input(raw)
        self._run = Run(self._input if isinstance(self._input, Continued) else None)

    @workflow.run
    @total_run
    async def run(self, raw: RawValue = NOTHING) -> RunResult:  # noqa: ARG002 - read in `__init__`
        """Run the agent to its end.

        Raises:
            ApplicationError: the start input can't be read, or names a tool that no worker has (`InputError`).
        """
        run = self._run
        try:
            spec = run.spec or await run.open(self._input)
            finish = await run.until_finished(spec)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error) and workflow.cancellation_reason() is not None:
                await run.close_cancelled()
            elif isinstance(error, ApplicationError):
                run.apply(run.last_entry(Finish(outcome="failed", reason=one_line(error.message, 1000))))
            raise
        # It has ended: a cancel that comes now is too late, and does not break the closing of the journal off.
        closing = asyncio.create_task(run.close(spec, finish))
        while not closing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(closing)
            if run.state.paused is not None:
                closing.cancel()  # the store is down: who cancels now does not want to wait for it
        return closing.result()

    @workflow.query(description="The run for people: phase, what waits, usage, last steps. Not the conversation.")
    def state(self) -> StateView:
        """Answer with all but the conversation."""
        return state_view(self._run.spec, self._run.state)

    @workflow.query(description="A few numbers for a progress line.")
    def progress(self) -> Progress:
        """Answer with little, for polling."""
        return progress(self._run.state)

    @workflow.query(description="Where the journal is, and the entries that are not yet in it; null before it opened.")
    def position(self) -> Position | None:
        """Answer with what is needed to read or fork a run that is not closed."""
        state, spec = self._run.state, self._run.spec
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

    @workflow.signal(description='Take back an approval: {"id": "t3c1", "by": "you"}, or {"tool": "name"}.')
    @total
    def revoke(self, act: RawValue = NOTHING) -> None:
        """Take back what was approved and has not begun."""
        self._act("revoke", act)

    @workflow.signal(
        description='Say if a call took effect: {"id": "t3c1", "settlement": "done", "by": "you"} (run_again, give_up).'
    )
    @total
    def settle(self, act: RawValue = NOTHING) -> None:
        """Say whether a call took effect whose end was not seen."""
        self._act("settle", act)

    @workflow.signal(description='Answer a question of the agent: {"id": "t3c1", "text": "the answer", "by": "you"}.')
    @total
    def answer(self, act: RawValue = NOTHING) -> None:
        """Answer a question that the agent has asked."""
        self._act("answer", act)

    @workflow.signal(description='Tell the agent something: {"text": "look at March, too", "by": "you"}.')
    @total
    def message(self, act: RawValue = NOTHING) -> None:
        """Tell the agent something; it reads it before it is asked again."""
        self._act("message", act)

    @workflow.signal(description='Pause at the next safe point: {"by": "you", "reason": "why"}, or {}.')
    @total
    def pause(self, act: RawValue = NOTHING) -> None:
        """Start nothing more until `resume`; what runs goes on to its end."""
        self._act("pause", act)

    @workflow.signal(description='Raise the limits by so much: {"turns": 20, "cost_usd": 2.5, "by": "you"}.')
    @total
    def raise_budget(self, act: RawValue = NOTHING) -> None:
        """Raise the limits; a run that is paused at one goes on."""
        self._act("raise_budget", act)

    @workflow.signal(description='Let a paused run go on: {"by": "you"}, or {}.')
    @total
    def resume(self, act: RawValue = NOTHING) -> None:
        """Go on after a pause."""
        self._act("resume", act)

    @workflow.update(name="approve", description="As the signal; answered at once, or refused with the reason.")
    @total
    def approve_now(self, act: RawValue = NOTHING) -> Answer:
        """Let a waiting call run; raises `ApplicationError` when that can't be."""
        return answer(self._run, "approve", act)

    @approve_now.validator
    @total
    def _check_approve(self, act: RawValue = NOTHING) -> None:
        check(self._run, "approve", act)

    @workflow.update(name="reject", description="As the signal; answered at once, or refused with the reason.")
    @total
    def reject_now(self, act: RawValue = NOTHING) -> Answer:
        """Let the model know that a call was not run, and why; raises `ApplicationError` when that can't be."""
        return answer(self._run, "reject", act)

    @reject_now.validator
    @total
    def _check_reject(self, act: RawValue = NOTHING) -> None:
        check(self._run, "reject", act)

    @workflow.update(name="revoke", description="As the signal; answered at once, or refused with the reason.")
    @total
    def revoke_now(self, act: RawValue = NOTHING) -> Answer:
        """Take back what was approved and has not begun; raises `ApplicationError` when that can't be."""
        return answer(self._run, "revoke", act)

    @revoke_now.validator
    @total
    def _check_revoke(self, act: RawValue = NOTHING) -> None:
        check(self._run, "revoke", act)

    @workflow.update(name="settle", description="As the signal; answered at once, or refused with the reason.")
    @total
    def settle_now(self, act: RawValue = NOTHING) -> Answer:
        """Say whether a call took effect whose end was not seen; raises `ApplicationError` when that can't be."""
        return answer(self._run, "settle", act)

    @settle_now.validator
    @total
    def _check_settle(self, act: RawValue = NOTHING) -> None:
        check(self._run, "settle", act)

    @workflow.update(name="answer", description="As the signal; answered at once, or refused with the reason.")
    @total
    def answer_now(self, act: RawValue = NOTHING) -> Answer:
        """Answer a question; raises `ApplicationError` when that can't be."""
        return answer(self._run, "answer", act)

    @answer_now.validator
    @total
    def _check_answer(self, act: RawValue = NOTHING) -> None:
        check(self._run, "answer", act)

    @workflow.update(name="message", description="As the signal; answered at once, or refused with the reason.")
    @total
    def message_now(self, act: RawValue = NOTHING) -> Answer:
        """Tell the agent something; raises `ApplicationError` when that can't be."""
        return answer(self._run, "message", act)

    @message_now.validator
    @total
    def _check_message(self, act: RawValue = NOTHING) -> None:
        check(self._run, "message", act)

    @workflow.update(name="pause", description="As the signal; answered at once, or refused with the reason.")
    @total
    def pause_now(self, act: RawValue = NOTHING) -> Answer:
        """Pause at the next safe point; raises `ApplicationError` when that can't be."""
        return answer(self._run, "pause", act)

    @pause_now.validator
    @total
    def _check_pause(self, act: RawValue = NOTHING) -> None:
        check(self._run, "pause", act)

    @workflow.update(name="raise_budget", description="As the signal; answered at once, or refused with the reason.")
    @total
    def raise_budget_now(self, act: RawValue = NOTHING) -> Answer:
        """Raise the limits; raises `ApplicationError` when that can't be."""
        return answer(self._run, "raise_budget", act)

    @raise_budget_now.validator
    @total
    def _check_raise_budget(self, act: RawValue = NOTHING) -> None:
        check(self._run, "raise_budget", act)

    @workflow.update(name="resume", description="As the signal; answered at once, or refused with the reason.")
    @total
    def resume_now(self, act: RawValue = NOTHING) -> Answer:
        """Go on after a pause; raises `ApplicationError` when that can't be."""
        return answer(self._run, "resume", act)

    @resume_now.validator
    @total
    def _check_resume(self, act: RawValue = NOTHING) -> None:
        check(self._run, "resume", act)

    @workflow.signal(dynamic=True, description="Any other signal is refused, and the refusal recorded.")
    def unknown(self, name: str, sent: Sequence[RawValue]) -> None:
        """Record a signal that nobody knows, so that its sender can see why nothing came of it."""
        self._run.signals += 1
        hear(self._run, self._run.inbox, name, sent)

    def _act(self, name: ActName, act: RawValue) -> None:
        self._run.signals += 1
        self._run.inbox.put(lambda: taken_by(self._run, name, act))
