"""Tools that know secrets, and tell them in every way that there is."""

import base64
import logging
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import structlog

from activities.tool_context import ToolContext, ToolOutput
from activities.toolbox import tool
from core.errors import Failed

SHORT = timedelta(seconds=60)


def confirm(book: str, *, context: ToolContext) -> str:
    """Look into the book, and tell too much."""
    raise Failed(f"{context.secret('api_token')} is not in {Path(book).name}")


@tool(effect="read", timeout=SHORT, attempts=1, secrets=("api_token",))
def confess(how: str, go: str = "", *, context: ToolContext) -> object:
    """Tell the secret.

    Args:
        how: in which way.
        go: a file that ends the telling of progress.
    """
    token = context.secret("api_token")
    basic = base64.b64encode(f"me:{token}".encode()).decode()
    match how:
        case "text":
            return f"{token}, Basic {basic}, https://host/?key={quote(token, safe='')}, {token!r}"
        case "data":
            return {"headers": {"Authorization": f"Basic {basic}"}, token: [token] * 300}
        case "long text":
            return f"{token}\n" * 5000
        case "name":
            return ToolOutput(b"nothing", f"of {token}.txt")
        case "failure":
            raise Failed(f"{'x' * 4080}{token}")
        case "log":
            structlog.stdlib.get_logger("tools").warning(f"with {token}", key=token)
            logging.getLogger("tools").error("with %r", {"key": token})
        case "progress":
            context.heartbeat(f"with {token}")
            while not Path(go).exists() and not context.cancelled:
                time.sleep(0.02)
        case _:
            raise ConnectionError(f"https://me:{quote(token)}@host/ refused {token!r}")
    return "told"


@tool(effect="read", timeout=SHORT, secrets=("file_key",))
def dump(*, context: ToolContext) -> bytes:
    """Return the other secret as bytes: what is stored on purpose is the tool's own business."""
    return context.secret("file_key").encode() * 3


@tool(effect="write", timeout=SHORT, secrets=("api_token",), verify=confirm)
def sign(book: str, *, context: ToolContext) -> str:
    """Write a line into a book, and lose the connection with the secret in its text.

    Args:
        book: the book.
    """
    with Path(book).open("a") as file:
        file.write("signed\n")
    raise ConnectionError(f"lost with {context.secret('api_token')}")


@tool(effect="read", timeout=SHORT, secrets=("late",))
def look(book: str, *, context: ToolContext) -> str:
    """Count the letters of a secret; a line in a book for each time.

    Args:
        book: the book.
    """
    return _noted(book, context)


@tool(effect="write", timeout=SHORT, secrets=("late",))
def act(book: str, *, context: ToolContext) -> str:
    """Count the letters of a secret; a line in a book for each time.

    Args:
        book: the book.
    """
    return _noted(book, context)


def _noted(book: str, context: ToolContext) -> str:
    with Path(book).open("a") as file:
        file.write("ran\n")
    return f"{len(context.secret('late'))} letters"
