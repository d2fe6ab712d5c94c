"""What tools print is one bounded line of the log; what is printed outside of a call goes where it always went."""

import asyncio
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from structlog.testing import capture_logs

from activities.printing import KEPT_CHARACTERS, SHOWN_BYTES, prints_told, route_prints
from activities.tool_context import ToolContext
from activities.toolbox import Toolbox, tool
from tests.activities.calling import Calling
from tests.activities.made import SHORT


@contextmanager
def routed() -> Iterator[io.TextIOWrapper]:
    """Route what is printed, as a worker does whose standard output is this stream."""
    before = sys.stdout, sys.stderr
    stream = sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    route_prints()
    route_prints()
    try:
        yield stream
    finally:
        sys.stdout, sys.stderr = before
        stream.close()


def seen(stream: io.TextIOWrapper) -> bytes:
    """Return what reached the standard output."""
    return cast("io.BytesIO", stream.buffer).getvalue()


def test_what_is_printed_outside_of_a_call_passes() -> None:
    """Text and bytes."""
    with routed() as outside:
        sys.stdout.write("text ")
        sys.stdout.buffer.write(b"\xff")
        sys.stdout.flush()
        assert seen(outside) == b"text \xff"
        assert sys.stdout.encoding == "utf-8"
        assert not sys.stdout.isatty()
        assert sys.stdout.writable()


def test_what_is_printed_in_a_call_is_one_line_of_the_log() -> None:
    """Whatever is printed, and however."""
    with routed() as outside, capture_logs() as lines, prints_told():
        sys.stdout.write("text \ud800\0 ")
        sys.stdout.buffer.write(b"\xff bytes ")
        sys.stdout.writelines(["and ", "lines"])
        sys.stderr.write("!")
        sys.stdout.flush()
        assert seen(outside) == b""
    assert [line["text"] for line in lines] == ["text ���␀ � bytes and lines!"]
    assert lines[0]["cut"] is False


def test_a_flood_is_counted_and_not_kept() -> None:
    """Of text and of bytes."""
    megabyte = "x" * 1_000_000
    with routed() as outside, capture_logs() as lines, prints_told():
        for _ in range(1000):
            sys.stdout.write(megabyte)
        sys.stdout.buffer.write(bytes(10_000_000))
        assert seen(outside) == b""
    (line,) = lines
    assert line["characters"] == 1_010_000_000
    assert line["cut"]
    assert len(line["text"].encode()) <= SHOWN_BYTES < KEPT_CHARACTERS


def test_a_call_that_prints_nothing_has_no_line() -> None:
    """Most don't."""
    with routed(), capture_logs() as lines, prints_told():
        pass
    assert lines == []


async def test_calls_at_the_same_time_have_a_line_each(calling: Calling) -> None:
    """In threads and on the loop; a secret in it has its name only."""
    calling.secrets.values["token"] = "open-sesame-1234"

    @tool(effect="read", timeout=SHORT, secrets=("token",))
    def prints(*, context: ToolContext) -> None:
        """Print."""
        sys.stdout.write(f"from a thread {context.secret('token')}")

    @tool(effect="read", timeout=SHORT)
    async def prints_async() -> None:
        """Print."""
        await asyncio.sleep(0)
        sys.stdout.write("from the loop")

    calling.toolbox = Toolbox([prints, prints_async])
    with routed() as outside, capture_logs() as lines:
        await asyncio.gather(calling.call("prints"), calling.call("prints_async"))
        assert b"from" not in seen(outside)
    printed = sorted(line["text"] for line in lines if line["event"] == "tool printed")
    assert printed == ["from a thread [secret token]", "from the loop"]
