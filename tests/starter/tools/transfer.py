"""A tool that loses its connection: nobody knows what became of the call."""

from datetime import timedelta

from activities.toolbox import tool


@tool(effect="write", timeout=timedelta(seconds=30))
def transfer(cents: int) -> str:
    """Transfer money.

    Args:
        cents: How much.
    """
    raise ConnectionError(f"connection lost while {cents} cents were on their way")
