"""Tools that do what tools should not, and that runs must survive."""

import sys
from datetime import timedelta

from activities.toolbox import tool

SHORT = timedelta(seconds=30)


@tool(effect="read", timeout=SHORT)
def raises() -> str:
    """Raise an error that nobody thought of."""
    raise RuntimeError("the disk is upside down")


@tool(effect="read", timeout=SHORT)
def raises_a_lot() -> str:
    """Raise an error with a text of 5 MB."""
    raise RuntimeError("x" * 5_000_000)


@tool(effect="write", timeout=SHORT)
def raises_in_a_write() -> str:
    """Raise an error of which nobody knows whether something happened before."""
    raise RuntimeError("connection lost")


@tool(effect="read", timeout=SHORT)
def three_megabytes() -> str:
    """Return 3 MB of text."""
    return "0123456789abcde\n" * (3 * 65536)


@tool(effect="read", timeout=SHORT)
def some_bytes() -> bytes:
    """Return bytes that are no text."""
    return bytes(range(256))


@tool(effect="read", timeout=SHORT)
def lone_surrogate() -> str:
    """Return a text that can't be encoded."""
    return "before \ud800 after"


@tool(effect="read", timeout=SHORT)
def nuls() -> str:
    """Return a text with NULs."""
    return "a\0b"


@tool(effect="read", timeout=SHORT)
def nothing() -> None:
    """Return nothing."""


@tool(effect="read", timeout=SHORT)
def leaves() -> str:
    """End the process, or try to."""
    sys.exit(3)


@tool(effect="read", timeout=SHORT, attempts=1)
def raises_once() -> str:
    """Raise an error, and be given up at once."""
    raise RuntimeError("no more paper")
