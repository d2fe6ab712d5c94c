"""The workflow `Pipeline`: what it is started with, what it can be asked, what people can send it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from core.acts import ACT_NAMES, ActName
    from core.approvals import Answer
    from core.content import cut, one_line
    from core.entries import Refused
    from core.pipelines.acts import PIPELINE_ACTS
    from core.pipelines.runs import ContinuedPipeline, PipelineResult, PipelineSpec
    from core.pipelines.steps import Finish
    from core.pipelines.view import PipelineView, pipeline_view
    from workflows.below import WAITS_BELOW
    from workflows.dispatch import NOTHING, total, total_run
    from workflows.pipeline_acts import answer, check, hear, taken_by
    from workflows.pipeline_dispatch import read_start
    from workflows.pipeline_run import PipelineRun

FAILED = "PipelineFailed"
"""The type of the error with which a run fails; its details are the `PipelineResult`."""


@workflow.defn(name="Pipeline")
class Pipeline:
    """One run of a pipeline: input `PipelineInput`, result `PipelineResult`. Acts are signals and updates."""

    @workflow.init
    @total
    def __init__(self, raw: RawValue = NOTHING) -> None:
        """Signals may come before `run` begins, so the state is there from the start."""
        self._input = read_start(raw)
        self._run = PipelineRun(self._input if isinstance(self._input, ContinuedPipeline) else None)

    @workflow.run
    @total_run
    async def run(self, raw: RawValue = NOTHING) -> PipelineResult:  # noqa: ARG002 - read in `__init__`
        """Run the pipeline to its end.

        Raises:
            ApplicationError: the start input can't be read or is wrong (`InputError`); or a step failed for good
                (`PipelineFailed`, with the result).
        """
        run = self._run
        try:
            spec = run.spec or await run.open(self._input)
            finish = await run.until_finished(spec)
        except (Exception, asyncio.CancelledError) as error:
            if not (is_cancelled_exception(error) and workflow.cancellation_reason() is not None) or run.spec is None:
                raise
            await self._end_cancelled(run.spec)
            raise
        result = await self._closed(spec, finish)
        if result.outcome == "failed":
            said = cut(one_line(result.reason, 1000), 1000)
            raise ApplicationError(said, result, type=FAILED, non_retryable=True)
        return result

    async def _end_cancelled(self, spec: PipelineSpec) -> None:
        """Stop what runs, undo what the pipeline says, and close the record."""
        await self._run.cancelled()
        await self._closed(spec, await self._run.until_finished(spec))

    async def _closed(self, spec: PipelineSpec, finish: Finish) -> PipelineResult:
        """Write the end: a cancel that comes now is too late, and does not break that off."""
        closing = asyncio.create_task(self._run.close(spec, finish))
        while not closing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(closing)
            if self._run.state.paused is not None:
                closing.cancel()
        return closing.result()

    @workflow.query(description="The run for people: phase, each step, what waits, the last lines.")
    def state(self) -> PipelineView:
        """Answer with all but what the steps were given and gave."""
        return pipeline_view(self._run.spec, self._run.state)

    @workflow.query(description="All that the run knows of itself: for a rerun.")
    def whole(self) -> ContinuedPipeline | None:
        """Answer with the spec and the state; null before it has opened."""
        run = self._run
        return None if run.spec is None else ContinuedPipeline(spec=run.spec, state=run.state, generation=1)

    @workflow.signal(description='Approve what waits: {"id": "ok", "by": "you"}, or {} when only one waits.')
    @total
    def approve(self, act: RawValue = NOTHING) -> None:
        """Let what waits go on."""
        self._act("approve", act)

    @workflow.signal(description='Reject what waits: {"id": "ok", "by": "you", "reason": "why"}.')
    @total
    def reject(self, act: RawValue = NOTHING) -> None:
        """Let it not go on."""
        self._act("reject", act)

    @workflow.signal(description='Take back an approval that has not begun: {"id": "ok", "by": "you"}.')
    @total
    def revoke(self, act: RawValue = NOTHING) -> None:
        """Take back what was approved and has not begun."""
        self._act("revoke", act)

    @workflow.signal(
        description='Say if a call took effect: {"id": "push", "settlement": "done"} (run_again, give_up).'
    )
    @total
    def settle(self, act: RawValue = NOTHING) -> None:
        """Say whether a call took effect whose end was not seen."""
        self._act("settle", act)

    @workflow.signal(description='Begin nothing more: {"by": "you", "reason": "why"}, or {}.')
    @total
    def pause(self, act: RawValue = NOTHING) -> None:
        """Begin nothing more until `resume`; what runs goes on."""
        self._act("pause", act)

    @workflow.signal(description='Let a paused run go on: {"by": "you"}, or {}.')
    @total
    def resume(self, act: RawValue = NOTHING) -> None:
        """Go on after a pause."""
        self._act("resume", act)

    @workflow.update(name="approve", description="As the signal; answered at once, or refused with the reason.")
    @total
    def approve_now(self, act: RawValue = NOTHING) -> Answer:
        """Let what waits go on; raises `ApplicationError` when that can't be."""
        return answer(self._run, "approve", act)

    @approve_now.validator
    @total
    def _check_approve(self, act: RawValue = NOTHING) -> None:
        check(self._run, "approve", act)

    @workflow.update(name="reject", description="As the signal; answered at once, or refused with the reason.")
    @total
    def reject_now(self, act: RawValue = NOTHING) -> Answer:
        """Let it not go on; raises `ApplicationError` when that can't be."""
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

    @workflow.update(name="pause", description="As the signal; answered at once, or refused with the reason.")
    @total
    def pause_now(self, act: RawValue = NOTHING) -> Answer:
        """Begin nothing more until `resume`; what runs goes on; raises `ApplicationError` when that can't be."""
        return answer(self._run, "pause", act)

    @pause_now.validator
    @total
    def _check_pause(self, act: RawValue = NOTHING) -> None:
        check(self._run, "pause", act)

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
        first = sent[0] if sent else NOTHING
        if name == WAITS_BELOW:
            hear(self._run, first)
            return
        if name in ACT_NAMES:  # for a run below: the pipeline itself takes no such act
            self._act(name, first)
            return
        self._run.signals += 1
        why = f"there is no such signal; known: {', '.join(PIPELINE_ACTS)}"
        refused = Refused(at=workflow.now(), act=one_line(name, 60), why=why)
        self._run.inbox.put(lambda: refused)

    def _act(self, name: ActName, act: RawValue) -> None:
        self._run.signals += 1
        self._run.inbox.put(lambda: taken_by(self._run, name, act))
