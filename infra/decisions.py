"""A person's act on a run, and what came of it: the signal is sent, then the run is watched for its effect."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from core.acts import Act, ActName
from core.entries import (
    Answered,
    Decided,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Resumed,
    Revoked,
    Settled,
)
from core.errors import PerdureError
from core.frozen import Frozen
from core.state import TakenEntry
from core.view import StateView
from infra.runs import NoWorker, RunNotFound, Runs
from infra.signing_keys import Signer
from infra.temporal import ServerUnavailable

PATIENCE = timedelta(seconds=5)
POLL = timedelta(milliseconds=100)
SAID: Mapping[ActName, str] = {
    "approve": "approved {what}",
    "reject": "rejected {what}",
    "revoke": "took back the approval of {what}",
    "settle": "settled {what}",
    "answer": "answered {what}",
    "message": "the agent of {what} reads it before it is asked again",
    "pause": "paused {what}",
    "raise_budget": "raised the limits of {what}",
    "resume": "resumed {what}",
}
OF_CALLS: frozenset[ActName] = frozenset({"approve", "reject", "settle", "answer"})
"""Acts on what waits."""
DONE_BY: Mapping[str, ActName] = {
    "resumed": "resume",
    "raised": "raise_budget",
    "paused": "pause",
    "messaged": "message",
}


class ActRefused(PerdureError):
    """The run is closed, can't move, or has recorded why it refuses the act; nothing was changed."""


class Decision(Frozen):
    """What came of an act: `applied`, or `sent` when nobody has looked at it yet. `said` is for people."""

    run: str
    act: ActName | Literal["cancel"]
    status: Literal["applied", "sent"]
    call: str = ""
    said: str


async def decide(runs: Runs, run: str, name: ActName, act: Act, signer: Signer | None = None) -> Decision:
    """Send an act and wait for its effect, a few seconds at most. Without a worker it is kept and applied later.

    A signer signs it for what waits now.

    Raises:
        ActRefused: the run is closed, can't move, or refuses; says why.
        NoWorker: it is to be signed, and no worker says what waits; nothing was sent.
        RunNotFound, ServerUnavailable, InputError: as `Runs`, or the signature would not count; nothing was sent.
    """
    await _require_open(runs, run)
    before = await (_state(runs, run) if signer is None else runs.state(run))
    act = _named(before, name, act)
    if signer is not None and before is not None:
        act = signer.sign(before, name, act)
    try:
        await runs.send(run, name, act)
    except RunNotFound:
        await _require_open(runs, run)
        raise
    return await _effect(runs, run, name, act, before)


async def stop(runs: Runs, run: str) -> Decision:
    """Cancel a run and wait until it has closed, a few seconds at most; tools may take longer to stop.

    Raises:
        ActRefused: the run is closed, or can't move.
        RunNotFound, ServerUnavailable, InputError: as `Runs`; nothing was sent.
    """
    await _require_open(runs, run)
    try:
        await runs.cancel(run)
    except RunNotFound:
        await _require_open(runs, run)
        raise
    deadline = asyncio.get_running_loop().time() + PATIENCE.total_seconds()
    while asyncio.get_running_loop().time() < deadline:
        info = await runs.info(run)
        if info.status != "running":
            said = f"{run} is {info.status.replace('_', ' ')}"
            return Decision(run=run, act="cancel", status="applied", said=said)
        await asyncio.sleep(POLL.total_seconds())
    waits = "it is closed as soon as its tools have stopped and a worker runs"
    return Decision(run=run, act="cancel", status="sent", said=f"cancel was sent; {waits}")


async def _require_open(runs: Runs, run: str) -> None:
    info = await runs.info(run)
    if info.status == "running" and info.trouble:
        raise ActRefused(f"nothing was sent: {info.trouble}")
    ending = await runs.ending(run) if info.status != "running" else None
    if ending is not None:
        raise ActRefused(f"there is nothing to decide: run {run!r} has ended, {ending.said()}")


def _named(before: StateView | None, name: ActName, act: Act) -> Act:
    """Name the call that the person means, as it was seen: the only one that waits, and no later or changed one."""
    if name not in OF_CALLS or act.id or before is None or len(before.pending) != 1:
        return act
    return act.model_copy(update={"id": before.pending[0].id})


async def _effect(runs: Runs, run: str, name: ActName, act: Act, before: StateView | None) -> Decision:
    """Watch for what becomes of the act."""
    known = before.steps if before is not None else 0
    deadline = asyncio.get_running_loop().time() + PATIENCE.total_seconds()
    while asyncio.get_running_loop().time() < deadline:
        try:
            after = await runs.state(run)
        except NoWorker:
            trouble = (await runs.info(run)).trouble
            return _sent(run, name, act, trouble or "no worker is running, it will be applied when one is (make up)")
        except ServerUnavailable:
            return _sent(run, name, act, "then Temporal stopped answering; look again with: starter.py state")
        for taken in reversed([taken.entry for taken in after.acts if taken.step > known]):
            if isinstance(taken, Refused) and taken.act == name:
                raise ActRefused(f"{name} was refused: {taken.why}")
            if (about := _done(taken, name, act)) is not None:
                return _applied(run, name, about)
        await asyncio.sleep(POLL.total_seconds())
    return _sent(run, name, act, "its effect does not show yet; look again with: starter.py state")


def _done(entry: TakenEntry, name: ActName, act: Act) -> str | None:
    """Return the call or tool that an act was about, when this is what came of it; None when it is not."""
    match entry:
        case Decided() if name == ("approve" if entry.approved else "reject"):
            return entry.call_id if act.id in {"", entry.call_id} else None
        case Answered() | Settled() if name == ("answer" if isinstance(entry, Answered) else "settle"):
            return entry.call_id if act.id in {"", entry.call_id} else None
        case Forwarded() if name == entry.act and act.id == f"{entry.to}/{entry.target}":
            return act.id
        case Revoked() if name == "revoke" and act.tool == entry.tool:
            return entry.tool or (entry.call_id if act.id in {"", entry.call_id} else None)
        case Resumed() | Raised() | Paused() | Messaged() if name == DONE_BY[entry.kind] and entry.by == act.by:
            return ""
        case _:
            return None


async def _state(runs: Runs, run: str) -> StateView | None:
    try:
        return await runs.state(run)
    except NoWorker:
        return None


def _applied(run: str, name: ActName, call: str) -> Decision:
    if "/" in call:
        said = f"{name} of {call} was passed on to the run below; it is decided there"
        return Decision(run=run, act=name, status="applied", call=call, said=said)
    return Decision(run=run, act=name, status="applied", call=call, said=SAID[name].format(what=call or run))


def _sent(run: str, name: ActName, act: Act, why: str) -> Decision:
    return Decision(run=run, act=name, status="sent", call=act.id, said=f"{name} was sent; {why}")
