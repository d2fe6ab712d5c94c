"""Blob storage on any S3: Amazon's, SeaweedFS, MinIO, R2.

One boto3 client, shared by all calls, on threads of its own: eight saturate a process (more only add latency), and
the event loop never waits for a socket. boto3 repeats nothing by itself: Temporal does, with its own backoff. The
price is a thread switch and about 1 ms of CPU per call; `obstore` behind the same port would take a quarter.

Bodies are checked on their way in: small ones travel with their SHA-256, which the store compares, large ones are
hashed while they are sent (`s3_upload`). Readers verify the hash all the same: what was stored well can still go bad.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from pydantic import SecretStr

from core.errors import BlobMissing, InputError, StoreRefused
from core.ports import BlobInfo
from infra.s3_errors import S3_FAILURES, Place, has_no_reason, storage_error
from infra.s3_upload import PART_BYTES, UploadInParts, sha256_header
from infra.settings import Settings

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client

THREADS = 8
UPLOADS_AT_ONCE = 2  # in parts: long ones never hold up small requests, and memory stays under 100 MiB
CHUNK_BYTES = 1024 * 1024
PAGE_KEYS = 1000
METADATA_LIMIT_BYTES = 2048  # Amazon's limit, for names and encoded values; SeaweedFS would take more
CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 60

_METADATA_NAME = re.compile(r"[a-z0-9-]+")  # what every store keeps as it is: headers lose case
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_T = TypeVar("_T")


@dataclass(kw_only=True, eq=False)
class S3BlobStore:
    """A `BlobStore` in one bucket: made once per process, without an event loop, and closed with `close()`.

    Key and secret both None leave the credentials to boto3's chain (environment, profile, role); an endpoint of None is
    Amazon's. An endpoint on loopback is reached directly, whatever proxy the environment names.

    Every method raises what `storage_error` says. Cancelling one frees its caller at once; the request ends by itself
    in its thread, which is harmless since all writes are idempotent, and an upload in parts is aborted.

    Raises:
        InputError: these settings make no client (malformed address, half a pair of credentials).
    """

    bucket: str
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: SecretStr | None = None
    checksum_mode: Literal["when_supported", "when_required"] = "when_supported"
    addressing_style: Literal["auto", "path", "virtual"] = "auto"
    _client: "S3Client" = field(init=False, repr=False)
    _executor: ThreadPoolExecutor = field(init=False, repr=False)
    _uploads: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._client = _new_client(self)
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")
        self._uploads = ThreadPoolExecutor(UPLOADS_AT_ONCE, thread_name_prefix="s3-upload")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the store that the settings name; raises as the class does."""
        key_id = settings.s3_access_key_id
        return cls(
            bucket=settings.s3_bucket,
            endpoint_url=settings.s3_endpoint_url,
            region=settings.s3_region,
            access_key_id=key_id.get_secret_value() if key_id else None,
            secret_access_key=settings.s3_secret_access_key,
            checksum_mode=settings.s3_checksum_mode,
            addressing_style=settings.s3_addressing_style,
        )

    async def check(self) -> None:
        """Prove address, credentials, bucket and the permission to list, with one request for one key.

        Raises:
            StoreUnavailable: nothing answers, or not like S3; a retry may help.
            StoreRefused: wrong credentials, no such bucket, no permission; a retry won't help.
        """
        await self._run(None, partial(self._client.list_objects_v2, Bucket=self.bucket, MaxKeys=1))

    async def put(self, key: str, body: bytes, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store `body` in one request; idempotent.

        Raises:
            BlobCorrupt: `body` does not have this SHA-256 (hex); nothing was stored.
            StoreRefused: metadata with names other than `[a-z0-9-]+`, or of over 2 KiB once percent-encoded.
        """
        await self._run(key, partial(self._put, key, body, sha256, _encoded(key, metadata)))

    async def put_file(self, key: str, path: Path, *, sha256: str, metadata: Mapping[str, str] | None = None) -> None:
        """Store a file, from 8 MiB in parts and in constant memory; idempotent. An upload that fails stores nothing.

        Raises:
            BlobCorrupt: the file does not have this SHA-256 (hex); nothing was stored.
            StoreRefused: also for metadata, as in `put`.
            OSError: the file can't be read, which is not the store's doing.
        """
        encoded = _encoded(key, metadata)
        if (await self._run(key, path.stat)).st_size < PART_BYTES:
            await self._run(key, lambda: self._put(key, path.read_bytes(), sha256, encoded))
            return
        upload = UploadInParts(
            client=self._client, bucket=self.bucket, key=key, path=path, sha256=sha256, metadata=encoded
        )
        try:
            await asyncio.wrap_future(self._uploads.submit(self._explained, key, upload.run))
        finally:
            upload.abandon()

    async def get(self, key: str) -> bytes:
        """Return the whole object; BlobMissing when there is none."""
        return await self._run(key, partial(self._get, key))

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the object in chunks of 1 MiB; its connection is released also when the consumer stops early."""
        body: StreamingBody | None = None

        def read() -> bytes:
            nonlocal body
            if body is None:
                body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            return body.read(CHUNK_BYTES)

        def release(_: Future[bytes]) -> None:
            if body is not None:
                body.close()

        reading = self._submit(key, read)
        try:
            while chunk := await asyncio.wrap_future(reading):
                yield chunk
                reading = self._submit(key, read)
        finally:
            # Only when the read under way has ended: closing what another thread reads would block the event loop.
            reading.add_done_callback(release)

    async def head(self, key: str) -> BlobInfo | None:
        """Return size and metadata of an object, None when there is none; a missing bucket is an error."""
        try:
            found = await self._run(key, partial(self._client.head_object, Bucket=self.bucket, Key=key))
        except BlobMissing:
            return None
        metadata = {name: unquote(value) for name, value in found["Metadata"].items()}
        return BlobInfo(key=key, size_bytes=found["ContentLength"], metadata=metadata)

    async def list(self, prefix: str, limit: int = PAGE_KEYS) -> list[BlobInfo]:
        """Return up to `limit` objects under `prefix`, sorted by key.

        Which ones, if there are more, is the store's choice: Amazon takes the first by UTF-8, SeaweedFS walks folders
        (`a/x` before `a-b`).
        """
        return await self._run(None, partial(_listed, self._client, self.bucket, prefix, limit))

    async def close(self) -> None:
        """Wait for the requests under way, drop those not yet begun, close all connections; idempotent."""
        for executor in (self._uploads, self._executor):
            await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)
        self._client.close()

    async def _run(self, key: str | None, request: Callable[[], _T]) -> _T:
        return await asyncio.wrap_future(self._submit(key, request))

    def _submit(self, key: str | None, request: Callable[[], _T]) -> Future[_T]:
        return self._executor.submit(self._explained, key, request)

    # From here on: blocking, in a thread of an executor.

    def _explained(self, key: str | None, request: Callable[[], _T]) -> _T:
        """Call, and raise what a failure means."""
        try:
            return request()
        except S3_FAILURES as error:
            at = Place(self._client.meta.endpoint_url, self.bucket, key)
            raise storage_error(self._with_reason(error, key), at) from error

    def _with_reason(self, error: Exception, key: str | None) -> Exception:
        """Ask a bodiless refusal for its reason, by a listing, which is refused for the same one and says so.

        That tells a missing bucket from a missing object, and wrong credentials from a missing permission.
        """
        if not has_no_reason(error):
            return error
        try:
            self._client.list_objects_v2(Bucket=self.bucket, Prefix=key or "", MaxKeys=1)
        except S3_FAILURES as reason:
            return reason
        return error

    def _put(self, key: str, body: bytes, sha256: str, metadata: Mapping[str, str]) -> None:
        checksum = sha256_header(sha256)
        self._client.put_object(Bucket=self.bucket, Key=key, Body=body, ChecksumSHA256=checksum, Metadata=metadata)

    def _get(self, key: str) -> bytes:
        with closing(self._client.get_object(Bucket=self.bucket, Key=key)["Body"]) as body:
            return body.read()


def _listed(client: "S3Client", bucket: str, prefix: str, limit: int) -> list[BlobInfo]:
    if limit <= 0:
        return []
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix, PaginationConfig={"MaxItems": limit, "PageSize": min(limit, PAGE_KEYS)}
    )
    found = [BlobInfo(key=o["Key"], size_bytes=o["Size"]) for page in pages for o in page.get("Contents", [])]
    return sorted(found, key=lambda info: info.key)


def _encoded(key: str, metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Percent-encode the values, since S3 takes ASCII only; an unpaired surrogate becomes `?`.

    Empty values are left out, as some stores do by themselves.
    """
    texts = {name: value for name, value in (metadata or {}).items() if value}
    encoded = {name: quote(value, safe="/;=,:+", errors="replace") for name, value in texts.items()}
    unfit = [name for name in encoded if not _METADATA_NAME.fullmatch(name)]
    if unfit:
        raise StoreRefused(f"{key!r}: metadata names {unfit}; use lower-case letters, digits and hyphens")
    size_bytes = sum(len(name) + len(value) for name, value in encoded.items())
    if size_bytes > METADATA_LIMIT_BYTES:
        raise StoreRefused(f"{key!r}: metadata of {size_bytes:,} bytes; S3 takes {METADATA_LIMIT_BYTES:,}, shorten it")
    return encoded


def _new_client(store: S3BlobStore) -> "S3Client":
    secret = store.secret_access_key.get_secret_value() if store.secret_access_key else None
    try:
        local = store.endpoint_url is not None and urlsplit(store.endpoint_url).hostname in _LOOPBACK
        config = Config(
            signature_version="s3v4",
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            max_pool_connections=2 * THREADS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            request_checksum_calculation=store.checksum_mode,
            response_checksum_validation=store.checksum_mode,
            proxies={} if local else None,
            s3={"addressing_style": store.addressing_style, "payload_signing_enabled": False},
        )
        return Session().client(
            "s3",
            endpoint_url=store.endpoint_url,
            region_name=store.region,
            aws_access_key_id=store.access_key_id,
            aws_secret_access_key=secret,
            config=config,
        )
    except (ValueError, BotoCoreError) as error:
        raise InputError(
            f"no S3 client for {store.endpoint_url!r}: {error}; check PERDURE_S3_ENDPOINT_URL (like "
            "https://s3.example.com), PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET_ACCESS_KEY (both or none)"
        ) from error
