"""Signed decisions: what exactly a person signs, and when a signature counts. Pure, but for the check of a signature.

A signature is over one act on one request of one run: nothing of it can be changed, and it fits nowhere else. Who can
send signals, or reads the history of a run, gains nothing: neither a decision that was not made, nor one twice.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import AwareDatetime, Field

from core.content import one_line
from core.entries import RunRef, utc
from core.frozen import Frozen
from core.public_keys import from_base64, read_key
from core.state import OpenCall

DOMAIN = b"perdure decision v1\n"
"""Stands before what is signed, so that a signature for another purpose, or another form, is none of these."""

SIGNATURE_BYTES = 64

_UNSIGNED = frozenset({"signature", "expected_version"})

Verify = Callable[[bytes, bytes, bytes], bool]
"""Say whether a public key's owner signed: (key, message, signature). Deterministic; never raises."""


class Signable(Frozen):
    """What an act has that can be signed: who acts, the signature, and until when it counts."""

    by: str = Field(default="", max_length=200)
    signature: str = Field(default="", max_length=100)
    """Ed25519 over `signed_bytes`, 64 bytes in Base64; only where the policy has the approvers' keys."""
    signed_until: AwareDatetime | None = None
    """When the signature ends, by the clock of the run: later it is refused, so that nobody can keep it back."""


class Subject(Frozen):
    """What a decision is about. The run is its first Temporal run, also when it went on in others."""

    workflow_id: str
    run_id: str
    call_id: str
    asked_at: AwareDatetime
    """When the call began to wait: a request that is made anew needs a new signature."""
    digest: str
    """That of the request, in full."""


@dataclass(frozen=True)
class Signatures:
    """What a run checks signatures with."""

    run: RunRef
    verify: Verify


def signed_bytes(subject: Subject, name: str, act: Signable) -> bytes:
    """Return what is signed: the domain, then JSON in one form only (sorted keys, no spaces, ASCII, times in UTC).

    Of the act all fields count that differ from their default, but for the signature itself and `expected_version`.

    Raises:
        ValueError, RecursionError: what stands in the act can't be written as JSON.
    """
    said = act.model_dump(exclude=set(_UNSIGNED), exclude_defaults=True)
    fields = {"act": name, "said": said, "subject": subject.model_dump()}
    written = json.dumps(fields, sort_keys=True, separators=(",", ":"), default=_time)
    return DOMAIN + written.encode("ascii")


def unsigned(open_call: OpenCall, name: str, act: Signable, now: datetime, signatures: Signatures | None) -> str:
    """Say why an act does not count, since its signature is missing or wrong; empty when it counts, or needs none.

    Never raises, whatever was sent.
    """
    asked, call_id = open_call.request, open_call.call.id
    if asked is None or not asked.keys:
        return ""
    if not act.signature:
        return f"only signed decisions on {call_id} count, and this one is not: starter.py signs with --sign-with FILE"
    by = one_line(act.by, 100) or "who gives no name"
    if act.by not in asked.keys:
        return f"the policy has no key of {by}; it has those of {', '.join(asked.keys)}"
    signature = from_base64(act.signature, SIGNATURE_BYTES)
    if signature is None:
        return f"its signature is not {SIGNATURE_BYTES} bytes in Base64"
    if act.signed_until is None:
        return "its signature has no end; say until when it counts (signed_until)"
    if now >= act.signed_until:
        ended = utc(_in_utc(act.signed_until))
        return f"its signature ended at {ended}, and by the run's clock it is {utc(now)}; sign it again"
    if act.signature in open_call.spent:
        return "its signature was used already; sign it again"
    if signatures is None or not _is_by(asked.keys[act.by], signature, open_call, name, act, signatures):
        return (
            f"its signature is not {by}'s, or not of this act on what waits as {call_id} now; look again and sign that"
        )
    return ""


def _is_by(key: str, signature: bytes, open_call: OpenCall, name: str, act: Signable, signatures: Signatures) -> bool:
    run, asked_at, asked = signatures.run, open_call.asked_at, open_call.request
    if asked is None or asked_at is None:
        return False
    try:
        subject = Subject(
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            call_id=open_call.call.id,
            asked_at=asked_at,
            digest=asked.digest,
        )
        return signatures.verify(read_key(key), signed_bytes(subject, name, act), signature)
    except (ValueError, RecursionError):
        return False


def _time(value: object) -> str:
    """Write a time as JSON: UTC, microseconds only where there are some."""
    if not isinstance(value, datetime):
        raise ValueError(f"{type(value).__name__} is nothing that can be signed")  # noqa: TRY004 - one error for all
    return _in_utc(value).isoformat().replace("+00:00", "Z")


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:  # in the first or the last hours that there are
        return at
