"""A run has no length limit: each turn adds the same to the history, whatever came before and whatever tools return.

The short forms run with all other tests; `make soak` (the variable SOAK=1) runs the full ones.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory

from core.agents import Context, Limits
from core.chat import ChatReply, ChatRequest
from core.entries import Decided, Entry, Refused, ToolFinished
from core.ports import BlobStore
from core.runs import RunResult
from infra.settings import Settings
from tests.benchmarks.models import Caller
from tests.benchmarks.turns import Turn, size_bytes, turns_of
from tests.running import FakeModel, Running, calls, histories, says, worker_for
from workflows.agent import Agent

SOAK = os.environ.get("SOAK") == "1"
HOURS = timedelta(hours=4)
GENERATION_BYTES = 4 * 1024 * 1024
TURN_BYTES = 12 * 1024
CARRIED_BYTES = 32 * 1024
GENERATIONS = 20 if SOAK else 8
WHOLE = Context(policy="accumulate")

Handle = WorkflowHandle[Agent, RunResult]

# (model calls, bytes of each tool's output, events after which a run goes on in a new one)
SHORT = [(160, 5_000, 400), (80, 1_000_000, 400), (240, 100, 600)]
FULL = [(1_000, 5_000, 4_000), (200, 1_000_000, 4_000), (10_000, 100, 4_000)]


def bytes_per_turn(turns: Sequence[Turn]) -> float:
    """The mean over these turns."""
    return sum(turn.size_bytes for turn in turns) / len(turns)


async def entries_of(running: Running, result: RunResult) -> list[Entry]:
    """Read a closed run's journal from blob storage alone."""
    assert result.head is not None
    return await running.storage().journal(result.scope).entries(result.head)


def assert_linear(generations: Sequence[WorkflowHistory]) -> None:
    """Bounded generations, and turns that are all alike."""
    turns = turns_of(generations)
    window = min(100, len(turns) // 4)
    first, last = bytes_per_turn(turns[1 : 1 + window]), bytes_per_turn(turns[-1 - window : -1])
    assert max(map(size_bytes, generations)) < GENERATION_BYTES
    assert last == pytest.approx(first, rel=0.1)
    assert bytes_per_turn(turns) < TURN_BYTES
    # One model call and one tool, in two workflow tasks: twelve events, and a few for each change of the generation.
    assert sorted(turn.events for turn in turns)[len(turns) // 2] == 12
    assert sum(turn.events for turn in turns) <= 12 * len(turns) + 24 * len(generations)


@pytest.mark.timeout(HOURS.total_seconds() if SOAK else 300)
@pytest.mark.parametrize(("turns", "tool_bytes", "events"), FULL if SOAK else SHORT)
async def test_every_turn_costs_the_same(
    client: Client, tested: Settings, blobs: BlobStore, turns: int, tool_bytes: int, events: int
) -> None:
    """Bytes per turn are flat from the first hundred turns to the last, and the journal has all of them."""
    model = Caller(turns - 1, tool_bytes)
    async with worker_for(client, tested, blobs, model) as running:
        handle = await running.start(
            tools=["letters"],
            limits=Limits(turns=turns),
            context=WHOLE,
            events_per_generation=events,
            execution_timeout=HOURS,
        )
        result = await running.result(handle)  # which replays every generation
        assert (result.outcome, result.turns, result.calls) == ("completed", turns, {"letters": turns - 1})
        assert_linear(await histories(handle))
        entries = await entries_of(running, result)
        kinds = ["started", *(["replied", "tool_finished"] * (turns - 1)), "replied", "closed"]
        assert [entry.kind for entry in entries] == kinds
        finished = [entry for entry in entries if isinstance(entry, ToolFinished)]
        assert [entry.turn for entry in finished] == list(range(1, turns))
        assert not any(entry.failed for entry in finished)


async def test_what_is_carried_into_a_new_temporal_run_is_small(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """At most 32 KiB, with 50 artifacts and 10 approvals that wait, each with 3 KB of arguments."""
    reports = calls(*(("report", f'{{"number": {number}}}') for number in range(50)))
    note = ("note", f'{{"path": "{tmp_path}/notes", "text": "{"x" * 3000}"}}')
    model = FakeModel([reports, calls(*([note] * 10)), says("Done.")])
    async with worker_for(client, tested, blobs, model) as running:
        at_once = Limits(parallel_calls=50)  # so that no moment of a turn of 50 calls is carried, which is more
        handle = await running.start(
            tools=["report", "note"], approval={"note": "ask"}, limits=at_once, events_per_generation=50
        )
        await running.until(handle, lambda state: len(state.pending) == 10, "all ten wait")
        before = len(await histories(handle))
        for number in count():
            await handle.signal(f"nobody-knows-{number}")
            if number % 20 == 19 and len(await histories(handle)) > before:
                break
        for number in range(1, 11):
            await handle.signal("approve", {"id": f"t2c{number}", "by": "ana"})
        result = await running.result(handle)
        assert (result.outcome, result.calls, len(result.artifacts)) == ("completed", {"report": 50, "note": 10}, 50)
        assert (tmp_path / "notes").read_text() == f"{'x' * 3000}\n" * 10
        carried = [cost for history in await histories(handle) if (cost := carried_bytes(history))]
        assert len(carried) >= 2
        assert max(carried) <= CARRIED_BYTES


def carried_bytes(history: WorkflowHistory) -> int:
    """The size of what a Temporal run handed to the next one; 0 for the last."""
    handed = history.events[-1].workflow_execution_continued_as_new_event_attributes.input
    return sum(len(payload.data) for payload in handed.payloads)


@pytest.mark.timeout(300)
async def test_no_signal_is_lost_or_applied_twice_across_generations(
    client: Client, tested: Settings, blobs: BlobStore, tmp_path: Path
) -> None:
    """Under a steady load of approvals and nonsense, each that was sent is in the journal exactly once."""
    note = ("note", f'{{"path": "{tmp_path}/notes", "text": "a"}}')
    stop = asyncio.Event()

    def ask_again(request: ChatRequest) -> ChatReply:
        return says("Done.") if stop.is_set() else calls(note)

    limits = Limits(turns=200)
    async with worker_for(client, tested, blobs, FakeModel([ask_again] * limits.turns)) as running:
        handle = await running.start(tools=["note"], approval={"note": "ask"}, limits=limits, events_per_generation=50)
        load = asyncio.create_task(send_nonsense(handle, stop))
        turns, generations = 0, set[str]()
        while len(generations) < GENERATIONS:
            turns += 1
            await approve(running, handle, turns, by=f"ana {turns}")
            await handle.signal("approve", {"id": f"t{turns}c1", "by": f"late {turns}"})
            generations.add((await handle.describe()).run_id)
        await running.until(handle, lambda state: bool(state.pending), "the last one waits")
        stop.set()
        nonsense = await load
        turns += 1
        await approve(running, handle, turns, by=f"ana {turns}")  # what was sent before is applied before
        result = await running.result(handle)
        assert (result.outcome, result.turns, result.calls) == ("completed", turns + 1, {"note": turns})
        assert (tmp_path / "notes").read_text() == "a\n" * turns
        entries = await entries_of(running, result)
        assert [entry.by for entry in entries if isinstance(entry, Decided)] == [
            f"ana {n}" for n in range(1, turns + 1)
        ]
        refused = [entry.act for entry in entries if isinstance(entry, Refused)]
        assert [act for act in refused if act != "approve"] == nonsense
        assert refused.count("approve") == turns - 1


async def send_nonsense(handle: Handle, stop: asyncio.Event) -> list[str]:
    """Send signals that nobody knows, one after the other, and return their names."""
    sent: list[str] = []
    while not stop.is_set():
        name = f"nonsense-{len(sent)}"
        await handle.signal(name)
        sent.append(name)
    return sent


async def approve(running: Running, handle: Handle, turn: int, by: str) -> None:
    """Approve a turn's only call as soon as it waits."""
    await running.until(
        handle, lambda state: [call.id for call in state.pending] == [f"t{turn}c1"], f"turn {turn} waits"
    )
    await handle.signal("approve", {"id": f"t{turn}c1", "by": by})
