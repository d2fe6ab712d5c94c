"""Tools for pipelines: an effect that can be counted, and that fails as often as a test says."""

from datetime import timedelta
from pathlib import Path

from activities.toolbox import tool
from core.errors import Failed


@tool(effect="write", timeout=timedelta(seconds=60))
def put_line(book: str, line: str) -> str:
    """Append a line to a book, unless a file of the line's name lies beside it: then fail.

    Args:
        book: the book.
        line: the line; a file `LINE.fails` beside the book lets it fail, and is used up where it says `once`.
    """
    stop = Path(book).parent / f"{line}.fails"
    if stop.exists():
        if stop.read_text() == "once":
            stop.unlink()
        raise Failed(f"{line} can't be written")
    with Path(book).open("a") as file:
        file.write(f"{line}\n")
    return f"wrote {line}"
