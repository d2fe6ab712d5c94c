"""A tool that a person is asked about."""

from datetime import timedelta

from activities.toolbox import tool


@tool(effect="write", timeout=timedelta(seconds=30), approval="ask")
def publish(title: str, text: str) -> str:
    """Publish a text.

    Args:
        title: What it is called.
        text: All of it.
    """
    return f"published {title}: {len(text)} characters"
