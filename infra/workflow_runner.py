"""The sandbox of workflow code, in which a query never puts a run ahead of its history, and payloads cost little.

A query that waits while no worker lives is given, when one comes, the history as it is by then: with events that no
workflow task has taken in yet, such as a tool's timeout. The SDK applies them to answer, keeps the run as it is then,
and applies only the rest when the task comes. But the task is recorded as one: whoever replays it applies all of its
events at once, signals first, may come to other commands, and then the run is stuck for ever (`Nondeterminism error`).

So a run that has applied events of no task answers queries, but fails its next task on purpose: Temporal gives that out
again at once, to a run that is replayed from its history. It costs some milliseconds, and shows as one failed task.

And the SDK asks the sandbox for every payload, three times, in which context it is encoded: by code that is compiled
and run inside. Our converter uses no context and stores nothing outside (`infra.payloads`): the answer is known.
"""

from collections.abc import Callable

import structlog
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

AHEAD = "a query has put this run ahead of its history: it is replayed from there"
NO_CHANGE = frozenset({"query_workflow", "remove_from_cache"})

log = structlog.get_logger(__name__)

Activate = Callable[[WorkflowActivation], WorkflowActivationCompletion]


class CarefulWorkflowRunner(SandboxedWorkflowRunner):
    """A sandbox of the SDK's, in which no run goes on from events that were in no workflow task."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run in its sandbox."""
        instance = super().create_instance(det)
        instance.activate = Careful(instance.activate)  # type: ignore[method-assign]  # the rest is the SDK's
        instance.get_serialization_context = _no_context  # type: ignore[method-assign]  # as above
        instance.get_external_store_context = _no_store  # type: ignore[method-assign]  # as above
        return instance


def _no_context(command_info: object) -> None:
    """Return that no context is used."""


def _no_store(command_info: object) -> StorageDriverStoreContext:
    """Return that nothing is stored outside, whatever the command."""
    del command_info
    return StorageDriverStoreContext(target=None)


class Careful:
    """Hands activations on to a run, until it is ahead of its history."""

    def __init__(self, activate: Activate) -> None:
        self._activate = activate
        self._length_events = 0
        self._size_bytes = 0
        self._ahead = False

    def __call__(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Let the run take in what has happened; fail when it would do so on top of what no task has told it."""
        changes = any(job.WhichOneof("variant") not in NO_CHANGE for job in act.jobs)
        if changes and self._ahead:
            log.info(AHEAD, run_id=act.run_id)
            failed = WorkflowActivationCompletion(run_id=act.run_id)
            failed.failed.failure.message = AHEAD
            return failed
        if changes:
            self._ahead = self._without_task(act)
            self._length_events, self._size_bytes = act.history_length, act.history_size_bytes
        return self._activate(act)

    def _without_task(self, act: WorkflowActivation) -> bool:
        """Say whether these events are of no task: only a task's start tells a new size of the history."""
        longer = act.history_length > self._length_events
        return longer and 0 < act.history_size_bytes == self._size_bytes
