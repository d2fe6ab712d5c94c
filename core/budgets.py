"""The limits of a run: which is reached, and by how much people raised them."""

from core.agents import DELEGATE, Limits
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


def share(spec: RunSpec, state: RunState) -> Limits:
    """Return what the next sub-agent may use: an equal part of what is left for all calls that start one now.

    Of tokens and dollars: they are the tree's. Turns are each agent's own.
    """
    limits, times, raised = spec.limits, state.grants + 1, state.raised
    children = [entry.child for entry in state.running if entry.child is not None]
    waiting = sum(entry.call.name == DELEGATE and entry.child is None for entry in state.running) or 1
    tokens = cost_usd = None
    if limits.tokens is not None:
        used = state.usage.input_tokens + state.usage.output_tokens + sum(child.tokens or 0 for child in children)
        tokens = (limits.tokens * times + (raised.tokens if raised else 0) - used) // waiting
    if limits.cost_usd is not None:
        spent = (state.usage.cost_usd or 0) + sum(child.cost_usd or 0 for child in children)
        cost_usd = (limits.cost_usd * times + (raised.cost_usd if raised else 0) - spent) / waiting
    return Limits.model_construct(**{**limits.model_dump(), "tokens": tokens, "cost_usd": cost_usd})


def no_child(spec: RunSpec, state: RunState, left: Limits) -> str:
    """Say why no further sub-agent may be started; empty when one may."""
    if spec.limits.depth == 0:
        return "there may be no sub-agents below this agent (limits.depth); do the task yourself"
    if state.calls.get(DELEGATE, 0) > spec.limits.delegations:
        return f"{spec.limits.delegations} sub-agents were started, no more may be (limits.delegations)"
    if (left.tokens is not None and left.tokens < 1) or (left.cost_usd is not None and left.cost_usd <= 0):
        return "the run's limits leave nothing for a sub-agent; answer with what you have"
    return ""


def narrowed(own: Limits, left: Limits) -> Limits:
    """Return a sub-agent's limits: its own, within what is left, and one level less below it."""
    return own.model_copy(
        update={
            "tokens": min((each for each in (own.tokens, left.tokens) if each is not None), default=None),
            "cost_usd": min((each for each in (own.cost_usd, left.cost_usd) if each is not None), default=None),
            "depth": max(0, min(own.depth, left.depth - 1)),
        }
    )


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
