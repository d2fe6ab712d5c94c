"""What becomes of an activity that failed for good: pure rules over the kind of error.

| kind | of a model call | of a tool |
|---|---|---|
| store refused or down for long, blob missing or corrupt | run pauses | run pauses; `resume` runs the call again |
| model refused or down for long, context too long | run pauses | |
| worker lost, timeout, any other error | run pauses | failed result; of a `write`: outcome unknown |
"""

from core.content import Content, inline
from core.frozen import Frozen
from core.tools import ToolPolicy

STORE_KINDS = frozenset({"StoreUnavailable", "StoreRefused", "BlobMissing", "BlobCorrupt"})
TIMED_OUT = "Timeout"
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
    def of_store(self) -> bool:
        """Say whether blob storage is the cause, not the tool."""
        return self.kind in STORE_KINDS


def failed_result(policy: ToolPolicy, failure: Failure) -> Content:
    """Return what the model reads of a tool that failed after all its attempts."""
    if policy.effect == "write" and failure.kind != "NotDone":
        return inline(
            f"Outcome unknown: {policy.name} was started once and did not report its end ({failure.text}). "
            "It may or may not have taken effect. Do not repeat it blindly: check first, or ask a person."
        )
    if failure.kind == TIMED_OUT:
        return inline(f"Failed: {policy.name} did not end within {policy.timeout.total_seconds():.0f} seconds.")
    return inline(f"Failed: {failure.text}")
