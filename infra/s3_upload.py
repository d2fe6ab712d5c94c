"""The upload of a large file to S3 in parts.

boto3's `upload_file` sends what is in the file at that moment, and S3 knows no SHA-256 of an object that came in parts:
nothing would say whether those were the bytes that were hashed before. Here the bytes that are sent are hashed on the
way, in one pass, and the object comes into being only if the hash is right. The price is to hold the parts under way
in memory. (`upload_file` also leaves the file open when an upload fails.)
"""

import base64
import hashlib
import re
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from core.errors import BlobCorrupt, StoreUnavailable
from infra.s3_errors import S3_FAILURES

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef

PART_BYTES = 8 * 1024 * 1024
PARTS_LIMIT = 10_000
PARTS_IN_FLIGHT = 4


def sha256_header(sha256: str) -> str:
    """Turn a SHA-256 from hexadecimal, as in our names, into base64, as S3 wants it.

    Raises:
        BlobCorrupt: it is no SHA-256. A store may ignore an empty or odd one, and so check nothing.
    """
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise BlobCorrupt(f"{sha256!r} is no SHA-256 of any bytes; give 64 hexadecimal digits")
    return base64.b64encode(bytes.fromhex(sha256)).decode()


class Abandoned(Exception):
    """Ends an upload that nobody waits for any more."""


@dataclass(frozen=True, kw_only=True)
class UploadInParts:
    """One file on its way; at most five parts of it are in memory (40 MiB; more only for files over 78 GiB)."""

    client: "S3Client"
    bucket: str
    key: str
    path: Path
    sha256: str
    metadata: Mapping[str, str]
    _abandoned: Event = field(default_factory=Event, init=False)

    def abandon(self) -> None:
        """End the upload soon, from any thread; without effect on one that has ended."""
        self._abandoned.set()

    def run(self) -> None:
        """Send the file from the calling thread and four more; on any failure abort, so that nothing is stored.

        Raises:
            BlobCorrupt: the file does not have this SHA-256.
            StoreUnavailable: the store does not hold as many bytes as were sent.
            Abandoned: `abandon` was called meanwhile.
            S3_FAILURES: what boto3 raises, for `storage_error`.
        """
        created = self.client.create_multipart_upload(
            Bucket=self.bucket, Key=self.key, Metadata=self.metadata, ChecksumAlgorithm="SHA256"
        )
        upload_id = created["UploadId"]
        try:
            parts, sent_bytes = self._send(upload_id)
            self.client.complete_multipart_upload(
                Bucket=self.bucket, Key=self.key, UploadId=upload_id, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            with suppress(*S3_FAILURES):  # then the bucket's rule for stale uploads removes it
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=self.key, UploadId=upload_id)
            raise
        stored_bytes = self.client.head_object(Bucket=self.bucket, Key=self.key)["ContentLength"]
        if stored_bytes != sent_bytes:
            raise StoreUnavailable(
                f"{self.key!r}: {sent_bytes:,} bytes of {self.path} were sent, {stored_bytes:,} are stored; try again"
            )

    def _send(self, upload_id: str) -> "tuple[list[CompletedPartTypeDef], int]":
        """Send all parts and return them with the sum of their bytes."""
        digest = hashlib.sha256()
        sent_bytes = 0
        parts: list[CompletedPartTypeDef] = []
        under_way: deque[Future[CompletedPartTypeDef]] = deque()
        part_bytes = max(PART_BYTES, -(-self.path.stat().st_size // PARTS_LIMIT))
        with ThreadPoolExecutor(PARTS_IN_FLIGHT, thread_name_prefix="s3-part") as senders, self.path.open("rb") as file:
            while body := file.read(part_bytes):
                digest.update(body)
                sent_bytes += len(body)
                if len(under_way) == PARTS_IN_FLIGHT:
                    parts.append(under_way.popleft().result())
                if self._abandoned.is_set():
                    raise Abandoned
                under_way.append(senders.submit(self._send_part, upload_id, len(parts) + len(under_way) + 1, body))
            parts += [part.result() for part in under_way]
        if digest.hexdigest() != self.sha256.lower():
            raise BlobCorrupt(
                f"{self.path} has the SHA-256 {digest.hexdigest()}, not {self.sha256}; it changed: hash it again"
            )
        return parts, sent_bytes

    def _send_part(self, upload_id: str, number: int, body: bytes) -> "CompletedPartTypeDef":
        checksum = sha256_header(hashlib.sha256(body).hexdigest())
        sent = self.client.upload_part(
            Bucket=self.bucket,
            Key=self.key,
            UploadId=upload_id,
            PartNumber=number,
            Body=body,
            ChecksumSHA256=checksum,
        )
        return {"PartNumber": number, "ETag": sent["ETag"], "ChecksumSHA256": checksum}
