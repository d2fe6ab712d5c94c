"""Tools with an effect outside that tests can count, and that lose their connection before or after it."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from activities.tool_context import ToolContext
from activities.toolbox import tool
from core.errors import Failed, NotDone

SHORT = timedelta(seconds=30)
Loses = Literal["never", "before", "before once", "after"]
"""When the tool loses its connection: nobody who only sees the error knows whether the effect is there."""


def was_ordered(path: str, what: str, loses: Loses = "never", *, context: ToolContext) -> str:
    """Look into the book of orders."""
    if what == "no book":
        raise Failed("the book is closed today")
    book = Path(path)
    if loses in {"never", "after"} or context.idempotency_key in (book.read_text() if book.exists() else ""):
        return f"found the order of {what}"
    raise NotDone("no such order in the book")


@tool(effect="write", timeout=SHORT, verify=was_ordered)
def order(path: str, what: str, loses: Loses = "never", *, context: ToolContext) -> str:
    """Write an order into a book, one line each.

    Args:
        path: the book.
        what: what is ordered.
        loses: when the connection is lost.
    """
    _enter(Path(path), f"{context.idempotency_key} {what}", loses)
    return f"ordered {what}"


@tool(effect="write", timeout=SHORT)
def ship(path: str, what: str, loses: Loses = "never", *, context: ToolContext) -> str:
    """Ship something: nothing can be looked up afterwards.

    Args:
        path: the book of what was shipped, one line each.
        what: what is shipped.
        loses: when the connection is lost.
    """
    _enter(Path(path), f"{context.idempotency_key} {what}", loses)
    return f"shipped {what}"


@tool(effect="write", timeout=SHORT)
def ring(path: str, busy: int) -> str:
    """Ring somebody up who is busy for some time; that is no effect.

    Args:
        path: a file that gets a line for each time that it was tried.
        busy: how often the line is busy.
    """
    with Path(path).open("a") as file:
        file.write("rang\n")
    if Path(path).read_text().count("rang") <= busy:
        raise NotDone("the line is busy")
    return "talked"


def _enter(book: Path, line: str, loses: Loses) -> None:
    tried = book.with_suffix(".tried")
    first = not tried.exists()
    tried.touch()
    if loses == "before" or (loses == "before once" and first):
        raise ConnectionError("connection lost")
    with book.open("a") as file:
        file.write(f"{line}\n")
    if loses == "after":
        raise ConnectionError("connection lost")
