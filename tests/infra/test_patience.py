"""A store that is down for a moment is waited for; one that refuses is not."""

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
