"""Decisions that race with continue-as-new and with kill -9 of the worker: none is lost, none counts twice.

Half of the runs are decided by signals, half by updates. Who decides looks at what waits and sends; each decision has a
word of its own, which the journal must show exactly once where it was taken, and never where it was refused.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError

from core.agents import Limits
from core.entries import Decided, Entry, Refused
from core.pending import PendingCall
from core.view import StateView
from infra.payloads import data_converter
from infra.stack import LocalStack
from tests.durability.chaos import CHAOS, report
from tests.durability.scripts import script
from tests.durability.test_kill import Handle
from tests.durability.workers import worker_process
from tests.running import Running, histories

RUNS = 40 if CHAOS else 4
TURNS = 16 if CHAOS else 6
KILLS = 12 if CHAOS else 2
PEOPLE = ("ana", "ben", "eve")
EVENTS = 60
"""A run goes on in a new Temporal run every few turns."""
SECOND = timedelta(seconds=1)


@dataclass
class Sent:
    """What people sent to a run, by the word of each decision."""

    signals: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    """Updates that were answered."""
    refused: set[str] = field(default_factory=set)
    """Updates that were not taken."""
    unclear: set[str] = field(default_factory=set)
    """Their answer did not come: the worker was killed, or the run went on elsewhere."""


async def person(handle: Handle, by: str, sent: Sent, *, by_update: bool) -> None:
    """Decide on what waits until the run has ended."""
    chance = random.Random(f"{handle.id}{by}")
    while True:
        try:
            state: StateView = await handle.query("state", result_type=StateView, rpc_timeout=2 * SECOND)
        except RPCError:
            description = await handle.describe()
            if description.close_time is not None:
                return
            continue
        if state.outcome is not None:
            return
        for call in state.pending:
            if not call.doubt:
                await decide(handle, call, chance.choice(("approve", "reject")), by, sent, by_update=by_update)
            elif by == PEOPLE[0]:  # its worker was killed in the middle of the call
                with suppress(WorkflowUpdateFailedError, RPCError):
                    settled = {"id": call.id, "by": by, "settlement": "done"}
                    await handle.execute_update("settle", settled, rpc_timeout=10 * SECOND)
        await asyncio.sleep(0.02)


async def decide(handle: Handle, call: PendingCall, name: str, by: str, sent: Sent, *, by_update: bool) -> None:
    """Send one decision, and keep what became of it as far as its sender knows."""
    word = uuid4().hex
    act = {"id": call.id, "by": by, "reason": word, "digest": call.digest}
    try:
        if by_update:
            await handle.execute_update(name, act, rpc_timeout=10 * SECOND)
            sent.taken.add(word)
        else:
            await handle.signal(name, act)
            sent.signals.add(word)
    except WorkflowUpdateFailedError:
        sent.refused.add(word)
    except RPCError as error:
        if "already completed" not in error.message:
            sent.unclear.add(word)


async def killing(stack: LocalStack, queue: str, folder: Path, ended: asyncio.Event) -> int:
    """Kill the worker again and again, and start another one, until enough were killed; the last one stays."""
    kills = 0
    while True:
        async with worker_process(stack, queue, folder) as worker:
            waited = asyncio.create_task(ended.wait())
            pause = 2.5 if kills < KILLS else None
            done, _ = await asyncio.wait({waited}, timeout=pause)
            waited.cancel()
            if done:
                return kills
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
            kills += 1


def seconds_to_dispatch(entries: list[Entry], dispatched: dict[str, float]) -> list[float]:
    """Return how long each approved call waited from the decision to its dispatch."""
    return [
        dispatched[entry.call_id] - entry.at.timestamp()
        for entry in entries
        if isinstance(entry, Decided) and entry.approved and entry.call_id in dispatched
    ]


async def dispatch_times(handle: Handle) -> dict[str, float]:
    """Return when each call was scheduled first."""
    found: dict[str, float] = {}
    for history in await histories(handle):
        for event in history.events:
            attributes = event.activity_task_scheduled_event_attributes
            if event.HasField("activity_task_scheduled_event_attributes") and attributes.activity_type.name == "note":
                found.setdefault(attributes.activity_id, event.event_time.ToMicroseconds() / 1e6)
    return found


def counted(entries: list[Entry], sent: Sent, late_acts: int) -> Counter[str]:
    """Compare a run's journal with what people sent to it."""
    decided = Counter(entry.reason for entry in entries if isinstance(entry, Decided))
    calls = Counter(entry.call_id for entry in entries if isinstance(entry, Decided))
    refused = sum(isinstance(entry, Refused) for entry in entries)
    assert calls == {f"t{turn}c{call}": 1 for turn in range(1, TURNS + 1) for call in (1, 2)}
    assert set(decided) <= sent.signals | sent.taken | sent.unclear
    assert sent.taken <= set(decided)
    if sent.signals:
        assert len(sent.signals) == len(decided) + refused + late_acts
    return Counter(
        sent=len(sent.signals | sent.taken | sent.refused | sent.unclear),
        taken=len(decided),
        refused=refused + len(sent.refused),
        unclear=len(sent.unclear - set(decided)),
        doubled=sum(number > 1 for number in decided.values()),
        lost=len(sent.taken - set(decided)),
    )


@pytest.mark.timeout(1800)
async def test_no_decision_is_lost_or_doubled(stack: LocalStack, running: Running, tmp_path: Path) -> None:
    """Whatever dies meanwhile, and however often the run goes on in a new Temporal run."""
    arguments = {"path": str(tmp_path / "notes"), "text": "x"}
    two = {"calls": [{"id": f"c{n}", "name": "note", "arguments": arguments} for n in range(2)]}
    model = script(tmp_path, *([two] * TURNS), {"text": "Done."})
    limits, queue = Limits(turns=TURNS + 1, failures=None), running.settings.task_queue
    handles = [
        await running.start(
            tools=["note"], approval={"note": "ask"}, model=model, limits=limits, events_per_generation=EVENTS
        )
        for _ in range(RUNS)
    ]
    others = [
        await Client.connect(running.client.service_client.config.target_host, data_converter=data_converter)
        for _ in PEOPLE
    ]
    sent = [Sent() for _ in handles]
    ended = asyncio.Event()
    began = time.monotonic()
    killer = asyncio.create_task(killing(stack, queue, tmp_path, ended))
    await asyncio.gather(
        *(
            person(client.get_workflow_handle(handle.id), by, sent[number], by_update=number % 2 == 1)
            for number, handle in enumerate(handles)
            for by, client in zip(PEOPLE, others, strict=True)
        )
    )
    results = await asyncio.gather(*(running.result(handle) for handle in handles))
    ended.set()
    kills = await killer
    counts: Counter[str] = Counter(kills=kills, runs=RUNS)
    waits: list[float] = []
    for handle, one, result in zip(handles, sent, results, strict=True):
        assert result.head is not None
        entries = await running.storage().journal(result.scope).entries(result.head)
        counts += counted(entries, one, result.late_acts)
        counts["temporal_runs"] += len(await histories(handle))
        waits += seconds_to_dispatch(entries, await dispatch_times(handle))
    assert counts["temporal_runs"] > RUNS
    found = {"lost": 0, "doubled": 0, **counts, "seconds": round(time.monotonic() - began)}
    waits.sort()
    found |= {"decision_to_dispatch_p50_ms": round(waits[len(waits) // 2] * 1000)}
    found |= {"decision_to_dispatch_p99_ms": round(waits[len(waits) * 99 // 100] * 1000)}
    report("decisions", found)
