"""What waits for a person, as people see it: also in the runs above."""

from datetime import datetime

from pydantic import Field

from core.content import Content
from core.entries import RunRef
from core.frozen import Frozen


class WaitingRun(Frozen):
    """What a run tells the run above it: what waits for people in it, and in the runs below it."""

    run: RunRef
    agent: str
    pending: tuple["PendingCall", ...] = ()
    """The first ones, as many as make sense."""
    more: int = Field(default=0, ge=0)
    """How many more there are."""
    paused: str = ""
    ended: bool = False


class PendingCall(Frozen):
    """A call that waits for a person: what would run, exactly."""

    id: str
    """In the run that shows it; of a call of a run below it: the way to that run, and the call's id there."""
    of: RunRef | None = None
    """The run whose call it is, when that is another one than the run that shows it."""
    agent: str = ""
    """Whose call it is, of a run below."""
    tool: str
    arguments: Content
    asked_at: datetime | None
    reason: str = ""
    """Why a person is asked, as the policy says."""
    risk: str = ""
    digest: str = ""
    """SHA-256 (hex) of exactly what is asked for; a decision may name it, or its beginning."""
    needed: int = 1
    approvers: tuple[str, ...] = ()
    """Who may decide; empty: anybody."""
    keys: dict[str, str] = Field(default_factory=dict)
    """Their public keys; when there are any, only signed decisions count (`core.signing`)."""
    approved_by: tuple[str, ...] = ()
    expires_at: datetime | None = None
    question: bool = False
    """Whether the agent asks for an answer; its arguments are the question."""
    doubt: str = ""
    """Set when the call was started and its end not seen: it waits to be settled, not approved. Says what happened."""
