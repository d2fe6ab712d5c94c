"""Tool `read_file`."""

from datetime import timedelta

from activities.text_files import TextFile
from activities.tool_context import ToolContext
from activities.toolbox import tool
from core.content import label


@tool(effect="read", timeout=timedelta(minutes=5))
def read_file(name: str, first_line: int = 1, lines: int = 200, *, context: ToolContext) -> str:
    """Read lines of an attached text file, each with its number in front.

    As many lines as fit into one page are returned; the last line says how to read on.

    Args:
        name: The file's name, as list_files shows it.
        first_line: The number of the first line to read, from 1.
        lines: How many lines at most.
    """
    path = context.wait(context.workspace.local(name))
    return TextFile(path, label(name)).page(first_line, lines)
