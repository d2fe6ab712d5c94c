"""Tool `search_artifact`."""

from datetime import timedelta

from activities.searches import Search
from activities.text_files import TextFile
from activities.tool_context import ToolContext
from activities.toolbox import tool


@tool(effect="read", timeout=timedelta(minutes=5))
def search_artifact(handle: str, pattern: str, context_lines: int = 0, *, context: ToolContext) -> str:
    """Find lines of a text artifact that match a regular expression, as NAME:LINE: text.

    Args:
        handle: The artifact's handle, such as a:3f9c21d04b7e, or an attached file's name.
        pattern: A regular expression; (?i) at its beginning ignores upper and lower case.
        context_lines: How many lines to show before and after each match, from 0 to 10.
    """
    ref = context.wait(context.workspace.reference(handle))
    path = context.wait(context.workspace.local_copy(ref))
    return Search(pattern, context_lines, check=context.check).over([TextFile(path, ref.name)])
