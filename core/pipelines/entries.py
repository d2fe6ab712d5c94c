"""What happens to a run of a pipeline, as entries of its record: typed, timestamped, append-only.

What people do to a step that waits for them, and calls whose end was not seen, are the entries of agents' runs; their
`call_id` is the run of the step (`merge.2`), or its `undo`.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from core.call_entries import ApprovalRequested, Decided, Expired, Forwarded, Reminded, Revoked, Settled, Unsettled
from core.content import ArtifactRef, Content
from core.entries import Outcome, Paused, Refused, Resumed, RunRef
from core.entry import EntryBase
from core.frozen import Sparse
from core.pipelines.file import PipelineFile
from core.tools import Call

EndStatus = Literal["done", "failed", "skipped", "blocked", "rejected", "cancelled"]
"""`skipped`: its `when` did not hold. `blocked`: it needs what a person rejected, or what was blocked."""


class Opened(EntryBase):
    """The first entry: what runs, pinned, with what."""

    kind: Literal["opened"] = "opened"
    run: RunRef
    pipeline: PipelineFile
    inputs: Content
    by: str = ""
    origin: RunRef | None = None
    """Of a rerun: the run whose results it goes on from."""
    rerun_from: str = ""


class Prepared(Sparse, EntryBase):
    """What a step is given: all that it sees of the rest."""

    kind: Literal["prepared"] = "prepared"
    step: str
    given: Content
    """A tool's arguments, an agent's task, what a gate shows, the items of a `for_each`."""
    attachments: tuple[ArtifactRef, ...] = ()
    items: int | None = None
    call: Call | None = None
    """What runs, or waits for a person."""
    undo: bool = False


class Began(Sparse, EntryBase):
    """A step begins, or its undo. `child` is the run of its agent."""

    kind: Literal["began"] = "began"
    step: str
    attempt: int = 1
    child: str = ""
    undo: bool = False


class Ended(Sparse, EntryBase):
    """A step has ended."""

    kind: Literal["ended"] = "ended"
    step: str
    status: EndStatus
    output: Content | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    error: str = ""
    by: str = ""
    """Who decided it, when people did."""


class Retried(EntryBase):
    """A step, or its undo, has failed and is tried again after `wait_seconds`."""

    kind: Literal["retried"] = "retried"
    step: str
    error: str
    wait_seconds: float
    undo: bool = False


class Undone(EntryBase):
    """What a step did was taken back; or, with an error, it could not be, and is still there."""

    kind: Literal["undone"] = "undone"
    step: str
    error: str = ""


class Ending(EntryBase):
    """Nothing more is begun: the run comes to this end, after what was done is taken back if `compensate`."""

    kind: Literal["ending"] = "ending"
    outcome: Outcome
    reason: str
    compensate: bool
    rejected: bool = False


class Finalized(EntryBase):
    """The last entry: how it ended."""

    kind: Literal["finalized"] = "finalized"
    outcome: Outcome
    reason: str = ""


PipelineEntry = Annotated[
    Opened
    | Prepared
    | Began
    | Ended
    | Retried
    | Undone
    | Ending
    | Finalized
    | ApprovalRequested
    | Decided
    | Expired
    | Reminded
    | Revoked
    | Unsettled
    | Settled
    | Paused
    | Resumed
    | Refused
    | Forwarded,
    Field(discriminator="kind"),
]
PIPELINE_ENTRY: TypeAdapter[PipelineEntry] = TypeAdapter(PipelineEntry)


def size_bytes(entry: PipelineEntry) -> int:
    """Return the size of an entry in a payload."""
    return len(PIPELINE_ENTRY.dump_json(entry))
