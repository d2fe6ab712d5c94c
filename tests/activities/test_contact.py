"""Contact with Temporal: what was given up must not go on as if nothing had been."""

from datetime import timedelta

import pytest
from temporalio.exceptions import CancelledError

from activities.contact import CONTACT, Contact
from activities.tool_context import ToolContext
from activities.toolbox import Toolbox, tool
from tests.activities.calling import Calling

SHORT = timedelta(seconds=30)


def test_silence_of_a_heartbeat_timeout_is_for_good() -> None:
    """A sign of life after it does not bring the attempt back."""
    contact = Contact(timedelta(seconds=60))
    contact.made()
    assert not contact.lost
    frozen = Contact(timedelta(0))
    assert frozen.lost
    frozen.timeout = timedelta(seconds=60)
    frozen.made()
    assert frozen.lost


def test_without_heartbeats_nothing_is_lost() -> None:
    """Nobody waits for a sign of life then."""
    assert not Contact(None).lost


async def test_a_tool_that_asks_before_its_effect_stops_when_it_was_given_up(calling: Calling) -> None:
    """It sees itself as cancelled, and `check` raises."""
    seen: list[bool] = []

    @tool(effect="write", timeout=SHORT)
    def pays(*, context: ToolContext) -> None:
        """Pay, unless it was given up."""
        seen.append(context.cancelled)
        with pytest.raises(CancelledError):
            context.check()

    calling.toolbox = Toolbox([pays])
    token = CONTACT.set(Contact(timedelta(0)))
    try:
        await calling.call("pays")
    finally:
        CONTACT.reset(token)
    assert seen == [True]
