"""Conversations as the tests of compaction need them: long ones, in a small window."""

from core.agents import Context, Limits
from core.entries import Entry, Started
from tests.entries import artifact, call, finished, reply, started

MODEL = "script:test.yaml"
SMALL = Context(window_tokens=2000, keep_turns=4)
LIMITS = Limits(output_tokens=100)


def begun(context: Context = SMALL) -> Started:
    """The first entry of a run with a small window."""
    first = started()
    return first.model_copy(update={"agent": first.agent.model_copy(update={"context": context, "limits": LIMITS})})


def turn_of(number: int, text: str = "x" * 1000) -> list[Entry]:
    """One turn with one call, whose result has about 250 tokens."""
    made = (artifact(number << 208),) if number % 3 == 0 else ()
    result = finished(f"t{number}c1", text).model_copy(update={"turn": number, "artifacts": made})
    return [reply(number, call(f"t{number}c1", arguments=f'{{"at": {number}}}')), result]


def talk(turns: int, context: Context = SMALL, text: str = "x" * 1000) -> list[Entry]:
    """A conversation of so many turns."""
    return [begun(context), *(entry for number in range(1, turns + 1) for entry in turn_of(number, text))]
