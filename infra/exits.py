"""Exit codes: what a script learns from a command without reading its output.

```
0    ok
1    the run failed, was terminated or timed out; or its bytes are missing or damaged
2    wrong usage, input or settings
3    a server can't be reached
4    no such run or artifact, or nothing to decide
5    the run was cancelled
6    the pipeline ended, and something that it should have undone is still there
130  interrupted; the run goes on
```
"""

from core.errors import PerdureError, StorageError, StoreRefused, StoreUnavailable
from infra.decisions import ActRefused
from infra.runs import NoWorker, RunNotFound, Status
from infra.store import ArtifactNotFound
from infra.temporal import ServerUnavailable

OK = 0
FAILED = 1
WRONG_INPUT = 2
UNREACHABLE = 3
NOT_FOUND = 4
CANCELLED = 5
UNDO_FAILED = 6
INTERRUPTED = 130

EXIT_CODES = """\
Exit codes: 0 ok; 1 the run failed, was terminated or timed out, or its bytes are damaged; 2 wrong usage, input or \
settings; 3 a server can't be reached; 4 no such run or artifact, or nothing to decide; 5 the run was cancelled; \
6 a pipeline could not undo something; 130 interrupted (the run goes on)."""

_BY_KIND: tuple[tuple[type[PerdureError] | tuple[type[PerdureError], ...], int], ...] = (
    ((RunNotFound, ActRefused, ArtifactNotFound), NOT_FOUND),
    ((ServerUnavailable, StoreUnavailable, NoWorker), UNREACHABLE),
    (StoreRefused, WRONG_INPUT),
    (StorageError, FAILED),
)


def exit_code(error: PerdureError) -> int:
    """Return the exit code of an expected error; what is no other thing is the caller's mistake."""
    return next((code for kinds, code in _BY_KIND if isinstance(error, kinds)), WRONG_INPUT)


def exit_code_of(status: Status) -> int:
    """Return the exit code of a command that waited for a run which ended so."""
    return {"completed": OK, "cancelled": CANCELLED}.get(status, FAILED)
