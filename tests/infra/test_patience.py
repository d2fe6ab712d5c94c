"""A store that is down for a moment is waited for; one that refuses is not."""

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from core.errors import StoreRefused, StoreUnavailable
from infra.patience import PatientBlobStore
from tests.fakes import BrokenBlobStore, MemoryBlobStore

HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of b"x"


async def test_an_outage_shorter_than_the_patience_costs_nothing() -> None:
    """Writing, reading, streaming and listing go on by themselves."""
    broken = BrokenBlobStore(MemoryBlobStore())
    patient = PatientBlobStore(broken)
    broken.fail("put", "unavailable", times=1)
    await patient.put("k", b"x", sha256=HASH)
    broken.fail("get", "unavailable", times=1)
    assert await patient.get("k") == b"x"
    broken.fail("stream", "unavailable", times=1)
    assert b"".join([chunk async for chunk in patient.stream("k")]) == b"x"
    broken.fail("list", "unavailable", times=1)
    assert [info.key for info in await patient.list("k")] == ["k"]
    assert broken.struck.total() == 4


class TornBlobStore(MemoryBlobStore):
    """A store whose first streams break after their first bytes, each after one more than the last."""

    def __init__(self, tears: int) -> None:
        super().__init__()
        self.tears = tears
        self.streams = 0

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object in chunks of three bytes."""
        self.streams += 1
        body = self._blob(key).body
        for number, start in enumerate(range(0, len(body), 3)):
            if self.streams <= self.tears and number == self.streams:
                raise StoreUnavailable("the connection broke")
            yield body[start : start + 3]


async def test_a_stream_that_breaks_goes_on_where_it_was() -> None:
    """No byte is missing and none comes twice, however often it breaks."""
    torn = TornBlobStore(tears=3)
    body = bytes(range(20))
    await torn.put("k", body, sha256=hashlib.sha256(body).hexdigest())
    assert b"".join([chunk async for chunk in PatientBlobStore(torn).stream("k")]) == body
    assert torn.streams == 4


async def test_a_longer_outage_is_an_error_in_the_end() -> None:
    """Nothing waits for ever."""
    broken = BrokenBlobStore(MemoryBlobStore())
    broken.fail("head", "unavailable")
    with pytest.raises(StoreUnavailable):
        await PatientBlobStore(broken, timedelta(milliseconds=300)).head("k")
    assert broken.struck["head"] >= 1


async def test_a_refusal_is_not_repeated() -> None:
    """Wrong credentials do not get better by waiting."""
    broken = BrokenBlobStore(MemoryBlobStore())
    broken.fail("get", "refused")
    with pytest.raises(StoreRefused):
        await PatientBlobStore(broken).get("k")
    assert broken.struck["get"] == 1
