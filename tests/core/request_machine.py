"""The way of a call, as the rules have it: found by doing, from every state, all that can happen to it.

`python -m tests.core.request_machine` (`make diagram`) draws it into the README. Nothing of it is written by hand: what
is drawn is what `next_step`, `act_on` and `apply` do.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import get_args

from core.acts import ActName
from core.approvals import act_on
from core.asking import Asking
from core.content import inline
from core.entries import Refused, Settlement, ToolFinished, Unsettled
from core.fold import apply
from core.open_calls import checking, put_back, started, unchecked, verifying
from core.requests import checked
from core.runs import RunSpec
from core.settlement import RUNS, verified
from core.state import OpenCall, RunState
from core.steps import Check, Record, RunCalls, Verify, next_step
from core.tools import ToolPolicy, Verdict, Verified
from tests.entries import NOW, OPEN_STATE, call, finished, policy, reply, spec

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- the way of a call: made by `make diagram` -->\n", "<!-- end -->"
LATER = NOW + timedelta(hours=2)
FINISHED = "finished"

Found = tuple[str, RunState]


def _asked(**asking: object) -> ToolPolicy:
    asks = Asking.model_validate(asking)
    changes = {"approval": asks.mode, "asking": asks, "definition_digest": "d"}
    return policy("pay", "write").model_copy(update=changes)


POLICIES = (
    _asked(mode="auto"),
    _asked(mode="deny"),
    _asked(),
    _asked(needed=2, approvers=("ana", "ben")),
    _asked(expires="PT1H"),
    _asked(expires="PT1H", at_deadline="escalate", escalate_to=("eve",)),
    _asked().model_copy(update={"verifies": True}),
    _asked(expires="PT1H").model_copy(update={"served_by": "workflow"}),
)


@cache
def edges() -> dict[tuple[str, str], list[str]]:
    """Return what leads from a status to another one, over all policies."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for known in POLICIES:
        seen: set[str] = set()
        todo = deque([apply(OPEN_STATE, reply(1, call("t1c1", "pay", '{"amount": 5}')))])
        while todo:
            state = todo.popleft()
            before = _status(state)
            for event, after in _events(spec(known), known, state):
                if before != _status(after):
                    found[before, _status(after)].add(event)
                if _status(after) != FINISHED and (key := _key(after)) not in seen:
                    seen.add(key)
                    todo.append(after)
    return {pair: sorted(events) for pair, events in sorted(found.items())}


def diagram() -> str:
    """Return the state diagram in Mermaid."""
    lines = [f"    {before} --> {after}: {', '.join(events)}" for (before, after), events in edges().items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> proposed", *lines, "    finished --> [*]", "```"])


def _status(state: RunState) -> str:
    return state.open_calls[0].status if state.open_calls else FINISHED


def _key(state: RunState) -> str:
    """Return what makes a difference for what can happen next."""
    (entry,) = state.open_calls
    asked = entry.request
    parts = (
        entry.status,
        min(entry.runs, RUNS),
        len(entry.decisions),
        asked.escalated if asked else "",
        entry.edit is not None,
    )
    return str((*parts, entry.answer is not None, entry.settled.settlement if entry.settled else ""))


def _events(run: RunSpec, known: ToolPolicy, state: RunState) -> Iterator[Found]:
    yield from _by_rules(run, state)
    yield from _by_people(state)
    yield from _by_work(run, known, state)


def _by_rules(run: RunSpec, state: RunState) -> Iterator[Found]:
    """What is recorded without anybody's doing: now, or when the time is over."""
    for now, when in ((NOW, ""), (LATER, "deadline")):
        step = next_step(run, state, now)
        if isinstance(step, Record):
            entry = step.entry
            names = {"approval_requested": "asked", "tool_finished": "not run", "expired": "deadline"}
            name = names.get(entry.kind, entry.kind)
            if isinstance(entry, ToolFinished) and _status(state) in {"answered", "settled"}:
                name = "result"
            if entry.kind == "approval_requested" and _status(state) == "approved":
                name = "no longer fits"
            if entry.kind == "approval_requested" and _status(state) == "expired":
                name = "escalated"
            if when and _status(state) in {"proposed", "rejected", "answered", "settled", "expired"}:
                continue
            yield name, apply(state, entry)


def _by_people(state: RunState) -> Iterator[Found]:
    """Every act of everybody."""
    settlements = [("settle", {"settlement": each}, each.replace("_", " ")) for each in get_args(Settlement)]
    acts: list[tuple[ActName, dict[str, object], str]] = [
        ("approve", {}, "approve"),
        ("approve", {"arguments": {"amount": 1}}, "approve with other arguments"),
        ("reject", {}, "reject"),
        ("revoke", {}, "revoke"),
        ("answer", {"text": "yes"}, "answer"),
        *((("settle", said, f"settle as {label}")) for _, said, label in settlements),
    ]
    for by in ("ana", "ben", "eve"):
        for name, said, label in acts:
            entry = act_on(state, name, json.dumps({"by": by, "id": "t1c1", **said}).encode(), NOW)
            if not isinstance(entry, Refused):
                yield label, apply(state, entry)


def _by_work(run: RunSpec, known: ToolPolicy, state: RunState) -> Iterator[Found]:
    """What the workflow starts, and what comes of it."""
    entry: OpenCall = state.open_calls[0]
    step = next_step(run, state, NOW)
    match entry.status:
        case _ if isinstance(step, RunCalls):
            yield "dispatched", started(state, ["t1c1"])
        case _ if isinstance(step, Verify):
            yield "verify", verifying(state, "t1c1")
        case _ if isinstance(step, Check):
            yield "check", checking(state, "t1c1")
        case "running":
            yield "result", apply(state, finished("t1c1", tool="pay"))
            yield "could not start", put_back(state, "t1c1")
            doubt = Unsettled(at=NOW, turn=1, call_id="t1c1", tool="pay", why="lost", asks=not known.verifies)
            yield "its end was not seen", apply(state, doubt)
        case "verifying":
            for verdict in get_args(Verdict):
                after = apply(state, verified(entry, Verified(verdict=verdict), NOW, 1))
                again = " again and again" if verdict == "not_done" and _status(after) == "settled" else ""
                yield f"verify says {verdict.replace('_', ' ')}{again}", after
        case "checking":
            fitting = entry.call.model_copy(update={"arguments": inline('{"amount": 1}')})
            after = apply(state, checked(entry, fitting, known, NOW, 1))
            more = "" if _status(after) == "approved" else ", and more must approve"
            yield f"the tool takes them{more}", after
            wrong = entry.call.model_copy(update={"problem": "no"})
            yield "the tool does not take them", apply(state, checked(entry, wrong, known, NOW, 1))
            yield "could not start", unchecked(state, "t1c1")
        case _:
            return


def drawn(readme: str) -> str:
    """Return the README with the diagram as it is now."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}{diagram()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(drawn(README.read_text(encoding="utf-8")), encoding="utf-8")
