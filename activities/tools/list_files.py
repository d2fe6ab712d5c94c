"""Tool `list_files`."""

from datetime import timedelta

from activities.text_files import Page
from activities.tool_context import ToolContext
from activities.toolbox import tool

HEADER = "NAME | MEDIA_TYPE | SIZE | HANDLE"


@tool(effect="read", timeout=timedelta(minutes=1))
async def list_files(pattern: str = "*", *, context: ToolContext) -> str:
    """List the files attached to this run: name, media type, size and handle, one file a line.

    Args:
        pattern: Which names, with * and ? as placeholders, such as *.csv.
    """
    files = await context.workspace.matching(pattern)
    if not files:
        known = await context.workspace.attachments()
        return f"(no file fits {pattern!r}; {len(known)} attached)" if known else "(no files are attached to this run)"
    page = Page()
    page.add(HEADER)
    shown = sum(
        page.add(f"{file.name} | {file.ref.media_type} | {file.ref.size_bytes} bytes | {file.ref.handle}")
        for file in files
    )
    more = f"; the first {shown} shown: narrow the pattern to see others" if shown < len(files) else ""
    return page.text(f"({len(files)} {'file' if len(files) == 1 else 'files'}{more})")
