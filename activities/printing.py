"""What tools print: one bounded line of the log per call, not the worker's standard output.

A worker replaces `sys.stdout` and `sys.stderr` once (`route_prints`). What is written there inside a call goes to the
call's `Printed`; everything else passes. It follows context variables: threads that a tool starts by itself, C code
and child processes write past it.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO, cast

import structlog

from activities.secrets import redacted
from core.content import clean, cut

log = structlog.get_logger(__name__)

SHOWN_BYTES = 2048
KEPT_CHARACTERS = 16 * 1024
"""More than is shown: a secret in it is found whole before it is cut."""


class Printed:
    """The beginning of what one call printed, and how much that was: characters, or bytes written to `buffer`."""

    def __init__(self) -> None:
        self.total = 0
        self._kept = ""

    def write(self, text: str) -> int:
        """Keep it, as far as there is room."""
        self.total += len(text)
        self._kept += text[: KEPT_CHARACTERS - len(self._kept)]
        return len(text)

    def tell(self) -> None:
        """Write the line of the log, if anything was printed."""
        if self.total:
            shown = cut(redacted(clean(self._kept)), SHOWN_BYTES)
            log.info("tool printed", text=shown, characters=self.total, cut=self.total > len(shown))


_printed: ContextVar[Printed | None] = ContextVar("printed", default=None)


@contextmanager
def prints_told() -> Iterator[None]:
    """Keep what is printed inside the block, also by threads and tasks that have its context, and log it at its end."""
    printed = Printed()
    token = _printed.set(printed)
    try:
        yield
    finally:
        _printed.reset(token)
        printed.tell()


def route_prints() -> None:
    """Have what tools print go to the log; idempotent."""
    if not isinstance(sys.stdout, _Routed):
        sys.stdout = cast("TextIO", _Routed(sys.stdout))
        sys.stderr = cast("TextIO", _Routed(sys.stderr))


class _Routed(io.TextIOBase):
    """A text stream that passes on to another one, or to the call that writes."""

    encoding = "utf-8"

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def buffer(self) -> io.BufferedIOBase:
        """Where bytes are written."""
        printed = _printed.get()
        return cast("io.BufferedIOBase", self._stream.buffer if printed is None else _Bytes(printed))

    def write(self, text: str, /) -> int:
        """Write to the call's own, or on."""
        return (_printed.get() or self._stream).write(text)

    def flush(self) -> None:
        """Write out what waits."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the number of the real stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Say whether the real stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Say yes."""
        return True


class _Bytes(io.RawIOBase):
    """Takes bytes for a call's log line; what is no UTF-8 becomes U+FFFD."""

    def __init__(self, printed: Printed) -> None:
        super().__init__()
        self._printed = printed

    def write(self, data: object, /) -> int:
        """Keep it, as far as there is room."""
        view = memoryview(cast("bytes", data)).cast("B")
        self._printed.write(bytes(view[:KEPT_CHARACTERS]).decode(errors="replace"))
        self._printed.total += max(len(view) - KEPT_CHARACTERS, 0)
        return len(view)

    def writable(self) -> bool:
        """Say yes."""
        return True
