"""Tools that work in steps at a counter outside, which can hold them before, in and after their effect.

The counter (`tests/durability/counter.py`) writes down each step that reached it, so a test knows where a call was when
its worker was killed.
"""

import json
import time
from datetime import timedelta
from http.client import HTTPConnection

from pydantic import BaseModel

from activities.tool_context import ToolContext
from activities.toolbox import tool
from core.errors import NotDone

LONG = timedelta(minutes=5)


class Plan(BaseModel):
    """What is to become of a call."""

    counter: str
    """The counter's address: host:port."""
    hold: str = ""
    """The step whose answer it keeps back; `look`: here the tool itself waits, until it is told to stop."""
    times: int = 1
    """So often it keeps it back."""
    seconds: float = 0.0
    """How long each other answer takes."""
    fails: int = 0
    """At which start, from 1, the tool raises an error of its own; 0: never."""


def was_counted(plan: Plan, *, context: ToolContext) -> str:
    """Ask the counter whether it has the effect."""
    if ask(plan.counter, "seen", {"key": context.idempotency_key}):
        return "counted, as the counter says"
    raise NotDone("the counter does not have it")


@tool(effect="write", timeout=LONG, verify=was_counted)
def count_verified(plan: Plan, *, context: ToolContext) -> str:
    """Count one up; the counter can be asked afterwards whether it has it."""
    return count(plan, context)


@tool(effect="write", timeout=LONG)
def count_blindly(plan: Plan, *, context: ToolContext) -> str:
    """Count one up; only a person can look whether it was done."""
    return count(plan, context)


@tool(effect="idempotent_write", timeout=LONG)
def count_by_key(plan: Plan, *, context: ToolContext) -> str:
    """Count one up, at a counter that knows a key again."""
    return count(plan, context, once=True)


@tool(effect="read", timeout=LONG, attempts=1)
def look_once(plan: Plan, *, context: ToolContext) -> str:
    """Look, and give up after one error."""
    return look(plan, context)


@tool(effect="read", timeout=LONG, attempts=2)
def look_twice(plan: Plan, *, context: ToolContext) -> str:
    """Look, and give up after two errors."""
    return look(plan, context)


def count(plan: Plan, context: ToolContext, *, once: bool = False) -> str:
    """Begin, have the effect, end."""
    step(plan, "begin", context)
    step(plan, "effect", context, once=once)
    step(plan, "end", context)
    return "counted"


def look(plan: Plan, context: ToolContext) -> str:
    """Begin, perhaps fail, perhaps wait, end."""
    begun = step(plan, "begin", context)
    if begun == plan.fails:
        raise RuntimeError("nothing can be seen today")
    while plan.hold == "look" and begun <= plan.times:
        if context.cancelled:
            step(plan, "end", context)
            return "stopped"
        time.sleep(0.01)
    return "seen"


def step(plan: Plan, name: str, context: ToolContext, *, once: bool = False) -> int:
    """Do one step, and return how often this call has done it."""
    given = plan.model_dump(include={"hold", "times", "seconds"})
    return ask(plan.counter, name, {**given, "key": context.idempotency_key, "once": once})


def ask(counter: str, what: str, given: dict[str, object]) -> int:
    """Post to the counter and return its answer."""
    connection = HTTPConnection(counter, timeout=LONG.total_seconds())
    try:
        connection.request("POST", f"/{what}", json.dumps(given))
        answer: int = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()
