"""What waits for people in a run and below it, with all that they have to know to decide."""

from collections.abc import Iterator

from core.content import one_line
from core.pending import PendingCall
from core.state import OpenCall, RunState


def pending_below(state: RunState) -> Iterator[PendingCall]:
    """Yield what waits in the runs below, under ids that lead there."""
    for run in state.below:
        for call in run.pending:
            yield call.model_copy(update={"id": f"{run.run.workflow_id}/{call.id}"})


def pending_call(entry: OpenCall) -> PendingCall:
    """Return what a person has to know of a call to decide on it."""
    asked = entry.request
    if entry.status == "awaiting_settlement":
        return PendingCall(
            id=entry.call.id,
            tool=entry.call.name,
            arguments=entry.call.arguments,
            asked_at=entry.asked_at,
            digest=asked.digest if asked else "",
            approvers=asked.approvers if asked else (),
            keys=asked.keys if asked else {},
            doubt=entry.unsettled.why if entry.unsettled else "its end was not seen",
        )
    return PendingCall(
        id=entry.call.id,
        tool=entry.call.name,
        arguments=entry.call.arguments,
        asked_at=entry.asked_at,
        question=entry.status == "awaiting_answer",
        reason=asked.reason if asked else "",
        risk=asked.risk if asked else "",
        digest=asked.digest if asked else "",
        needed=asked.needed if asked else 1,
        approvers=asked.approvers if asked else (),
        keys=asked.keys if asked else {},
        approved_by=tuple(decision.by for decision in entry.decisions),
        expires_at=asked.expires_at if asked else None,
    )


def conditions(pending: PendingCall) -> list[str]:
    """Say why a person is asked, who may decide, how many must, and until when; each in one line, what there is."""
    below = f"asked by {pending.agent} in the run {pending.of.workflow_id} below" if pending.of is not None else ""
    said = [below, pending.reason, f"risk: {pending.risk}" if pending.risk else ""]
    if pending.approvers:
        said.append(f"may decide: {', '.join(pending.approvers)}")
    if pending.keys:
        said.append("only signed decisions count (--sign-with FILE)")
    if pending.needed > 1:
        by = f" (so far: {', '.join(pending.approved_by)})" if pending.approved_by else ""
        said.append(f"needs {pending.needed} different people{by}")
    if pending.expires_at is not None:
        said.append(f"until {pending.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    return [one_line(text, 300) for text in said if text]
