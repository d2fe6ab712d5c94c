"""The S3 adapter against a real server, and its errors.

What it shares with the fake is in `test_blob_store_contract.py`.
"""

import asyncio
import hashlib
import json
import os
import socket
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    FlexibleChecksumError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from pydantic import SecretStr

from core.errors import BlobCorrupt, BlobMissing, InputError, StorageError, StoreRefused, StoreUnavailable
from infra.s3 import S3BlobStore
from infra.s3_errors import Place, storage_error
from infra.settings import Settings

MEBIBYTE = 1024 * 1024
PLACE = Place("http://127.0.0.1:8333", "perdure", "artifacts/ab12")


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The store of the test stack."""
    s3 = S3BlobStore.from_settings(settings)
    yield s3
    await s3.close()


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"s3/{uuid.uuid4().hex}/blob"


def sha256_of(body: bytes) -> str:
    """Return the name of `body`."""
    return hashlib.sha256(body).hexdigest()


def open_files() -> int:
    """Return how many files and sockets this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


@asynccontextmanager
async def changed(store: S3BlobStore, **settings: object) -> AsyncIterator[S3BlobStore]:
    """The same store with other settings."""
    other = replace(store, **settings)  # type: ignore[arg-type]  # each test names a field and its type
    try:
        yield other
    finally:
        await other.close()


async def refusals(store: S3BlobStore, tmp_path: Path) -> list[StorageError]:
    """Call every method and return the errors, one each."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 9 * MEBIBYTE)
    sha256 = await asyncio.to_thread(sha256_of, path.read_bytes())
    calls = [
        store.check(),
        store.put("any/key", b"x", sha256=sha256_of(b"x")),
        store.put_file("any/key", path, sha256=sha256),
        store.get("any/key"),
        anext(store.stream("any/key")),
        store.head("any/key"),
        store.list("any/"),
    ]
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StorageError) for answer in answers), answers
    return cast("list[StorageError]", answers)


async def test_a_file_of_64_mib_comes_back(store: S3BlobStore, key: str, tmp_path: Path) -> None:
    """Eight parts, sent four at a time, are put together in their order."""
    path = tmp_path / "large"
    path.write_bytes(b"".join(bytes([number]) * MEBIBYTE for number in range(64)) + b"end")
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()

    await store.put_file(key, path, sha256=sha256)

    digest = hashlib.sha256()
    async for chunk in store.stream(key):
        digest.update(chunk)
    assert digest.hexdigest() == sha256


async def test_a_file_of_200_mb_needs_less_than_80_mb_of_memory(store: S3BlobStore, key: str) -> None:
    """`put_file` and `stream` hold a few parts and one chunk, whatever the size of the object."""
    fields = ("bucket", "endpoint_url", "region", "access_key_id", "checksum_mode", "addressing_style")
    assert store.secret_access_key is not None
    arguments = {name: getattr(store, name) for name in fields}
    script = Path(__file__).with_name("large_file.py")
    root = str(script.parent.parent.parent)

    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    task = {"store": arguments, "secret": store.secret_access_key.get_secret_value(), "key": key}
    output, _ = await child.communicate(json.dumps(task).encode())

    assert child.returncode == 0
    assert int(output) < 80 * MEBIBYTE


async def test_fifty_puts_at_once_all_arrive(store: S3BlobStore, key: str) -> None:
    """More calls than threads and connections wait for their turn."""
    bodies = {f"{key}/{number}": f"body {number}".encode() * 1000 for number in range(50)}

    await asyncio.gather(*(store.put(each, body, sha256=sha256_of(body)) for each, body in bodies.items()))

    found = await asyncio.gather(*(store.get(each) for each in bodies))
    assert found == list(bodies.values())


async def test_large_uploads_do_not_hold_up_small_requests(store: S3BlobStore, key: str, tmp_path: Path) -> None:
    """However many large files are on their way, the journal is read and written meanwhile."""
    path = tmp_path / "large"
    path.write_bytes(bytes(32 * MEBIBYTE))
    sha256 = sha256_of(path.read_bytes())
    uploads = [asyncio.create_task(store.put_file(f"{key}/{number}", path, sha256=sha256)) for number in range(10)]

    await store.put(f"{key}/small", b"x", sha256=sha256_of(b"x"))
    assert await store.get(f"{key}/small") == b"x"

    assert not all(upload.done() for upload in uploads)
    await asyncio.gather(*uploads)


async def test_streams_closed_early_give_their_connections_back(store: S3BlobStore, key: str) -> None:
    """Forty readers that stop after the first chunk leave no socket open, and the store goes on."""
    body = bytes(9 * MEBIBYTE)
    await store.put(key, body, sha256=sha256_of(body))
    before = open_files()

    for _ in range(40):
        async with aclosing(cast("AsyncGenerator[bytes]", store.stream(key))) as stream:
            await anext(stream)

    assert open_files() < before + 20
    assert await store.get(key) == body


async def test_a_cancelled_reader_leaves_a_store_that_works(store: S3BlobStore, key: str) -> None:
    """Cancelling in the middle of a request, many at once, breaks neither the client nor its pool."""
    body = bytes(9 * MEBIBYTE)
    await store.put(key, body, sha256=sha256_of(body))

    async def read() -> None:
        async for _ in store.stream(key):
            pass

    for delays in range(8):
        readers = [asyncio.create_task(read()) for _ in range(4)]
        for _ in range(delays):
            await asyncio.sleep(0)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    assert await store.get(key) == body


async def test_a_cancelled_upload_is_aborted(store: S3BlobStore, key: str, tmp_path: Path) -> None:
    """When nobody waits for it any more, an upload in parts ends early and leaves no parts behind."""
    path = tmp_path / "large"
    path.write_bytes(bytes(64 * MEBIBYTE))
    async with changed(store) as other:
        upload = asyncio.create_task(other.put_file(key, path, sha256=sha256_of(path.read_bytes())))
        await asyncio.sleep(0)
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload

    # Closing the other store has waited for its threads.
    assert await store.head(key) is None
    assert "Uploads" not in store._client.list_multipart_uploads(Bucket=store.bucket, Prefix=key)


async def test_an_upload_with_a_wrong_hash_leaves_no_parts(store: S3BlobStore, key: str, tmp_path: Path) -> None:
    """A file that is not what its name says is sent, refused and removed."""
    path = tmp_path / "changed"
    path.write_bytes(bytes(9 * MEBIBYTE))

    with pytest.raises(BlobCorrupt, match="hash it again"):
        await store.put_file(key, path, sha256=sha256_of(b"before the change"))

    assert await store.head(key) is None
    assert "Uploads" not in store._client.list_multipart_uploads(Bucket=store.bucket, Prefix=key)


async def test_a_file_that_is_not_there_is_an_os_error(store: S3BlobStore, key: str, tmp_path: Path) -> None:
    """A local file's trouble is not blamed on the store."""
    with pytest.raises(FileNotFoundError):
        await store.put_file(key, tmp_path / "none", sha256=sha256_of(b""))


@pytest.mark.parametrize("mode", ["when_supported", "when_required"])
async def test_both_checksum_modes_work(store: S3BlobStore, key: str, mode: str, tmp_path: Path) -> None:
    """Our own SHA-256 is sent in both modes; the other checksums of boto3 only in one."""
    path = tmp_path / "file"
    path.write_bytes(bytes(17 * MEBIBYTE))
    async with changed(store, checksum_mode=mode) as other:
        await other.put(f"{key}/small", b"x", sha256=sha256_of(b"x"))
        await other.put_file(f"{key}/large", path, sha256=sha256_of(path.read_bytes()))

        assert await other.get(f"{key}/small") == b"x"
        assert await other.get(f"{key}/large") == path.read_bytes()
        with pytest.raises(BlobCorrupt):
            await other.put(f"{key}/wrong", b"x", sha256=sha256_of(b"y"))


async def test_check_passes_on_a_good_bucket(store: S3BlobStore) -> None:
    """`check` says nothing when everything is right."""
    await store.check()


async def test_a_missing_bucket_is_told_from_a_missing_object(store: S3BlobStore, tmp_path: Path) -> None:
    """Every method, `head` too, refuses with the bucket's name and how to create it."""
    async with changed(store, bucket="no-such-bucket") as other:
        for error in await refusals(other, tmp_path):
            assert isinstance(error, StoreRefused)
            assert "'no-such-bucket'" in str(error)
            assert f"aws --endpoint-url {store.endpoint_url} s3 mb s3://no-such-bucket" in str(error)
            assert "PERDURE_S3_BUCKET" in str(error)


@pytest.mark.parametrize("wrong", [{"access_key_id": "nobody"}, {"secret_access_key": SecretStr("not-the-secret")}])
async def test_wrong_credentials_are_named_as_such(
    store: S3BlobStore, wrong: dict[str, object], tmp_path: Path
) -> None:
    """Every method refuses and names the variables to check, never the secret."""
    async with changed(store, **wrong) as other:
        for error in await refusals(other, tmp_path):
            assert isinstance(error, StoreRefused)
            assert "PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET_ACCESS_KEY" in str(error)
            assert "does not accept the credentials" in str(error)
            assert "not-the-secret" not in repr(error) + repr(other)


async def test_a_dead_endpoint_is_unavailable_at_once(store: S3BlobStore, tmp_path: Path) -> None:
    """Every method names the address and `make up`, long before a read times out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens: refused
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with changed(store, endpoint_url=address) as other, asyncio.timeout(30):
            errors = await refusals(other, tmp_path)

    for error in errors:
        assert isinstance(error, StoreUnavailable)
        assert address in str(error)
        assert "make up" in str(error)


async def test_an_endpoint_on_loopback_needs_no_proxy(store: S3BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment, as in many companies, does not come between us and the local stack."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with changed(store) as other:
        await other.check()


def http(status: str, body: str = "", length_bytes: int | None = None) -> bytes:
    """Return a whole answer; a `length_bytes` that is not the body's makes it a cut one."""
    announced = len(body) if length_bytes is None else length_bytes
    return f"HTTP/1.1 {status}\r\nContent-Length: {announced}\r\nConnection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", StoreUnavailable),
        (b"SSH-2.0-OpenSSH_9.6\r\n", StoreUnavailable),
        (http("200 OK", "short", 100), StoreUnavailable),
        (http("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"), StoreUnavailable),
        (http("500 Internal Server Error"), StoreUnavailable),
        (http("502 Bad Gateway", "<html><body>nginx</body></html>"), StoreUnavailable),
        (http("404 Not Found", "<html><body>nginx</body></html>"), StoreRefused),
        (http("501 Not Implemented"), StoreRefused),
        (http("400 Bad Request", "<Error><Code>RequestTimeout</Code></Error>"), StoreUnavailable),
    ],
)
async def test_a_server_that_answers_badly_is_no_crash(
    store: S3BlobStore, answer: bytes, expected: type[StorageError]
) -> None:
    """Cut, foreign and failing answers are errors of the tree, each with its verdict on retrying."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with changed(store, endpoint_url=f"http://127.0.0.1:{port}") as other:
            with pytest.raises(expected, match=str(port)):
                await other.get("any/key")
            with pytest.raises(expected, match=str(port)):
                async for _ in other.stream("any/key"):
                    pass


@pytest.mark.parametrize(
    "wrong", [{"endpoint_url": "127.0.0.1:8333"}, {"endpoint_url": "http://[::1"}, {"secret_access_key": None}]
)
def test_settings_that_make_no_client_are_the_callers_mistake(wrong: dict[str, object]) -> None:
    """A malformed address and half a pair of credentials fail before the first request, naming the variables."""
    right: dict[str, object] = {
        "bucket": "perdure",
        "endpoint_url": "http://127.0.0.1:8333",
        "access_key_id": "key",
        "secret_access_key": SecretStr("secret"),
    }

    with pytest.raises(InputError, match="PERDURE_S3_ENDPOINT_URL"):
        S3BlobStore(**(right | wrong))  # type: ignore[arg-type]  # wrong on purpose


def refusal(code: str, status: int, operation: str = "GetObject") -> ClientError:
    """Return what boto3 raises for an answer with this code and status."""
    answer = {"Error": {"Code": code, "Message": "so"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)  # type: ignore[arg-type]  # the part of an answer that is read


@pytest.mark.parametrize(
    ("error", "expected", "cure"),
    [
        (refusal("NoSuchKey", 404), BlobMissing, "no such object"),
        (refusal("404", 404, "HeadObject"), BlobMissing, "no such object"),
        (refusal("404", 404, "ListObjectsV2"), StoreRefused, "PERDURE_S3_ENDPOINT_URL"),
        (refusal("NoSuchBucket", 404), StoreRefused, "s3 mb s3://perdure"),
        (refusal("InvalidAccessKeyId", 403), StoreRefused, "PERDURE_S3_ACCESS_KEY_ID"),
        (refusal("SignatureDoesNotMatch", 403), StoreRefused, "PERDURE_S3_SECRET_ACCESS_KEY"),
        (refusal("ExpiredToken", 400), StoreRefused, "credentials"),
        (NoCredentialsError(), StoreRefused, "PERDURE_S3_ACCESS_KEY_ID"),
        (refusal("AccessDenied", 403), StoreRefused, "s3:PutObject"),
        (refusal("403", 403, "HeadObject"), StoreRefused, "no permission"),
        (refusal("PermanentRedirect", 301), StoreRefused, "PERDURE_S3_REGION"),
        (refusal("AuthorizationHeaderMalformed", 400), StoreRefused, "PERDURE_S3_REGION"),
        (refusal("RequestTimeTooSkewed", 403), StoreRefused, "clock"),
        (refusal("NotImplemented", 501), StoreRefused, "PERDURE_S3_CHECKSUM_MODE=when_required"),
        (refusal("KeyTooLongError", 400), StoreRefused, "the key"),
        (ParamValidationError(report="Invalid bucket name"), StoreRefused, "PERDURE_S3_BUCKET"),
        (refusal("BadDigest", 400), BlobCorrupt, "hash them again"),
        (FlexibleChecksumError(error_msg="differs"), BlobCorrupt, "restore"),
        (refusal("NoSuchUpload", 404), StoreUnavailable, "upload again"),
        (refusal("SlowDown", 503), StoreUnavailable, "try again"),
        (refusal("InternalError", 500), StoreUnavailable, "try again"),
        (refusal("RequestTimeout", 400), StoreUnavailable, "try again"),
        (refusal("TooManyRequests", 429), StoreUnavailable, "try again"),
        (refusal("OperationAborted", 409), StoreUnavailable, "try again"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:8333"), StoreUnavailable, "make up"),
        (ConnectTimeoutError(endpoint_url="http://127.0.0.1:8333"), StoreUnavailable, "make up"),
        (ReadTimeoutError(endpoint_url="http://127.0.0.1:8333"), StoreUnavailable, "try again"),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), StoreUnavailable, "try again"),
        (BotoCoreError(), StoreUnavailable, "try again"),
    ],
)
def test_each_failure_has_its_verdict_and_its_cure(error: Exception, expected: type[StorageError], cure: str) -> None:
    """The truth table of `storage_error`: what is worth a retry, and what a person must do."""
    meaning = storage_error(error, PLACE)

    assert type(meaning) is expected
    assert str(meaning).startswith("object 'artifacts/ab12' in bucket 'perdure' at http://127.0.0.1:8333: ")
    assert cure in str(meaning)
    assert "\n" not in str(meaning)
