"""Tool `search_files`."""

from datetime import timedelta

from activities.searches import Search
from activities.text_files import TextFile
from activities.tool_context import ToolContext
from activities.toolbox import tool
from core.content import one_line
from core.errors import Failed


@tool(effect="read", timeout=timedelta(minutes=5))
def search_files(pattern: str, files: str = "*", context_lines: int = 0, *, context: ToolContext) -> str:
    """Find lines of the attached text files that match a regular expression, as NAME:LINE: text.

    Lines around a match are shown as NAME-LINE- text.

    Args:
        pattern: A regular expression; (?i) at its beginning ignores upper and lower case.
        files: Which files, with * and ? as placeholders, such as *.md.
        context_lines: How many lines to show before and after each match, from 0 to 10.
    """
    chosen = context.wait(context.workspace.matching(files))
    if not chosen:
        names = ", ".join(file.name for file in context.wait(context.workspace.attachments())) or "none"
        raise Failed(f"no file fits {one_line(files, 80)!r}; attached are: {one_line(names, 1000)}")
    texts: list[TextFile] = []
    no_text: list[str] = []
    for file in chosen:
        path = context.wait(context.workspace.local_copy(file.ref))
        try:
            texts.append(TextFile(path, file.name))
        except Failed:
            no_text.append(file.name)
    return Search(pattern, context_lines, check=context.check).over(texts, skipped=no_text)
