"""Count the words of an attached document."""

from datetime import timedelta

from activities.tool_context import ToolContext
from activities.toolbox import tool


@tool(effect="read", timeout=timedelta(seconds=30))
def word_count(name: str, *, context: ToolContext) -> str:
    """Count the words of an attached document.

    Args:
        name: the document's name or handle, as list_files shows it.
    """
    path = context.wait(context.workspace.local(name))
    words = len(path.read_text(errors="replace").split())
    return f"{words} words"
