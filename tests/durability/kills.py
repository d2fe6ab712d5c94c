"""Rounds in which a process is killed while tools are at work, and what became of each call: counted outside."""

import asyncio
import random
from collections import Counter as Counted
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

from temporalio.client import WorkflowHandle
from temporalio.common import SearchAttributeKey

from core.entries import Settled, ToolFinished, Unsettled
from core.runs import RunResult
from infra.stack import LocalStack
from tests.durability.counter import Counter, Step
from tests.durability.scripts import calling, script
from tests.durability.workers import worker_process
from tests.running import Running
from tests.waiting import wait_until
from workflows.agent import Agent

PATIENCE = timedelta(seconds=90)
TOOLS = ("count_verified", "count_blindly", "count_by_key")
HELD: tuple[Step, ...] = ("begin", "effect", "end")

Handle = WorkflowHandle[Agent, RunResult]
Phase = Literal["not begun", "before", "in", "after"]
PHASES: dict[Step, Phase] = {"begin": "before", "effect": "in", "repeated": "in", "end": "after"}


@dataclass(frozen=True)
class Row:
    """What became of one call: where it was at the kill, who settled it how, and how often its effect is there."""

    killed: str
    tool: str
    phase: Phase
    settled: str
    failed: bool
    effects: int

    @property
    def in_mid_effect(self) -> bool:
        """Whether the kill met the call at its work for certain: also one whose end Temporal heard when it was back."""
        lived_on = self.killed == "temporal" and self.phase in {"before", "in"}
        return self.phase != "not begun" and (lived_on or self.settled != SEEN)


SEEN = "its end was seen"


@dataclass
class Flight:
    """A run with one call that may be killed."""

    tool: str
    hold: str
    handle: Handle
    phase: Phase = "not begun"

    @property
    def key(self) -> str:
        """The idempotency key of its call."""
        return f"{self.handle.first_execution_run_id}-t1c1"


@dataclass
class Kills:
    """Starts runs, notes where their calls are when something is killed, and plays the person who looks afterwards."""

    running: Running
    counter: Counter
    folder: Path
    chance: random.Random
    rows: list[Row] = field(default_factory=list)

    async def flights(self, tools: Sequence[str], *, held: bool) -> list[Flight]:
        """Start one run for each tool; held: each call stops at one of its steps; else it runs on, at random speed."""
        return [await self._flight(tool, self.chance.choice(HELD) if held else "") for tool in tools]

    async def _flight(self, tool: str, hold: str) -> Flight:
        seconds = 0.0 if hold else self.chance.uniform(0, 0.3)
        plan = {"counter": self.counter.address, "hold": hold, "seconds": seconds}
        folder = self.folder / f"run-{self.chance.getrandbits(64):x}"
        model = script(folder, calling(tool, plan=plan), {"text": "${last}"})
        return Flight(tool, hold, await self.running.start(tools=[tool], model=model))

    async def moment(self, flights: Sequence[Flight]) -> None:
        """Wait until all that are to be held are held, or one has begun; then for a random time."""

        def there() -> bool:
            reached = [bool(self.counter.count(each.key, _step(each.hold))) for each in flights]
            return all(reached) if flights[0].hold else any(reached)

        await wait_until(there, PATIENCE, "the calls are at work")
        held = self.chance.choice([0.0, self.chance.uniform(0, 0.02)])
        await asyncio.sleep(held if flights[0].hold else self.chance.uniform(0, 1))

    def note_phases(self, flights: Sequence[Flight]) -> None:
        """Note where each call was when it was killed: at the last step that reached the counter."""
        for flight in flights:
            steps = self.counter.steps(flight.key)
            flight.phase = PHASES[steps[-1].step] if steps else "not begun"

    async def settle(self, killed: str, flights: Sequence[Flight]) -> None:
        """See all runs to their end, as a person would who looks at the counter; add what became of each."""
        async with asyncio.timeout(2 * PATIENCE.total_seconds()):
            self.rows += await asyncio.gather(*(self._end(killed, flight) for flight in flights))

    async def _end(self, killed: str, flight: Flight) -> Row:
        steps: int | None = None
        if flight.tool == "count_blindly":
            await wait_until(lambda: _stands(flight.handle), PATIENCE, "a person is asked, or it was not necessary")
            if await _waits(flight.handle):
                steps = await self._look(flight)
        result = await self.running.result(flight.handle)
        assert result.outcome == "completed"
        return await self._row(killed, flight, result, steps)

    async def _look(self, flight: Flight) -> int | None:
        """Settle a call; return how many steps it may have, when it must not run again."""
        done = self.counter.count(flight.key, "effect")
        choice = "done" if done else self.chance.choice(["run_again", "run_again", "give_up"])
        steps = len(self.counter.steps(flight.key))
        await flight.handle.signal("settle", {"settlement": choice, "by": "ana"})
        return None if choice == "run_again" else steps

    async def _row(self, killed: str, flight: Flight, result: RunResult, steps: int | None) -> Row:
        assert result.head is not None
        entries = await self.running.storage().journal(result.scope).entries(result.head)
        (finished,) = [entry for entry in entries if isinstance(entry, ToolFinished)]
        settled = [f"{entry.settlement} ({entry.by})" for entry in entries if isinstance(entry, Settled)]
        doubts = [entry for entry in entries if isinstance(entry, Unsettled)]
        assert len(doubts) == len(settled), entries
        assert not doubts or flight.tool != "count_by_key"
        begun = self.counter.count(flight.key, "begin")
        assert steps is None or len(self.counter.steps(flight.key)) == steps, "it was started again all the same"
        how = " + ".join(settled) or ("started again with its key" if begun > 1 else SEEN)
        effects = self.counter.count(flight.key, "effect")
        row = Row(killed, flight.tool, flight.phase, how, finished.failed, effects)
        assert effects == (0 if finished.failed else 1), f"{row}; {self.counter.steps(flight.key)}"
        return row


async def _stands(handle: Handle) -> bool:
    return (await handle.describe()).close_time is not None or await _waits(handle)


async def _waits(handle: Handle) -> bool:
    """Say whether Temporal knows that a person is to act: a query could tell so before the run has taken it in."""
    attributes = (await handle.describe()).typed_search_attributes
    return attributes.get(SearchAttributeKey.for_keyword("AgentPhase")) == "awaiting_approval"


def _step(hold: str) -> Step:
    return next((step for step in HELD if step == hold), "begin")


@dataclass
class Worker:
    """A worker that is killed, and of which another one takes the place."""

    stack: LocalStack
    task_queue: str
    folder: Path

    def __post_init__(self) -> None:
        """Have none yet."""
        self._holds = AsyncExitStack()
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start a new one."""
        new = worker_process(self.stack, self.task_queue, self.folder)
        self.process = await self._holds.enter_async_context(new)

    async def kill(self) -> None:
        """Kill the one that runs with SIGKILL, and wait until it is dead."""
        assert self.process is not None
        self.process.kill()
        await self._holds.aclose()


@asynccontextmanager
async def worker_to_kill(stack: LocalStack, task_queue: str, folder: Path) -> AsyncIterator[Worker]:
    """Run a worker that may be killed while the block runs."""
    worker = Worker(stack, task_queue, folder)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.kill()


def table(rows: Sequence[Row]) -> str:
    """Write what became of all calls as a table, one line for each kind."""
    counts = Counted((row.killed, row.phase, row.tool, row.settled, row.failed, row.effects) for row in rows)
    lines = [f"{'killed':10}{'call was':11}{'tool':16}{'settled':46}{'result':8}{'outside':9}{'calls':>5}"]
    for (killed, phase, tool, settled, failed, effects), count in sorted(counts.items()):
        result = "failed" if failed else "done"
        lines.append(f"{killed:10}{phase:11}{tool:16}{settled:46}{result:8}{effects:<9}{count:5}")
    killed_calls = [row for row in rows if row.in_mid_effect]
    lines.append(
        f"{len(rows)} calls, {len(killed_calls)} killed at work: "
        f"{sum(row.effects > 1 for row in rows)} had their effect twice, "
        f"{sum(row.effects == 0 and not row.failed for row in rows)} are missing in silence"
    )
    return "\n".join(lines)
