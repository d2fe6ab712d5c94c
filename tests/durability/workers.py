"""Workers as processes of their own, to be killed."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from infra.stack import LocalStack

HURRY = {"PERDURE_HEARTBEAT_TIMEOUT_SECONDS": "0.2", "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS": "0.3"}
"""For a worker that waits no longer for its tools; how soon a run's tools are missed is fixed when the run starts."""


@asynccontextmanager
async def worker_process(
    stack: LocalStack, task_queue: str, folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `worker.py` on a task queue, with `worker.log` in the folder; what is left of it at the end is killed."""
    variables = {
        **os.environ,
        **stack.env(),
        "PERDURE_TASK_QUEUE": task_queue,
        "PERDURE_TOOLS": "tests.tools",
        "PERDURE_DATA_DIR": str(folder),
        "PYTHONPATH": str(Path.cwd()),
        **(environment or {}),
    }
    with (folder / "worker.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "worker.py", env=variables, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
