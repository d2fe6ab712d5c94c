"""The way of a call: what the README draws is what the rules do, and none of it is a dead end."""

from typing import get_args

from core.state import CallStatus
from tests.core.request_machine import FINISHED, README, diagram, edges


def test_the_readme_draws_what_the_rules_do() -> None:
    """`make diagram` draws it anew."""
    assert diagram() in README.read_text(encoding="utf-8")


def test_every_status_is_reached_and_left() -> None:
    """A call that can't get on would keep its run for ever."""
    found = edges()
    assert {after for _, after in found} | {"proposed"} == set(get_args(CallStatus))
    ends, reached = {FINISHED}, 0
    while len(ends) > reached:
        reached = len(ends)
        ends |= {before for before, after in found if after in ends}
    assert ends == set(get_args(CallStatus))


def test_a_call_runs_only_when_it_needs_nobody_or_was_approved_or_settled_to_run_again() -> None:
    """No other way leads there, and none by waiting."""
    into = {before: events for (before, after), events in edges().items() if after == "running"}
    assert into == {"proposed": ["dispatched"], "approved": ["dispatched"], "again": ["dispatched"]}
    assert {before for before, after in edges() if after == "approved"} == {"awaiting_approval", "checking", "running"}
    waited = [pair for pair, events in edges().items() if "deadline" in events]
    assert waited == [("awaiting_answer", "expired"), ("awaiting_approval", "expired")]
