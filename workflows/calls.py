"""The calls of a turn that are under way: each in a task of its own, so that none waits for another."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from core import open_calls
    from core.content import Content
    from core.entries import ToolFinished, Unsettled
    from core.failures import Failure
    from core.requests import checked
    from core.runs import CheckInput, RunSpec
    from core.settlement import verified
    from core.tools import Call
    from workflows import dispatch, tools
    from workflows.children import run_child
    from workflows.held import HeldState


class Calls:
    """Starts calls and takes in what comes of them. `held` is the state that they change."""

    def __init__(self, held: HeldState) -> None:
        self._held = held
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        """Say whether any is under way."""
        return bool(self._tasks)

    def start(self, spec: RunSpec, calls: Sequence[Call]) -> None:
        """Start these calls, in this order."""
        self._held.become(open_calls.started(self._held.state, [call.id for call in calls]))
        for call in calls:
            self._begin(call, self._run(spec, call))

    def verify(self, spec: RunSpec, call: Call) -> None:
        """Let the tool find out whether this call took effect."""
        self._held.become(open_calls.verifying(self._held.state, call.id))
        self._begin(call, self._verify(spec, call))

    def check(self, spec: RunSpec, call: Call, arguments: Content) -> None:
        """Let the arguments be checked that a person gave this call instead of its own."""
        self._held.become(open_calls.checking(self._held.state, call.id))
        self._begin(call, self._check(spec, call, arguments))

    async def cancel(self) -> None:
        """Stop what is under way, and wait for its end."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def crashed(self) -> asyncio.Task[None] | None:
        """Return a call's task that ended by a fault of ours: it must be seen, not waited for."""
        return next((task for task in self._tasks.values() if task.done()), None)

    def _begin(self, call: Call, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[call.id] = asyncio.create_task(work)

    async def _run(self, spec: RunSpec, call: Call) -> None:
        runs = next(entry.runs for entry in self._held.state.open_calls if entry.call.id == call.id)
        policy = spec.tool(call.name)
        if policy is not None and policy.served_by == "agent":
            result: ToolFinished | Unsettled | Failure = await run_child(self._held, spec, call, runs)
        else:
            result = await tools.run_call(spec, call, self._held.state, runs)
        del self._tasks[call.id]
        if isinstance(result, Failure):
            self._held.become(open_calls.put_back(self._held.state, call.id))
            self._held.pause(result)
        else:
            self._held.apply(result)

    async def _check(self, spec: RunSpec, call: Call, arguments: Content) -> None:
        found = await dispatch.check_arguments(spec, CheckInput(run=spec.run, call=call, arguments=arguments))
        del self._tasks[call.id]
        policy = spec.tool(call.name)
        if isinstance(found, Failure):
            self._held.become(open_calls.unchecked(self._held.state, call.id))
            self._held.pause(found)
        elif policy is not None:
            open_call = next(entry for entry in self._held.state.open_calls if entry.call.id == call.id)
            self._held.apply(checked(open_call, found, policy, workflow.now(), self._held.state.turn))

    async def _verify(self, spec: RunSpec, call: Call) -> None:
        found = await tools.verify_call(spec, call, self._held.state.turn)
        del self._tasks[call.id]
        if isinstance(found, Failure):
            self._held.become(open_calls.unverified(self._held.state, call.id))
            self._held.pause(found)
            return
        open_call = next(entry for entry in self._held.state.open_calls if entry.call.id == call.id)
        self._held.apply(verified(open_call, found, workflow.now(), self._held.state.turn))
