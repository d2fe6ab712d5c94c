"""The limits of a run: which is reached, and by how much people raised them."""

from core.entries import Raised
from core.runs import RunSpec
from core.state import RunState


def limit_reached(spec: RunSpec, state: RunState) -> str | None:
    """Say which limit is reached: each is granted once, as often as a person resumed at one, and what was raised."""
    limits, times, usage, raised = spec.limits, state.grants + 1, state.usage, state.raised
    turns = limits.turns * times + (raised.turns if raised else 0)
    if state.turn >= turns:
        return f"limit of {turns} turns reached"
    tokens = (limits.tokens or 0) * times + (raised.tokens if raised else 0)
    if limits.tokens is not None and usage.input_tokens + usage.output_tokens >= tokens:
        return f"limit of {tokens} tokens reached"
    cost_usd = (limits.cost_usd or 0) * times + (raised.cost_usd if raised else 0)
    if limits.cost_usd is not None and usage.cost_usd is None and state.turn > 0 and state.grants == 0 and not raised:
        return "the model's price is not known, so its cost can't be limited"
    if limits.cost_usd is not None and (usage.cost_usd or 0) >= cost_usd:
        return f"limit of {cost_usd:.2f} USD reached"
    return None


def raised(state: RunState, entry: Raised) -> RunState:
    """Return the state with higher limits; a run that was paused at one goes on."""
    before = state.raised or entry.model_copy(update={"turns": 0, "tokens": 0, "cost_usd": 0.0})
    total = entry.model_copy(
        update={
            "turns": before.turns + entry.turns,
            "tokens": before.tokens + entry.tokens,
            "cost_usd": before.cost_usd + entry.cost_usd,
        }
    )
    at_limit = state.paused is not None and state.paused.cause == "limit"
    return state.model_copy(update={"raised": total, "paused": None if at_limit else state.paused})
