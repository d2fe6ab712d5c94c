"""The contract of the port `BlobStore`, kept by the real store and by the fake alike.

What runs on `MemoryBlobStore` in a unit test may rely on S3 to do the same.
"""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from core.errors import BlobCorrupt, BlobMissing, StoreRefused
from core.ports import BlobStore
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.fakes import MemoryBlobStore

MEBIBYTE = 1024 * 1024
BODIES = {
    "empty": b"",
    "small": "Grüße, 世界\x00\xff".encode(),
    "in parts": bytes(range(256)) * 4096 * 9,
}
each_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())


@pytest.fixture(params=["memory", "s3"])
async def store(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[BlobStore]:
    """Both implementations, one after the other."""
    if request.param == "memory":
        yield MemoryBlobStore()
        return
    s3 = S3BlobStore.from_settings(settings)
    yield s3
    await s3.close()


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"contract/{uuid.uuid4().hex}/blob"


def sha256_of(body: bytes) -> str:
    """Return the name of `body`."""
    return hashlib.sha256(body).hexdigest()


@each_body
async def test_what_was_put_comes_back(store: BlobStore, key: str, body: bytes) -> None:
    """`get` and `stream` return the bytes that `put` was given, `head` their number."""
    await store.put(key, body, sha256=sha256_of(body))

    assert await store.get(key) == body
    assert b"".join([chunk async for chunk in store.stream(key)]) == body
    info = await store.head(key)
    assert info is not None
    assert (info.key, info.size_bytes, info.metadata) == (key, len(body), {})


@each_body
async def test_a_file_that_was_put_comes_back(store: BlobStore, key: str, body: bytes, tmp_path: Path) -> None:
    """`put_file` stores the file's bytes and the metadata, whatever the size and the file's name."""
    path = tmp_path / "Übersicht 1.csv"
    path.write_bytes(body)

    await store.put_file(key, path, sha256=sha256_of(body), metadata={"name": path.name})

    info = await store.head(key)
    assert info is not None
    assert (info.size_bytes, info.metadata) == (len(body), {"name": path.name})
    assert await store.get(key) == body


async def test_chunks_of_a_stream_have_at_most_one_mebibyte(store: BlobStore, key: str) -> None:
    """A reader of a stream never holds more than 1 MiB of it, and never gets an empty chunk."""
    body = BODIES["in parts"] + b"rest"
    await store.put(key, body, sha256=sha256_of(body))

    sizes_bytes = [len(chunk) async for chunk in store.stream(key)]

    assert max(sizes_bytes) <= MEBIBYTE
    assert min(sizes_bytes) > 0
    assert sum(sizes_bytes) == len(body)


async def test_writing_the_same_again_changes_nothing(store: BlobStore, key: str) -> None:
    """A repeated `put` is harmless."""
    for _ in range(2):
        await store.put(key, b"same", sha256=sha256_of(b"same"))

    assert await store.get(key) == b"same"
    assert len(await store.list(key)) == 1


@pytest.mark.parametrize(
    "value",
    [
        " spaced  out ",
        "text/csv; charset=utf-8",
        "Bücher 世界 🎉.csv",
        "100%",
        "%20",
        "line\nbreak\r\n\x00",
        "a+b&c=d",
    ],
)
async def test_metadata_keeps_any_text(store: BlobStore, key: str, value: str) -> None:
    """Metadata values come back as they were, also those that no HTTP header could carry."""
    await store.put(key, b"x", sha256=sha256_of(b"x"), metadata={"media-type": "text/plain", "name": value})

    info = await store.head(key)

    assert info is not None
    assert info.metadata == {"media-type": "text/plain", "name": value}


async def test_empty_metadata_is_left_out(store: BlobStore, key: str) -> None:
    """Some stores drop empty values, so all do."""
    await store.put(key, b"x", sha256=sha256_of(b"x"), metadata={"media-type": "text/plain", "name": ""})

    info = await store.head(key)

    assert info is not None
    assert info.metadata == {"media-type": "text/plain"}


async def test_an_unpaired_surrogate_in_metadata_becomes_a_question_mark(store: BlobStore, key: str) -> None:
    """A file name that is no valid Unicode does not stop the upload."""
    await store.put(key, b"x", sha256=sha256_of(b"x"), metadata={"name": "caf\udce9.csv"})

    info = await store.head(key)

    assert info is not None
    assert info.metadata == {"name": "caf?.csv"}


@pytest.mark.parametrize(
    "metadata",
    [{"Name": "x"}, {"file name": "x"}, {"größe": "x"}, {"": "x"}, {"name": "x" * 2045}, {"name": "ü" * 400}],
)
async def test_metadata_that_some_store_would_refuse_is_refused_by_all(
    store: BlobStore, key: str, metadata: dict[str, str]
) -> None:
    """Names that HTTP would change, and more than S3's 2 KiB, fail in development as in production."""
    with pytest.raises(StoreRefused, match="metadata"):
        await store.put(key, b"x", sha256=sha256_of(b"x"), metadata=metadata)

    assert await store.head(key) is None


@pytest.mark.parametrize("sha256", [sha256_of(b"something else"), "no hash", ""])
@each_body
async def test_bytes_without_their_hash_are_not_stored(
    store: BlobStore, key: str, body: bytes, sha256: str, tmp_path: Path
) -> None:
    """A wrong SHA-256 is an error of both ways to write, and leaves nothing behind."""
    path = tmp_path / "file"
    path.write_bytes(body)

    with pytest.raises(BlobCorrupt, match="SHA-256"):
        await store.put(key, body, sha256=sha256)
    with pytest.raises(BlobCorrupt, match="SHA-256"):
        await store.put_file(key, path, sha256=sha256)

    assert await store.head(key) is None
    assert await store.list(key) == []


async def test_a_missing_object_is_named(store: BlobStore, key: str) -> None:
    """Reading what isn't there raises BlobMissing with the key; `head` answers None."""
    with pytest.raises(BlobMissing, match=key):
        await store.get(key)
    with pytest.raises(BlobMissing, match=key):
        await anext(store.stream(key))

    assert await store.head(key) is None


async def test_a_list_is_sorted_and_bounded(store: BlobStore, key: str) -> None:
    """`list` returns keys under the prefix only, in order, at most `limit`, with sizes."""
    names = ["a", "b/1", "b/2", "c d", "ä", "b-", "z%"]
    for size_bytes, name in enumerate(names):
        await store.put(f"{key}/{name}", b"x" * size_bytes, sha256=sha256_of(b"x" * size_bytes))

    found = await store.list(f"{key}/")

    assert [info.key for info in found] == sorted(f"{key}/{name}" for name in names)
    assert {info.key: info.size_bytes for info in found}[f"{key}/b/2"] == 2
    assert [info.key for info in await store.list(f"{key}/b/")] == [f"{key}/b/1", f"{key}/b/2"]
    assert len(await store.list(f"{key}/", limit=3)) == 3
    assert await store.list(f"{key}/", limit=0) == []
    assert await store.list(f"{key}/none") == []


async def test_a_list_goes_beyond_a_thousand(store: BlobStore, key: str) -> None:
    """The pages of S3 (1,000 keys) are invisible: a higher limit returns more."""
    keys = [f"{key}/{number:04}" for number in range(1010)]
    await asyncio.gather(*(store.put(each, b"x", sha256=sha256_of(b"x")) for each in keys))

    assert [info.key for info in await store.list(f"{key}/", limit=5000)] == keys
    assert [info.key for info in await store.list(f"{key}/", limit=1005)] == keys[:1005]
    assert len(await store.list(f"{key}/")) == 1000


async def test_a_stream_may_be_closed_early(store: BlobStore, key: str) -> None:
    """A reader that has seen enough closes the stream, and the store goes on."""
    body = BODIES["in parts"]
    await store.put(key, body, sha256=sha256_of(body))

    async with aclosing(cast("AsyncGenerator[bytes]", store.stream(key))) as stream:
        assert body.startswith(await anext(stream))

    assert await store.get(key) == body
