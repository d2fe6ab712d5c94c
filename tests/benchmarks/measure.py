"""Runs of each contender, and what they cost: one row after the other."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from core.agents import Context, Limits
from core.ports import BlobStore
from core.runs import RunResult
from infra.settings import Settings
from tests.benchmarks.contenders import Floor, Job, WholeConversation, contenders_worker
from tests.benchmarks.counting import CountingBlobStore
from tests.benchmarks.models import Caller
from tests.benchmarks.rows import Contender, Row, p50, p99
from tests.benchmarks.turns import Turn, latencies_ms, turns_of
from tests.running import Running, histories
from worker import build_worker
from workflows.agent import Agent

HOURS = timedelta(hours=2)
STUCK_ATTEMPTS = 3
POLL_SECONDS = 0.5
ASKS: dict[Contender, str] = {"floor": "floor_ask", "perdure": "ask_model", "whole-conversation": "whole_ask"}

KB, MB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Cell:
    """What one row measures: so many runs of so many turns, and of them so many at once."""

    turns: int
    tool_bytes: int
    runs: int = 1
    at_once: int = 1
    whole: bool = True
    """Whether passing the whole conversation is tried, too."""


SIZES = (KB, 100 * KB, MB)
FULL = (
    *(Cell(turns, size, runs) for turns, runs in ((20, 10), (200, 1), (1000, 1)) for size in SIZES),
    Cell(20, KB, runs=50, at_once=50, whole=False),
)
SMALL = (Cell(6, KB, runs=2), Cell(6, 100 * KB), Cell(3, KB, runs=4, at_once=4, whole=False))


@dataclass
class Ended:
    """A run that is over: its handle, and why it died if it did."""

    handle: "WorkflowHandle[Agent, RunResult]"
    died: str = ""


@dataclass
class Bench:
    """All contenders on the same servers, in this process."""

    client: Client
    settings: Settings
    blobs: BlobStore
    counted: CountingBlobStore = field(init=False)
    bare: Client = field(init=False)
    """The same connection without Perdure's guard against payloads that are too big."""

    def __post_init__(self) -> None:
        self.counted = CountingBlobStore(self.blobs)
        namespace, service = self.client.namespace, self.client.service_client
        self.bare = Client(service, namespace=namespace, data_converter=pydantic_data_converter)

    async def rows(self, cells: Sequence[Cell]) -> AsyncIterator[Row]:
        """Measure the cells; in each the contenders follow each other directly, so that they meet the same machine."""
        warm = Cell(turns=3, tool_bytes=100 * KB)
        warmed: tuple[Contender, ...] = ("floor", "perdure")
        for contender in warmed:
            await self.row(contender, warm)
        for cell in cells:
            floor = await self.row("floor", cell)
            yield floor
            yield (await self.row("perdure", cell)).beside(floor)
            if cell.whole:
                yield (await self.row("whole-conversation", cell)).beside(floor)

    async def row(self, contender: Contender, cell: Cell) -> Row:
        """Measure one contender."""
        async with self._worker(contender, cell) as start:
            cpu_seconds, requests, body_bytes = time.process_time(), self.counted.requests, self.counted.body_bytes
            ended = await _all(start, cell)
            cpu_seconds = time.process_time() - cpu_seconds
            requests, body_bytes = self.counted.requests - requests, self.counted.body_bytes - body_bytes
            rss_bytes = resident_bytes()
            runs = [turns_of(await histories(one.handle), ASKS[contender]) for one in ended]
        latencies = [latencies_ms(run) for run in runs]
        whole = [turn for run in runs for turn in run[:-1]]
        done = max(len(whole), 1)
        every = [value for run in latencies for value in run]
        return Row(
            contender=contender,
            turns=cell.turns,
            tool_bytes=cell.tool_bytes,
            runs=cell.runs,
            at_once=cell.at_once,
            turns_done=len(whole),
            died=next((one.died for one in ended if one.died), ""),
            p50_ms=p50(every),
            p99_ms=p99(every),
            p50_first_ms=p50([value for run in latencies for value in run[: max(len(run) // 10, 1)]]),
            p50_last_ms=p50([value for run in latencies for value in run[-max(len(run) // 10, 1) :]]),
            turns_per_second=round(done / _seconds(runs), 2),
            history_bytes_per_turn=round(sum(turn.size_bytes for turn in whole) / done, 1),
            events_per_turn=round(sum(turn.events for turn in whole) / done, 2),
            s3_bytes_per_turn=round(body_bytes / done, 1),
            s3_requests_per_turn=round(requests / done, 3),
            worker_cpu_seconds=round(cpu_seconds, 3),
            worker_cpu_ms_per_turn=round(1000 * cpu_seconds / done, 2),
            worker_rss_bytes=rss_bytes,
        )

    @asynccontextmanager
    async def _worker(self, contender: Contender, cell: Cell) -> AsyncIterator[Callable[[], Awaitable[Ended]]]:
        """Run a new worker for the contender, and give what makes one run and waits for its end."""
        queue = f"bench-{uuid4().hex[:8]}"
        settings = self.settings.model_copy(update={"task_queue": queue})
        worker: Worker
        if contender == "perdure":
            worker = build_worker(self.client, settings, self.counted, Caller(cell.turns, cell.tool_bytes))
        else:
            worker = contenders_worker(self.bare, queue)
        async with AsyncExitStack() as running:
            await running.enter_async_context(worker)
            match contender:
                case "perdure":
                    yield lambda: _agent(Running(self.client, settings, self.counted), cell)
                case "floor":
                    yield lambda: _bare(self.bare, Floor.__name__, queue, cell)
                case "whole-conversation":
                    yield lambda: _bare(self.bare, WholeConversation.__name__, queue, cell)


async def _agent(running: Running, cell: Cell) -> Ended:
    handle = await running.start(
        tools=["letters"],
        limits=Limits(turns=cell.turns + 1),
        context=Context(policy="accumulate"),
        execution_timeout=HOURS,
    )
    await handle.result()
    return Ended(handle)


async def _bare(client: Client, name: str, queue: str, cell: Cell) -> Ended:
    job = Job(turns=cell.turns, tool_bytes=cell.tool_bytes)
    handle = await client.start_workflow(name, job, id=f"{queue}-{uuid4().hex[:8]}", task_queue=queue)
    result = asyncio.create_task(handle.result())
    while not result.done():
        await asyncio.wait([result], timeout=POLL_SECONDS)
        task = (await handle.describe()).raw_description.pending_workflow_task
        if not result.done() and task.attempt >= STUCK_ATTEMPTS:
            await handle.terminate("the benchmark has seen that it goes no further")
            await asyncio.wait([result])
            return Ended(handle, "stuck: Temporal takes no input over 2 MiB")
    try:
        await result
    except WorkflowFailureError as error:
        return Ended(handle, f"ended by Temporal: {error.cause}")
    return Ended(handle)


async def _all(start: Callable[[], Awaitable[Ended]], cell: Cell) -> list[Ended]:
    """Make all runs of a cell, so many at once."""
    room = asyncio.Semaphore(cell.at_once)

    async def one() -> Ended:
        async with room:
            return await start()

    return await asyncio.gather(*(one() for _ in range(cell.runs)))


def _seconds(runs: Sequence[Sequence[Turn]]) -> float:
    """From the first turn of all to the end of the last one, without the gaps between runs that came one by one."""
    spans = [(run[0].began_ms, run[-1].began_ms) for run in runs if len(run) > 1]
    if not spans:
        return 1.0
    whole_ms, position = 0.0, min(began for began, _ in spans)
    for began, ended in sorted(spans):
        whole_ms += max(ended - max(began, position), 0.0)
        position = max(position, ended)
    return whole_ms / 1000


def resident_bytes() -> int:
    """How much memory this process has now (Linux); 0 where that is not to be had."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
