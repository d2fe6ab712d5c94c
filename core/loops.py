"""Models that go round in circles, and tools that fail in a row: counted here, told to the model, paused in the end.

A call is the same as another when tool, canonical arguments and result are; order and spacing of JSON do not matter.
"""

import hashlib
import json
from collections.abc import Iterable

from core.agents import Limits
from core.entries import ToolFinished
from core.state import RunState, Seen
from core.tools import Call

DIGEST_CHARACTERS = 16
"""Enough to tell a few calls apart; the state that holds them is carried from one Temporal run to the next."""

SEEN_KEPT = 16
"""So many different calls are remembered: circles of up to so many steps are noticed."""


def counted(state: RunState, call: Call, result: ToolFinished) -> RunState:
    """Return the state in which a call's result is counted. Calls that never ran count among the mistakes instead."""
    if not result.attempts:
        return state
    failures = {**state.failures, call.name: state.failures.get(call.name, 0) + 1} if result.failed else state.failures
    if not result.failed and call.name in failures:
        failures = {name: count for name, count in failures.items() if name != call.name}
    digest = call_digest(call, result)
    before = next((seen for seen in state.seen if seen.digest == digest), None)
    now = Seen(tool=call.name, digest=digest) if before is None else _once_more(before)
    others = tuple(seen for seen in state.seen if seen.digest != digest)
    return state.model_copy(update={"failures": failures, "seen": (*others, now)[-SEEN_KEPT:]})


def warned(state: RunState, about: str) -> RunState:
    """Return the state after the model was told of a circle (by its digest), or of a tool that fails."""
    seen = tuple(each.model_copy(update={"told": True}) if each.digest == about else each for each in state.seen)
    failures = {name: count for name, count in state.failures.items() if name != about}
    return state.model_copy(update={"seen": seen, "failures": failures})


def warning(state: RunState, limits: Limits) -> tuple[str, str] | None:
    """Return what the model is to be told now, and what that is about; None when there is nothing."""
    for seen in state.seen:
        if limits.repeats is not None and not seen.told and seen.count >= limits.repeats:
            return seen.digest, (
                f"You have called {seen.tool} {seen.count} times with the same arguments, and each time the result was "
                "the same. Calling it again will not change that: do something else, or answer with what you have."
            )
    for tool, count in state.failures.items():
        if limits.failures is not None and count >= limits.failures:
            return tool, (
                f"{tool} has failed {count} times in a row. Stop using it unless you have found and changed what makes "
                "it fail: go on without it, or answer and say what is missing."
            )
    return None


def circle(seen: Iterable[Seen], limits: Limits) -> str:
    """Say what the model does again and again although it was told; empty when it does not."""
    for each in seen:
        if limits.repeats is not None and each.told and each.count >= 2 * limits.repeats:
            return (
                f"{each.tool} was called {each.count} times with the same arguments and gave the same result each time"
            )
    return ""


def call_digest(call: Call, result: ToolFinished) -> str:
    """Return the beginning of the SHA-256 (hex) of what makes two calls the same."""
    arguments = call.arguments.artifact.sha256 if call.arguments.artifact else canonical(call.arguments.text or "")
    content = result.content.artifact.sha256 if result.content.artifact else result.content.text or ""
    parts = (call.name, arguments, content, str(result.failed))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_CHARACTERS]


def canonical(arguments: str) -> str:
    """Write a call's arguments so that two that say the same are the same text; what is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


def _once_more(seen: Seen) -> Seen:
    return seen.model_copy(update={"count": seen.count + 1})
