"""What people read of a run, a line at a time: in the Temporal UI, in `starter.py watch` and in logs."""

import json
from typing import Any

from core.content import one_line
from core.entries import (
    Answered,
    ApprovalRequested,
    Closed,
    Compacted,
    Decided,
    Delegated,
    Edited,
    Entry,
    Expired,
    Forked,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Reminded,
    Replied,
    Resumed,
    Revoked,
    Settled,
    Started,
    Switched,
    Told,
    ToolFinished,
    Unsettled,
)
from core.patterns import Pattern
from core.tools import Call

SUMMARY_CHARACTERS = 160
RESULT_CHARACTERS = 90
OfCall = (
    ApprovalRequested | Answered | Reminded | Expired | Edited | Decided | Revoked | Forwarded | Delegated | Unsettled
)


def summary(call: Call) -> str:
    """Say what a call does in one line: `query_artifact: sql=SELECT ..., artifacts=["a:3f9c21d04b7e"]`."""
    return one_line(f"{call.name}: {_arguments(call)}", SUMMARY_CHARACTERS)


def arguments_line(call: Call) -> str:
    """Write a call's arguments in one line, for where the tool's name stands already."""
    return one_line(_arguments(call), SUMMARY_CHARACTERS)


def _arguments(call: Call) -> str:
    if call.arguments.artifact is not None:
        return call.arguments.artifact.described()
    try:
        arguments = json.loads(call.arguments.text or "{}")
        return _pairs(arguments, "=", ", ") if isinstance(arguments, dict) else call.arguments.text or ""
    except (ValueError, RecursionError):
        return call.arguments.text or ""


def readable_arguments(arguments: str) -> str:
    """Write a call's arguments for reading: one `name: value` a line, texts with their real line breaks."""
    try:
        values = json.loads(arguments)
        return _pairs(values, ": ", "\n") if isinstance(values, dict) else arguments
    except (ValueError, RecursionError):
        return arguments


def tool_line(tool: str, only: Pattern) -> str:
    """Say which calls of a tool: `note with path=reports/*`."""
    return f"{tool} with {_pattern(only)}" if only else tool


def _pattern(only: Pattern) -> str:
    return _pairs(dict(only), "=", ", ")


def _pairs(values: dict[str, Any], between: str, after: str) -> str:
    texts = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in values.items())
    return after.join(f"{name}{between}{text}" for name, text in texts)


def line(entry: Entry) -> str:
    """Write an entry in one line, with its time and turn."""
    return one_line(f"{entry.at:%H:%M:%S} turn {entry.turn}: {what(entry)}", 200)


def what(entry: Entry) -> str:
    """Say what happened, without when and in which turn; of any length."""
    if isinstance(entry, OfCall):
        return _asked(entry)
    match entry:
        case Started():
            return f"started: {entry.agent.name} with {entry.model}"
        case Forked():
            return f"forked from {entry.origin.workflow_id} after its turn {entry.origin_turn}: {entry.agent.name}"
        case Messaged():
            return f"message from {entry.by or 'somebody'}: {entry.text.shown()}"
        case Compacted():
            how = f"dropped the oldest entries ({entry.fallback})" if entry.fallback else "summed up the older entries"
            return f"compacted: {how}; kept from entry {entry.keep_from}"
        case Replied():
            calls = ", ".join(call.name for call in entry.calls)
            return " | ".join(part for part in (entry.text.shown(), f"calls {calls}" if calls else "") if part)
        case ToolFinished():
            shown = one_line(entry.content.shown(), RESULT_CHARACTERS)
            return f"{entry.tool} {'failed' if entry.failed else 'done'}: {shown}"
        case (
            ApprovalRequested()
            | Answered()
            | Reminded()
            | Expired()
            | Edited()
            | Decided()
            | Revoked()
            | Forwarded()
            | Delegated()
        ):
            return _asked(entry)
        case Settled():
            settlement = {"done": "took effect", "run_again": "did not, and runs again", "give_up": "did not"}
            return f"{entry.call_id} {settlement[entry.settlement]}, says {entry.by or 'somebody'}" + (
                f": {entry.reason}" if entry.reason else ""
            )
        case Refused():
            return f"{entry.act} refused: {entry.why}"
        case Told():
            return f"told the model: {entry.text}"
        case Paused() | Resumed() | Switched() | Raised():
            return _steered(entry)
        case Closed():
            return f"{entry.outcome}" + (f": {entry.reason}" if entry.reason else "")


def _steered(entry: Paused | Resumed | Switched | Raised) -> str:
    match entry:
        case Paused():
            return f"paused: {entry.why}"
        case Resumed():
            return f"resumed by {entry.by or 'somebody'}" + (f" with {entry.model}" if entry.model else "")
        case Switched():
            return f"goes on with {entry.model}: {entry.failed} failed: {entry.why}"
        case Raised():
            amounts = ((entry.turns, "turns"), (entry.tokens, "tokens"), (entry.cost_usd, "USD"))
            said = ", ".join(f"{amount:g} {unit}" for amount, unit in amounts if amount)
            return f"limits raised by {entry.by or 'somebody'}: {said}"


def _asked(entry: OfCall) -> str:
    match entry:
        case Unsettled():
            return f"{entry.tool} ({entry.call_id}) may or may not have taken effect: {entry.why}"
        case Delegated():
            return f"{entry.call_id} handed to {entry.agent} as {entry.to}: {entry.task}"
        case Forwarded():
            about = f" of {entry.target}" if entry.target else ""
            return f"{entry.act}{about} by {entry.by or 'somebody'} passed on to {entry.to}"
        case ApprovalRequested(question=True):
            return f"{entry.tool} waits for an answer ({entry.call_id})"
        case Answered():
            return f"{entry.call_id} answered by {entry.by or 'nobody, in time'}: {entry.text.shown()}"
        case ApprovalRequested():
            others = f", escalated to {', '.join(entry.approvers)}" if entry.escalated else ""
            return f"{entry.tool} waits for approval ({entry.call_id}){others}"
        case Reminded():
            return f"{entry.tool} still waits for approval ({entry.call_id})"
        case Expired():
            return f"{entry.tool} ({entry.call_id}): nobody decided in time"
        case Decided():
            verdict = "approved" if entry.approved else "rejected"
            scope = " for the rest of the run" if entry.scope == "run" else ""
            if entry.only:
                scope += f" with {_pattern(entry.only)}"
            if entry.call is not None:
                scope = f" with other arguments ({arguments_line(entry.call)})"
            said = f"{entry.call_id} {verdict}{scope} by {entry.by or 'somebody'}"
            return f"{said}: {entry.reason}" if entry.reason else said
        case Edited():
            return f"other arguments for {entry.call_id} from {entry.by or 'somebody'}: {entry.arguments.shown()}"
        case Revoked():
            said = f"approval of {entry.call_id or entry.tool} revoked by {entry.by or 'somebody'}"
            return f"{said}: {entry.reason}" if entry.reason else said
