"""A write takes effect once, whatever is killed, and whenever: counted by a server outside of the system.

The short form runs with all other tests; `make chaos` (the variable CHAOS=1) kills a hundred times. Both print the seed
of their random moments; CHAOS_SEED repeats them.
"""

import os
import random
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest

from infra.s3 import S3BlobStore
from infra.stack import LocalStack
from infra.temporal import connect
from tests.durability.chaos import CHAOS, report
from tests.durability.counter import Counter
from tests.durability.kills import TOOLS, Kills, table, worker_to_kill
from tests.durability.workers import worker_process
from tests.running import Running

LONGEST = timedelta(hours=1)
WORKER_KILLS = 100 if CHAOS else 2
TEMPORAL_KILLS = 10 if CHAOS else 1


@pytest.fixture
def chance() -> random.Random:
    """Random moments, which can be had again."""
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().getrandbits(32))
    sys.stdout.write(f"CHAOS_SEED={seed}\n")
    return random.Random(seed)


@pytest.mark.timeout(LONGEST.total_seconds() if CHAOS else 180)
async def test_a_write_takes_effect_once_though_its_worker_is_killed(
    stack: LocalStack, running: Running, counter: Counter, tmp_path: Path, chance: random.Random
) -> None:
    """Before, in or after its effect: never twice, never missing in silence; the journal says who settled it."""
    kills = Kills(running, counter, tmp_path, chance)
    async with worker_to_kill(stack, running.settings.task_queue, tmp_path) as worker:
        for number in range(WORKER_KILLS):
            flights = await kills.flights(TOOLS * 2, held=number % 2 == 0)
            await kills.moment(flights)
            await worker.kill()
            kills.note_phases(flights)
            await worker.start()
            await kills.settle("worker", flights)
    report("worker", [asdict(row) for row in kills.rows], table(kills.rows))
    assert sum(row.in_mid_effect for row in kills.rows) >= WORKER_KILLS


@pytest.mark.timeout(LONGEST.total_seconds() if CHAOS else 180)
async def test_a_write_takes_effect_once_though_temporal_is_killed(
    counter: Counter, tmp_path: Path, chance: random.Random
) -> None:
    """The worker lives and goes on with the call; whether its end is heard or not, it is counted once."""
    async with LocalStack(tmp_path / "stack", flush_interval=None) as own:
        blobs = S3BlobStore.from_settings(own.settings())
        running = Running(await connect(own.settings()), own.settings(), blobs)
        kills = Kills(running, counter, tmp_path, chance)
        async with worker_process(own, own.settings().task_queue, tmp_path):
            for number in range(TEMPORAL_KILLS):
                flights = await kills.flights(TOOLS * 2, held=number % 2 == 0)
                await kills.moment(flights)
                await own.kill("temporal")
                kills.note_phases(flights)
                counter.let_go()
                await own.ready()
                await kills.settle("temporal", flights)
        await blobs.close()
    report("temporal", [asdict(row) for row in kills.rows], table(kills.rows))
