"""How often a model call is tried again, by what went wrong: each kind has a budget of its own, for each call.

| what went wrong | tries | by whom, and when |
|---|---|---|
| provider down, rate limit, timeout, a bug | `TRANSIENT_TRIES` | Temporal: after its own delay, else 1, 2, ... 60 s |
| an answer that can't be read | `MALFORMED_TRIES` | the workflow, at once |
| blob store down, each time after its adapter's own patience | `STORE_TRIES` | the workflow, after 1, 2, 4, ... 30 s |
| worker died or was shut down | `LOST_WORKERS` | the workflow, on another worker, at once |
| permanent: refused, too long, a wrong object in the store | 1 | |

A failure of one kind takes nothing from the budget of another. What the workflow starts again is a new activity, in
which Temporal's count starts again, too: at most `TRANSIENT_TRIES` for each of the other kinds' tries.
"""

from core.failures import SHUT_DOWN, WORKER_LOST

TRANSIENT_TRIES = 10
"""Without delays of the provider's own they take about four minutes; with them at most 45 (each is at most 5)."""

MALFORMED_TRIES = 3
STORE_TRIES = 10
LOST_WORKERS = 10
"""So many lost workers end a call: then it is likely the call that kills them."""

MALFORMED = "ReplyMalformed"
STORE_DOWN = "StoreUnavailable"
AGAIN: dict[str, int] = {
    MALFORMED: MALFORMED_TRIES - 1,
    STORE_DOWN: STORE_TRIES - 1,
    WORKER_LOST: LOST_WORKERS,
    SHUT_DOWN: LOST_WORKERS,
}
"""How often the workflow starts a model call again after a failure of this kind."""

_LONGEST_PAUSE_SECONDS = 30.0


def pause_seconds(kind: str, failures: int) -> float:
    """Return how long to wait after so many failures of this kind, in a row or not, before the call is started again.

    0 means not at all.
    """
    return min(2.0 ** (failures - 1), _LONGEST_PAUSE_SECONDS) if kind == STORE_DOWN else 0.0
