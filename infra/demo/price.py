"""What the demo's run has cost: the table at its end."""

from datetime import datetime

from pydantic import BaseModel
from rich.table import Table

from core.content import readable_bytes
from core.runs import RunResult
from infra.demo.history import HistoryCost


class Kill(BaseModel):
    """When the worker was killed, and at which activity."""

    at: datetime
    during: str


def price(result: RunResult, history: HistoryCost, kill: Kill | None) -> Table:
    """Return what the run has cost, as Temporal counted it, as a table of names and values."""
    table = Table(show_header=False, box=None)
    activities = ", ".join(f"{name} {count}" for name, count in sorted(history.activities.items()))
    retried = ", ".join(f"{name} {count}" for name, count in sorted(history.retries.items()) if count)
    rows = {
        "outcome": result.outcome,
        "model": result.model,
        "turns": str(result.turns),
        "activities": f"{sum(history.activities.values())} ({activities})",
        "run again after the kill": retried or "nothing",
        "resumed after": _resumed_after(history, kill) if kill is not None else "the worker was not killed",
        "tokens": f"{result.usage.input_tokens} in, {result.usage.output_tokens} out",
        "price of the model": "not known" if (cost := result.usage.cost_usd) is None else f"{cost:.4f} USD",
        "history": f"{history.events} events, {readable_bytes(history.size_bytes)}, "
        f"{readable_bytes(history.size_bytes // max(result.turns, 1))} a turn",
        "artifacts": f"{len(result.artifacts)}, {readable_bytes(sum(ref.size_bytes for ref in result.artifacts))}",
        "time": f"{result.seconds:.1f} s, of it {result.waited_seconds:.1f} s waiting for a person",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _resumed_after(history: HistoryCost, kill: Kill) -> str:
    resumed_at = history.first_end_after(kill.at)
    if resumed_at is None:
        return "the run had done all its steps"
    return f"{(resumed_at - kill.at).total_seconds():.1f} s (kill -9 during {kill.during} to the next finished step)"
