"""Tool `write_report`."""

import re
from datetime import timedelta

from activities.tool_context import ToolOutput
from activities.toolbox import tool
from core.content import one_line
from core.errors import Failed

TITLE_CHARACTERS = 200


@tool(effect="idempotent_write", timeout=timedelta(minutes=2), approval="ask")
def write_report(title: str, markdown: str) -> ToolOutput:
    """Publish a report: store it as a Markdown artifact of the run, which people get as its result.

    Args:
        title: The report's title, in one line.
        markdown: The report itself, in Markdown.
    """
    heading = one_line(title, TITLE_CHARACTERS)
    if not heading:
        raise Failed("the title is empty; give the report a title")
    if not markdown.strip():
        raise Failed("the report is empty; give its text as Markdown")
    text = markdown if markdown.lstrip().startswith("# ") else f"# {heading}\n\n{markdown}"
    slug = re.sub(r"[^\w]+", "-", heading.lower()).strip("-_")[:60].strip("-_") or "report"
    return ToolOutput(text.rstrip("\n") + "\n", f"{slug}.md", "text/markdown")
