"""How the workflow runs tools: with what options, how often again, and what becomes of those whose end was not seen.

| an attempt ended by | read, idempotent_write | write |
|---|---|---|
| its own error | Temporal retries, within the attempts of the tool | in doubt: to be settled |
| `NotDone` | the same | started again after a while, a few times |
| its worker's death or shutdown | started anew here: it uses up none of the tool's attempts | in doubt |
| a wait for its surroundings | the run pauses | the run pauses |
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from core.entries import ToolFinished, Unsettled
    from core.failures import NOT_DONE, Failure, failed_result, in_doubt
    from core.lines import arguments_line
    from core.retries import LOST_WORKERS
    from core.runs import RunSpec, ToolInput
    from core.settlement import unsettled
    from core.state import RunState
    from core.tools import Call, ToolOutcome, ToolPolicy, Verified, verify_activity
    from workflows.failures import failure_of
    from workflows.policies import tool_retry

NOT_DONE_AGAIN = 5
NOT_DONE_SECONDS = 1.0
"""A write that says that nothing happened is started again so often, first after so long, then after twice that."""

VERIFY_ATTEMPTS = 6

FROZEN = timedelta(seconds=1)
"""After a heartbeat timeout and this, also a worker that was only frozen knows that its call was given up."""

AROUND_A_TOOL = timedelta(minutes=5)
"""An attempt's time beside the tool's own timeout, which its worker keeps: for a blob store that is slow or away."""

QUEUE_PATIENCE = timedelta(hours=1)
"""So long a call waits for a worker of its tool's own task queue; then the run pauses and says so."""

Result = TypeVar("Result", ToolOutcome, Verified)


@dataclass(frozen=True)
class _Work:
    """An activity of a tool: which, of what call, how often it may be started, and if a lost one may be repeated."""

    activity: str
    activity_id: str
    begun: ToolInput
    attempts: int
    repeatable: bool


async def run_call(spec: RunSpec, call: Call, state: RunState, runs: int) -> ToolFinished | Unsettled | Failure:
    """Run a tool, and return its result, or that nobody saw its end, or what a person has to mend first.

    `state` is that at dispatch; `runs` counts from 1 how often the call was dispatched.
    """
    policy = spec.tool(call.name)
    if policy is None:
        raise RuntimeError(f"call {call.id} of unknown tool {call.name} was dispatched")
    begun = ToolInput(run=spec.run, opening=spec.opening, call=call, turn=state.turn)
    activity_id = call.id if runs == 1 else f"{call.id}-run-{runs}"
    once = policy.effect == "write"
    work = _Work(call.name, activity_id, begun, attempts=1 if once else policy.most_attempts, repeatable=not once)
    not_done = 0
    while isinstance(outcome := await _attempted(spec, policy, work, ToolOutcome), Failure):
        if outcome.kind != NOT_DONE or not once or not_done == NOT_DONE_AGAIN:
            break
        seconds = NOT_DONE_SECONDS * 2**not_done
        not_done += 1
        await workflow.sleep(timedelta(seconds=seconds), summary=f"{call.name} did nothing yet: again")
    if isinstance(outcome, Failure):
        if outcome.before_start:
            return outcome
        if in_doubt(policy, outcome):
            if outcome.worker_lost:
                grace = (policy.heartbeat or spec.heartbeat_timeout) + FROZEN
                await workflow.sleep(grace, summary=f"{call.name}: its worker may only be frozen")
            return unsettled(call, policy, outcome, workflow.now(), state.turn)
        outcome = ToolOutcome(content=failed_result(policy, outcome), failed=True)
    # What a tainted run reads on may be what strangers wrote, as an artifact.
    strange = policy.untrusted or (state.tainted and policy.effect == "read")
    return finished(call, outcome, state.turn, untrusted=strange)


async def verify_call(spec: RunSpec, call: Call, turn: int) -> Verified | Failure:
    """Let a tool find out whether a call took effect; what its `verify` can't tell is unclear."""
    policy = spec.tool(call.name)
    if policy is None:
        raise RuntimeError(f"call {call.id} of unknown tool {call.name} was to be verified")
    begun = ToolInput(run=spec.run, opening=spec.opening, call=call, turn=turn)
    work = _Work(verify_activity(call.name), f"{call.id}-verify", begun, attempts=VERIFY_ATTEMPTS, repeatable=True)
    found = await _attempted(spec, policy, work, Verified)
    if isinstance(found, Failure) and not found.before_start:
        return Verified(verdict="unclear", why=found.text)
    return found


def finished(call: Call, outcome: ToolOutcome, turn: int, *, untrusted: bool) -> ToolFinished:
    """Return the entry of a call's result."""
    return ToolFinished(
        at=workflow.now(),
        turn=turn,
        call_id=call.id,
        tool=call.name,
        content=outcome.content,
        failed=outcome.failed,
        artifacts=tuple(ref.model_copy(update={"preview": ""}) for ref in outcome.artifacts),
        attempts=outcome.attempt,
        seconds=outcome.seconds,
        untrusted=untrusted,
    )


async def _attempted(spec: RunSpec, policy: ToolPolicy, work: _Work, result_type: type[Result]) -> Result | Failure:
    """Run an activity of a tool. Lost workers do not use up its attempts: what can be repeated goes to another one."""
    lost = 0
    while True:
        try:
            result: Result = await workflow.execute_activity(
                work.activity,
                work.begun,
                result_type=result_type,
                activity_id=f"{work.activity_id}-again-{lost}" if lost else work.activity_id,
                task_queue=policy.task_queue,
                schedule_to_start_timeout=QUEUE_PATIENCE if policy.task_queue else None,
                start_to_close_timeout=policy.timeout + AROUND_A_TOOL,
                heartbeat_timeout=policy.heartbeat or spec.heartbeat_timeout,
                retry_policy=tool_retry(work.attempts),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=arguments_line(work.begun.call),
            )
        except (ActivityError, ApplicationError) as error:
            failure = failure_of(error)
            lost += 1
            if not (failure.worker_lost and work.repeatable) or lost > LOST_WORKERS:
                return failure
        else:
            return result
