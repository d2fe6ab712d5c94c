"""Calls whose end was not seen: who can say whether they took effect. Nothing is ever guessed.

| the tool | what happens |
|---|---|
| has `verify`, which says done | the call has the result that `verify` returned |
| has `verify`, which says not done | the call runs again, at most `RUNS` times in all |
| has `verify`, which can't say | a person is asked |
| has none | a person is asked |

A person says `done` (with the result, if there is one to tell), `run_again`, or `give_up`.
"""

from datetime import datetime

from core.content import inline
from core.entries import Settled, Settlement, ToolFinished, Unsettled
from core.failures import LEFT_BEHIND, Failure
from core.open_calls import change
from core.state import OpenCall, RunState
from core.tools import Call, ToolPolicy, Verified

RUNS = 3
"""So often a call is dispatched when its `verify` says each time that it did not take effect."""


def unsettled(call: Call, policy: ToolPolicy, failure: Failure, at: datetime, turn: int) -> Unsettled:
    """Return that a call's end was not seen, and whether a person must be asked at once."""
    why = f"it was started and did not report its end ({failure.text})"
    return Unsettled(
        at=at,
        turn=turn,
        call_id=call.id,
        tool=call.name,
        why=why,
        asks=not policy.verifies or failure.kind == LEFT_BEHIND,
    )


def verified(open_call: OpenCall, found: Verified, at: datetime, turn: int) -> Settled | Unsettled:
    """Return what follows from what a tool's `verify` found."""
    call, by = open_call.call, f"verify of {open_call.call.name}"
    match found.verdict:
        case "done":
            return Settled(
                at=at,
                turn=turn,
                call_id=call.id,
                settlement="done",
                by=by,
                content=found.content,
                artifacts=found.artifacts,
            )
        case "not_done":
            again = open_call.runs < RUNS
            reason = found.why if again else f"it did not take effect in {open_call.runs} runs"
            settlement: Settlement = "run_again" if again else "give_up"
            return Settled(at=at, turn=turn, call_id=call.id, settlement=settlement, by=by, reason=reason)
        case "unclear":
            why = f"its verify could not tell ({found.why})"
            return Unsettled(at=at, turn=turn, call_id=call.id, tool=call.name, why=why, asks=True)


def folded(state: RunState, entry: Unsettled | Settled) -> RunState:
    """Return the state after a doubt, or after its end: what runs again has been approved by whoever said so."""
    if isinstance(entry, Unsettled):
        status = "awaiting_settlement" if entry.asks else "unsettled"
        return change(state, entry.call_id, status=status, unsettled=entry, asked_at=entry.at)
    status = "again" if entry.settlement == "run_again" else "settled"
    return change(state, entry.call_id, status=status, settled=entry)


def result_of_settled(open_call: OpenCall, policy: ToolPolicy | None, at: datetime, turn: int) -> ToolFinished | None:
    """Return the result of a call that is settled for good; None of any other."""
    settled, call = open_call.settled, open_call.call
    if settled is None or open_call.status != "settled":
        return None
    by = settled.by or "a person"
    why = f" ({settled.reason})" if settled.reason else ""
    done = settled.settlement == "done"
    content = inline(
        f"Done: {call.name} took effect, says {by}{why}. What it returned is not known."
        if done
        else f"Not done: {call.name} did not take effect and was not run again, says {by}{why}."
    )
    if done and settled.content is not None:
        content = settled.content
    return ToolFinished(
        at=at,
        turn=turn,
        call_id=call.id,
        tool=call.name,
        content=content,
        failed=not done,
        artifacts=settled.artifacts,
        attempts=open_call.runs,
        untrusted=policy is not None and policy.untrusted,
    )
