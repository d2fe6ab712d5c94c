"""What the tests of the activities share."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.activities.calling import Calling


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for sync tools."""
    with ThreadPoolExecutor(4) as executor:
        yield executor


@pytest.fixture
def calling(tmp_path: Path, threads: ThreadPoolExecutor) -> Calling:
    """The tools that ship, and a run that calls them."""
    return Calling(tmp_path / "data", threads)
