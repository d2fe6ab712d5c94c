"""Trees of processes that tests let grow and die: who belongs to one, and who of them lives."""

import os
from pathlib import Path

TREE = (
    "echo $$ > one; (sleep 600 & echo $! > two; wait) & "
    "setsid sh -c 'trap \"\" TERM; echo $$ > three; while :; do sleep 0.1; done' & wait"
)
"""A line for a shell: a child in the background, and a deaf one that leaves the group; their ids are in files."""


def written(folder: Path) -> set[int]:
    """Return the process ids that stand in the files of a folder."""
    texts = [path.read_text().strip() for path in folder.iterdir() if path.is_file() and path.stat().st_size < 16]
    return {int(text) for text in texts if text.isdigit()}


def alive(processes: set[int]) -> set[int]:
    """Return those that still run: a zombie, which only waits to be counted, does not."""
    return {process for process in processes if _runs(process)}


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()
