"""What an S3 error means: one pure function from what boto3 raised to the error tree of `core.errors`."""

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from core.errors import BlobCorrupt, BlobMissing, StorageError, StoreRefused, StoreUnavailable

S3_FAILURES = (BotoCoreError, ClientError, ResponseParserError, HTTPError)
"""All that a boto3 call raises for the store's sake; anything else is a bug or a local file."""

SAID_LIMIT_CHARACTERS = 300


@dataclass(frozen=True)
class Place:
    """What a request was about, for its error message: `key` is None when it was about the bucket."""

    endpoint: str
    bucket: str
    key: str | None = None

    def __str__(self) -> str:
        what = f"bucket {self.bucket!r}" if self.key is None else f"object {self.key!r} in bucket {self.bucket!r}"
        return f"{what} at {self.endpoint}"


_Verdict = tuple[type[StorageError], str]
"""The error, and its reason with the cure: a template over `at`, a `Place`."""

_MISSING: _Verdict = (BlobMissing, "there is no such object; was it purged, or is this another bucket?")
_NO_BUCKET: _Verdict = (
    StoreRefused,
    (
        "the bucket does not exist; create it (`aws --endpoint-url {at.endpoint} s3 mb s3://{at.bucket}`, `make up` "
        "does it locally) or name another one in PERDURE_S3_BUCKET"
    ),
)
_CREDENTIALS: _Verdict = (
    StoreRefused,
    "the store does not accept the credentials; check PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET_ACCESS_KEY",
)
_PERMISSION: _Verdict = (
    StoreRefused,
    (
        "no permission; check PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET_ACCESS_KEY, and that their policy allows "
        "s3:ListBucket, s3:GetObject, s3:PutObject and s3:AbortMultipartUpload"
    ),
)
_REGION: _Verdict = (
    StoreRefused,
    "the bucket is in another region; set PERDURE_S3_REGION, and PERDURE_S3_ENDPOINT_URL when it names a region",
)
_CLOCK: _Verdict = (StoreRefused, "this machine's clock and the store's differ too much; set the clock (NTP)")
_CHECKSUMS: _Verdict = (
    StoreRefused,
    "the store does not know a header that was sent; set PERDURE_S3_CHECKSUM_MODE=when_required",
)
_NO_S3: _Verdict = (StoreRefused, "what answers there is no S3; check PERDURE_S3_ENDPOINT_URL")
_REFUSED: _Verdict = (StoreRefused, "the store refuses the request; check PERDURE_S3_BUCKET and the key")
_UPLOAD_LOST: _Verdict = (StoreUnavailable, "the upload in parts was aborted by someone else; upload again")
_DOWN: _Verdict = (
    StoreUnavailable,
    (
        "the store failed or can't be reached; check that it is up (`make up` starts a local one) and "
        "PERDURE_S3_ENDPOINT_URL, then try again"
    ),
)
_WRONG_BYTES: _Verdict = (
    BlobCorrupt,
    "the bytes sent do not have the SHA-256 that names them, nothing was stored; hash them again",
)
_WRONG_CHECKSUM: _Verdict = (
    BlobCorrupt,
    "the bytes read do not have the checksum that they were stored with; restore the object from a backup",
)

_BY_CODE: dict[str, _Verdict] = {
    "NoSuchKey": _MISSING,
    "NoSuchBucket": _NO_BUCKET,
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch"), _CREDENTIALS),
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "TokenRefreshRequired"), _CREDENTIALS),
    "RequestTimeTooSkewed": _CLOCK,
    "AuthorizationHeaderMalformed": _REGION,
    "NotImplemented": _CHECKSUMS,
    **dict.fromkeys(("BadDigest", "InvalidDigest"), _WRONG_BYTES),
    **dict.fromkeys(("XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"), _WRONG_BYTES),
    **dict.fromkeys(("NoSuchUpload", "InvalidPart"), _UPLOAD_LOST),
    "RequestTimeout": _DOWN,
}
_BY_STATUS: dict[int, _Verdict] = {
    **dict.fromkeys((301, 307, 308), _REGION),
    **dict.fromkeys((401, 403), _PERMISSION),
    404: _MISSING,
    **dict.fromkeys((408, 409, 425, 429), _DOWN),
    501: _CHECKSUMS,
}


def storage_error(error: BaseException, at: Place) -> StorageError:
    """Turn one of `S3_FAILURES` into what it means; the message names place, reason, cure and what the store said.

    ```
    the store's code, else its status, else the exception       becomes           retried
    NoSuchKey; other 404                                         BlobMissing       no
    404 without a reason for a listing (no S3 there)             StoreRefused      no
    NoSuchBucket                                                 StoreRefused      no
    InvalidAccessKeyId, SignatureDoesNotMatch, ExpiredToken,     StoreRefused      no
      InvalidToken, TokenRefreshRequired; no or half credentials
    other 401, 403 (AccessDenied)                                StoreRefused      no
    301, 307, 308, AuthorizationHeaderMalformed (region)         StoreRefused      no
    RequestTimeTooSkewed (clock); NotImplemented, 501 (header)   StoreRefused      no
    BadDigest, InvalidDigest, XAmzContent...Mismatch (writing);  BlobCorrupt       no
      FlexibleChecksumError (reading)
    NoSuchUpload, InvalidPart; RequestTimeout; 408, 409, 425,    StoreUnavailable  yes
      429; other 5xx (SlowDown, InternalError)
    any other status; ParamValidationError                       StoreRefused      no
    all else: no connection, TLS, timeouts, cut answers,         StoreUnavailable  yes
      answers that are not S3's
    ```
    A 404 without a reason may mean bucket or object: for those that `has_no_reason`, ask a listing first.
    """
    kind, reason = _verdict(error)
    return kind(f"{at}: {reason.format(at=at)} [{_said(error)}]")


def has_no_reason(error: BaseException) -> bool:
    """Tell whether a refusal gives no reason but its status: an answer to HEAD has no body, a proxy's is not S3's."""
    if not isinstance(error, ClientError):
        return False
    code, _ = _code_and_status(error)
    return not code or code.isdigit()


def _verdict(error: BaseException) -> _Verdict:
    match error:
        case ClientError():
            code, status = _code_and_status(error)
            if status == 404 and error.operation_name == "ListObjectsV2" and has_no_reason(error):
                return _NO_S3
            return _BY_CODE.get(code) or _BY_STATUS.get(status) or (_DOWN if status >= 500 else _REFUSED)
        case NoCredentialsError() | PartialCredentialsError():
            return _CREDENTIALS
        case FlexibleChecksumError():
            return _WRONG_CHECKSUM
        case ParamValidationError():
            return _REFUSED
    return _DOWN


def _code_and_status(error: ClientError) -> tuple[str, int]:
    code = error.response.get("Error", {}).get("Code", "")
    return code, error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _said(error: BaseException) -> str:
    """Return what the store or boto3 said, on one line."""
    said = str(error)
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        said = f"{error.operation_name}: {answer.get('Code', '')} {answer.get('Message', '')}"
    return " ".join(said.split())[:SAID_LIMIT_CHARACTERS]
