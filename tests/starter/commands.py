"""Running starter.py as a person or a script does."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the one document on stdout."""
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        """Return the objects on stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def error(self) -> Any:
        """Return the error on stderr, of a command that was told to write JSON."""
        return json.loads(self.err.splitlines()[-1])["error"]


@dataclass(frozen=True)
class Starter:
    """The command line, in an environment."""

    environment: dict[str, str] = field(default_factory=dict)

    def having(self, **variables: str) -> "Starter":
        """Return the same with other variables."""
        return replace(self, environment={**self.environment, **variables})

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command and return its process."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "starter.py"),
            *arguments,
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Finished:
        """Run a command to its end; no command may end with a traceback."""
        process = await self.begin(*arguments)
        out, err = await process.communicate(stdin)
        finished = Finished(process.returncode or 0, out.decode(), err.decode())
        assert "Traceback" not in finished.err
        return finished
