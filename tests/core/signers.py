"""People who sign, for tests: each with a key that is made of their name."""

import base64
import hashlib
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.acts import Act, ActName
from core.entries import RunRef
from core.pending import PendingCall
from core.public_keys import write_key
from core.signing import Signatures, Subject, signed_bytes
from tests.entries import NOW, RUN
from workflows.signatures import is_signed_by

SIGNATURES = Signatures(run=RUN, verify=is_signed_by)
MINUTES = timedelta(minutes=10)


def private_key(name: str) -> Ed25519PrivateKey:
    """Somebody's private key."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def keys(*names: str) -> dict[str, str]:
    """The keys of these people, as an agent's file has them."""
    return {name: write_key(private_key(name).public_key().public_bytes_raw()) for name in names}


def signed(  # noqa: PLR0913 - what a test may vary
    act: Act,
    call: PendingCall,
    name: ActName = "approve",
    *,
    run: RunRef = RUN,
    now: datetime = NOW,
    lasts: timedelta = MINUTES,
    key: str = "",
) -> Act:
    """The act as its author signs it; `key`: with somebody else's key."""
    assert call.asked_at is not None
    subject = Subject(
        workflow_id=run.workflow_id, run_id=run.run_id, call_id=call.id, asked_at=call.asked_at, digest=call.digest
    )
    act = act.model_copy(update={"signed_until": now + lasts})
    signature = private_key(key or act.by).sign(signed_bytes(subject, name, act))
    return act.model_copy(update={"signature": base64.b64encode(signature).decode()})
