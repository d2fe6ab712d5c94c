"""Tool `read_artifact`."""

from datetime import timedelta

from activities.text_files import TextFile, byte_page
from activities.tool_context import ToolContext
from activities.toolbox import tool


@tool(effect="read", timeout=timedelta(minutes=5))
def read_artifact(
    handle: str,
    first_line: int = 1,
    lines: int = 100,
    first_byte: int | None = None,
    byte_count: int = 2000,
    *,
    context: ToolContext,
) -> str:
    """Read a part of an artifact: numbered lines of a text, or bytes of any file (binary, or of very long lines).

    As much as fits into one page is returned; the last line says how to read on.

    Args:
        handle: The artifact's handle, such as a:3f9c21d04b7e, or an attached file's name.
        first_line: The number of the first line to read, from 1.
        lines: How many lines at most.
        first_byte: When given, bytes are read instead of lines, from this one on; the first byte is 0.
        byte_count: How many bytes at most.
    """
    ref = context.wait(context.workspace.reference(handle))
    path = context.wait(context.workspace.local_copy(ref))
    if first_byte is not None:
        return byte_page(path, ref.name, first_byte, byte_count)
    return TextFile(path, ref.name).page(first_line, lines)
