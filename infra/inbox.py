"""All that waits for people, over all runs: asked of the runs themselves, since only they know exactly."""

import asyncio

from core.errors import InputError
from core.frozen import Frozen
from core.pending import PendingCall
from infra.pipeline_runs import PipelineRuns
from infra.runs import NoWorker, RunNotFound, Runs

AT_ONCE = 16


class Waiting(Frozen):
    """What a run waits for: a call (to be approved, answered or settled), or that somebody resumes it."""

    run: str
    agent: str
    call: PendingCall | None = None
    paused: str = ""


class Inbox(Frozen):
    """What waits; `unknown` are runs that could not be asked, since no worker answers for them."""

    waiting: tuple[Waiting, ...]
    unknown: tuple[str, ...] = ()


async def inbox(runs: Runs, by: str | None, limit: int) -> Inbox:
    """Return what waits in the newest runs, at most `limit` of them; with `by`, only what that person may decide.

    Raises:
        ServerUnavailable: as `Runs`.
    """
    room = asyncio.Semaphore(AT_ONCE)

    async def look(run: str) -> tuple[Waiting, ...] | str:
        async with room:
            try:
                state = await runs.state(run)
            except RunNotFound:  # it has ended meanwhile
                return ()
            except (NoWorker, InputError):
                return run
        calls = (
            Waiting(run=run, agent=state.agent, call=call) for call in state.pending if not call.of and _may(call, by)
        )
        paused = (Waiting(run=run, agent=state.agent, paused=state.paused),) if state.paused else ()
        return (*paused, *calls)

    running = "ExecutionStatus = 'Running'"
    open_runs = [*await PipelineRuns(runs.client).list(running, limit), *await runs.list(running, limit)]
    found = await asyncio.gather(*(look(info.id) for info in open_runs))
    return Inbox(
        waiting=tuple(waiting for each in found if not isinstance(each, str) for waiting in each),
        unknown=tuple(each for each in found if isinstance(each, str)),
    )


def _may(call: PendingCall, by: str | None) -> bool:
    return by is None or not call.approvers or by in call.approvers
