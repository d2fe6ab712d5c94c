"""Tool `run_command`."""

from datetime import timedelta
from pathlib import Path

from activities.tool_context import ToolContext, ToolOutput
from activities.toolbox import tool
from core.content import fits_inline
from core.errors import Failed


@tool(effect="write", timeout=timedelta(minutes=30), approval="ask")
def run_command(command: list[str], folder: str = "", *, context: ToolContext) -> str | ToolOutput:
    """Run a command, word by word, and return what it prints; an exit code other than 0 is a failure.

    It gets no secrets and no settings, and all that it starts ends with it.

    Args:
        command: The command's words, such as ["git", "status"]; for a line of a shell: ["sh", "-c", "..."].
        folder: Where it runs; left out, in an empty folder that is deleted afterwards.
    """
    if not command:
        raise Failed('the command is empty; give its words, such as ["git", "status"]')
    cwd = Path(folder) if folder else None
    if cwd is not None and not cwd.is_dir():
        raise Failed(f"there is no folder {folder!r}; give one that is there on the worker")
    done = context.run_command(command, cwd=cwd)
    said = done.stdout if done.stdout.strip() else done.stderr
    if done.exit_code:
        raise Failed(f"exit code {done.exit_code}: {(done.stderr.strip() or done.stdout.strip())[-2000:]}")
    if done.stdout_truncated or not fits_inline(done.stdout):
        return ToolOutput(done.stdout_path, "output.txt", "text/plain")
    return said.strip() or "(it printed nothing)"
