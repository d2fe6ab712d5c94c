"""What becomes of an activity that failed for good: pure rules over the kind of error.

| kind | of a model call | of a tool |
|---|---|---|
| store refused or down for long, blob missing or corrupt | run pauses | run pauses; `resume` runs the call again |
| a secret missing: the tool was not started | | run pauses; `resume` runs the call again |
| model refused or down for long, context too long | run pauses | |
| no worker has the tool (`NotFoundError`) or takes it (`NotTaken`) | | run pauses; `resume` runs the call again |
| worker lost, timeout, any other error | run pauses | failed result; of a `write`: to be settled |
"""

from core.content import Content, inline
from core.frozen import Frozen
from core.tools import ToolPolicy

STORE_KINDS = frozenset({"StoreUnavailable", "StoreRefused", "BlobMissing", "BlobCorrupt"})
SURROUNDINGS = STORE_KINDS | {"SecretMissing"}
"""What a tool can't be started without."""
TIMED_OUT = "TimedOut"
WORKER_LOST = "WorkerLost"
SHUT_DOWN = "WorkerShutdown"
"""The worker was told to end, and the call did not end in time."""
LEFT_BEHIND = "LeftBehind"
"""It did not end in its time and could not be stopped: what it does later, nobody sees."""
NOT_DONE = "NotDone"
NOT_TAKEN = "NotTaken"
"""It waited in its task queue until patience was over: it was not started."""
NO_SUCH_TOOL = "NotFoundError"
"""What Temporal calls an activity that the worker does not have: it was not started."""
TOO_LARGE = "PayloadsTooLarge"
"""What Temporal calls it, and what is refused before it is sent to Temporal."""


class Failure(Frozen):
    """An activity's last error: the class name of `core.errors` (or another), and its text."""

    kind: str
    text: str

    @property
    def mendable(self) -> bool:
        """Say whether a person can mend the cause outside of the run: then it pauses instead of ending."""
        return self.kind != "InputError"

    @property
    def before_start(self) -> bool:
        """Say whether a call has to wait for its surroundings: storage, a secret, a worker that has the tool."""
        return self.kind in SURROUNDINGS or self.kind in {NO_SUCH_TOOL, NOT_TAKEN}

    @property
    def worker_lost(self) -> bool:
        """Say whether the worker ended, not the tool: no attempt of the tool's own."""
        return self.kind in {WORKER_LOST, SHUT_DOWN}


def in_doubt(policy: ToolPolicy, failure: Failure) -> bool:
    """Say whether nobody can know yet if the call took effect: it can't be repeated, and its end was not seen."""
    return policy.effect == "write" and failure.kind != NOT_DONE and not failure.before_start


def failed_result(policy: ToolPolicy, failure: Failure) -> Content:
    """Return what the model reads of a tool that failed after all its attempts."""
    if failure.kind in {TIMED_OUT, LEFT_BEHIND}:
        return inline(f"Failed: {policy.name} did not end within {policy.timeout.total_seconds():.0f} seconds.")
    if failure.kind == WORKER_LOST:
        return inline(f"Failed: the worker that ran {policy.name} died or was cut off, each time that it was tried.")
    return inline(f"Failed: {failure.text}")
