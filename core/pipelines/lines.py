"""What people read of a run of a pipeline, a line at a time."""

from core import lines
from core.content import one_line
from core.pipelines.entries import (
    Began,
    Ended,
    Ending,
    Finalized,
    Opened,
    PipelineEntry,
    Prepared,
    Retried,
    Undone,
)


def line(entry: PipelineEntry) -> str:
    """Write an entry in one line, with its time."""
    return one_line(f"{entry.at:%H:%M:%S} {what(entry)}", 200)


def what(entry: PipelineEntry) -> str:
    """Say what happened, of any length."""
    match entry:
        case Opened():
            again = f", again from {entry.rerun_from} of {entry.origin.workflow_id}" if entry.origin else ""
            return f"opened: {entry.pipeline.name}, {len(entry.pipeline.steps)} steps{again}"
        case Prepared():
            items = f"{entry.items} items: " if entry.items is not None else ""
            return f"{_of(entry)} is given: {items}{entry.given.shown()}"
        case Began():
            times = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
            return f"{_of(entry)} begins{times}" + (f" as run {entry.child}" if entry.child else "")
        case Ended():
            said = entry.error or (entry.output.shown() if entry.output else "")
            by = f" by {entry.by}" if entry.by else ""
            return f"{entry.step} {entry.status}{by}" + (f": {said}" if said else "")
        case Retried():
            return f"{_of(entry)} failed and is tried again in {entry.wait_seconds:g} s: {entry.error}"
        case Undone():
            failed = f"could NOT be undone, it is still there: {entry.error}"
            return f"{entry.step} {failed if entry.error else 'was undone'}"
        case Ending():
            return f"nothing more is begun: {entry.reason}" + ("; what was done is undone" if entry.compensate else "")
        case Finalized():
            return entry.outcome + (f": {entry.reason}" if entry.reason else "")
        case _:
            return lines.what(entry)


def _of(entry: Prepared | Began | Retried) -> str:
    return f"the undo of {entry.step}" if entry.undo else entry.step
