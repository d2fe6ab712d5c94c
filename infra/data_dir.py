"""The data directory of a local stack: made, and taken by one process at a time."""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from infra.children import StackError


def open_data_dir(path: Path) -> IO[str]:
    """Make the directory, for its owner alone, and take it for this process; closing the returned file gives it back.

    Raises:
        StackError: it can't be made or written, or another process has it; names it and the cure.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return _lock(path)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise StackError(
            f"the data directory {path} can't be used ({reason}): make it a directory that you may write to, or set "
            "PERDURE_DATA_DIR to another one"
        ) from error


def _lock(data_dir: Path) -> IO[str]:
    """Take the directory for this process; the system gives it back when the process ends, however it does."""
    lock = (data_dir / "lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise StackError(
            f"a local stack (process {owner}) already runs on {data_dir}: use that one, stop it, or set "
            "PERDURE_DATA_DIR to another directory"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
