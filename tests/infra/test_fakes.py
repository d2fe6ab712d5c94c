"""`BrokenBlobStore` does what its table says: a test that breaks the store must know how."""

import hashlib
from pathlib import Path

import pytest

from core.errors import BlobMissing, StorageError, StoreRefused, StoreUnavailable
from core.ports import BlobStore
from tests.fakes import BrokenBlobStore, Fault, MemoryBlobStore, Operation

BODY = b"0123456789"
ALTERED = b"1123456789"
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
async def memory() -> MemoryBlobStore:
    """A store with one object."""
    store = MemoryBlobStore()
    await store.put("kept", BODY, sha256=SHA256, metadata={"name": "x"})
    return store


async def streamed(store: BlobStore, key: str) -> bytes:
    """Return the whole stream."""
    return b"".join([chunk async for chunk in store.stream(key)])


async def call(store: BlobStore, operation: Operation, path: Path) -> None:
    """Call one operation with good arguments."""
    match operation:
        case "put":
            await store.put("new", BODY, sha256=SHA256)
        case "put_file":
            await store.put_file("new", path, sha256=SHA256)
        case "get":
            await store.get("kept")
        case "stream":
            await streamed(store, "kept")
        case "head":
            await store.head("kept")
        case "list":
            await store.list("")


@pytest.mark.parametrize("operation", ["put", "put_file", "get", "stream", "head", "list"])
@pytest.mark.parametrize(("fault", "error"), [("unavailable", StoreUnavailable), ("refused", StoreRefused)])
async def test_every_operation_can_fail(
    memory: MemoryBlobStore, operation: Operation, fault: Fault, error: type[StorageError], tmp_path: Path
) -> None:
    """Errors strike as often as asked, then the operation works again."""
    path = tmp_path / "file"
    path.write_bytes(BODY)
    store = BrokenBlobStore(memory)
    store.fail(operation, fault, times=2)

    for _ in range(2):
        with pytest.raises(error, match=operation):
            await call(store, operation, path)
    await call(store, operation, path)

    assert store.struck == {operation: 2}


@pytest.mark.parametrize(("fault", "expected"), [("truncated", BODY[:5]), ("altered", ALTERED)])
async def test_damage_is_silent(memory: MemoryBlobStore, fault: Fault, expected: bytes, tmp_path: Path) -> None:
    """A damaged object is read or written without an error: only its hash tells."""
    path = tmp_path / "file"
    path.write_bytes(BODY)
    store = BrokenBlobStore(memory)
    for operation in ("get", "stream", "put", "put_file"):
        store.fail(operation, fault)

    assert await store.get("kept") == await streamed(store, "kept") == expected
    await store.put("put", BODY, sha256=SHA256)
    await store.put_file("file", path, sha256=SHA256)
    store.heal()
    assert await store.get("put") == await store.get("file") == expected
    assert await store.get("kept") == BODY


async def test_what_is_missing_was_acknowledged(memory: MemoryBlobStore) -> None:
    """A lost write raises nothing; reading what is lost raises BlobMissing."""
    store = BrokenBlobStore(memory)
    for operation in ("put", "get", "stream", "head", "list"):
        store.fail(operation, "missing")

    await store.put("lost", BODY, sha256=SHA256)
    with pytest.raises(BlobMissing):
        await store.get("kept")
    with pytest.raises(BlobMissing):
        await streamed(store, "kept")
    assert await store.head("kept") is None
    assert await store.list("") == []
    assert list(memory.blobs) == ["kept"]


async def test_a_fault_can_be_kept_to_a_prefix(memory: MemoryBlobStore) -> None:
    """Artifacts may be broken while the journal works."""
    store = BrokenBlobStore(memory)
    store.fail("get", "unavailable", prefix="artifacts/")

    assert await store.get("kept") == BODY
    with pytest.raises(StoreUnavailable):
        await store.get("artifacts/1")
    assert store.struck == {"get": 1}


async def test_the_fake_counts_what_it_is_asked(memory: MemoryBlobStore) -> None:
    """`puts` and `gets` are calls, refused and missed ones too; a stream is a get."""
    await memory.get("kept")
    await streamed(memory, "kept")
    with pytest.raises(BlobMissing):
        await memory.get("none")
    await memory.head("kept")

    assert (memory.puts, memory.gets, memory.heads) == (1, 3, 1)
