"""Key files of people who sign: for their owner alone, and clear about what is wrong with one."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from core.acts import Act
from core.asking import Asking
from core.content import inline
from core.errors import InputError
from core.fold import apply
from core.pending import PendingCall
from core.requests import request
from core.signing import unsigned
from core.view import StateView, state_view
from infra.signing_keys import Signer, SigningWish, load_signer, make_key
from tests.core.signers import SIGNATURES, keys, private_key
from tests.entries import NOW, OPEN_STATE, call, policy, reply, spec


def asking(**asking: Any) -> StateView:
    """What an approver's client reads of a run that waits for a signature of ben's or eve's."""
    return state_view(spec(), OPEN_STATE).model_copy(
        update={"pending": (PendingCall(id="t1c1", tool="pay", arguments=inline("{}"), asked_at=NOW, **asking),)}
    )


def test_a_key_that_was_made_signs_what_counts(tmp_path: Path) -> None:
    """With the public half that was printed; its file is its owner's, and never written over."""
    made = make_key(tmp_path / "key", "ben", None)
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="there already"):
        make_key(made.file, "ben", None)
    known = policy("pay", "write", "ask").model_copy(update={"asking": Asking(keys={"ben": made.public_key})})
    now = datetime.now(UTC)
    state = apply(OPEN_STATE, reply(1, call("t1c1", "pay")))
    state = apply(state, request(spec(known), known, state.open_calls[0].call, now, 1))
    signer = load_signer(SigningWish(file=made.file, lasts="10m"), None)
    act = signer.sign(state_view(spec(known), state), "approve", Act(id="t1c1", by="ben"))
    assert unsigned(state.open_calls[0], "approve", act, now, SIGNATURES) == ""
    assert act.signed_until is not None
    assert timedelta(0) <= act.signed_until - now - timedelta(minutes=10) < timedelta(minutes=5)


def test_a_key_is_kept_under_a_passphrase(tmp_path: Path) -> None:
    """Without it, or with another one, nothing is signed."""
    passphrase = SecretStr("right horse")
    made = make_key(tmp_path / "key", "ben", passphrase)
    assert made.file.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY")
    wish = SigningWish(file=made.file, lasts="2h")
    assert load_signer(wish, passphrase).lasts == timedelta(hours=2)
    with pytest.raises(InputError, match="is under a passphrase; set PERDURE_KEY_PASSPHRASE"):
        load_signer(wish, None)
    with pytest.raises(InputError, match="set the right one"):
        load_signer(wish, SecretStr("wrong"))
    bare = make_key(tmp_path / "bare", "ben", None)
    assert load_signer(SigningWish(file=bare.file, lasts="90s"), passphrase).lasts == timedelta(seconds=90)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """As ssh does; with what to type."""
    made = make_key(tmp_path / "key", "ben", None)
    made.file.chmod(mode)
    with pytest.raises(InputError, match=r"can be read by others.*chmod 600"):
        load_signer(SigningWish(file=made.file, lasts="10m"), None)


def test_what_is_no_key_is_refused_with_the_reason(tmp_path: Path) -> None:
    """No file, a folder, a pipe (which is not waited for), noise, another kind of key."""
    noise, pipe, other = tmp_path / "noise", tmp_path / "pipe", tmp_path / "other"
    noise.write_bytes(os.urandom(200))
    os.mkfifo(pipe, 0o600)
    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    other.write_bytes(pem)
    for path in (noise, other):
        path.chmod(0o600)
    wrong = {
        tmp_path / "none": "No such file",
        tmp_path: "directory",
        pipe: "is no file",
        noise: "no private key in PEM",
        other: "another kind than Ed25519",
    }
    for path, why in wrong.items():
        with pytest.raises(InputError, match=why):
            load_signer(SigningWish(file=path, lasts="10m"), None)
    with pytest.raises(InputError, match="No such file"):
        make_key(tmp_path / "none" / "key", "ben", None)


@pytest.mark.parametrize("lasts", ["", "10", "0m", "-5m", "1.5h", "999999d", "PT10M", "m"])
def test_how_long_a_signature_counts_is_a_time(tmp_path: Path, lasts: str) -> None:
    """And at most a year."""
    made = make_key(tmp_path / "key", "ben", None)
    with pytest.raises(InputError, match="such as 90s, 10m, 2h or 3d"):
        load_signer(SigningWish(file=made.file, lasts=lasts), None)


def test_what_would_not_count_is_not_signed() -> None:
    """A wrong name, another one's key, a policy without keys, several calls; what does not wait is left to the run."""
    signer = Signer(key=private_key("ben"), file=Path("ben.pem"), lasts=timedelta(minutes=10))
    state = asking(keys=keys("ben", "eve"))
    with pytest.raises(InputError, match="no key of zoe for t1c1; say who you are: --by ben, eve"):
        signer.sign(state, "approve", Act(id="t1c1", by="zoe"))
    with pytest.raises(InputError, match=r"ben\.pem is not the key that the policy has of eve"):
        signer.sign(state, "approve", Act(id="t1c1", by="eve"))
    with pytest.raises(InputError, match="leave --sign-with out"):
        signer.sign(asking(), "approve", Act(id="t1c1", by="ben"))
    with pytest.raises(InputError, match="several calls wait: name one of t1c1, t1c1"):
        signer.sign(state.model_copy(update={"pending": state.pending * 2}), "approve", Act(by="ben"))
    gone = Act(id="t9c9", by="ben")
    assert signer.sign(state, "approve", gone) == gone
