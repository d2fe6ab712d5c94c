"""Private keys of people who decide, as files, and what is signed with them.

A file is PEM (PKCS 8), for its owner alone, under a passphrase when `PERDURE_KEY_PASSPHRASE` has one. Its public half
stands in the agents' files.
"""

import base64
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import SecretStr

from core.acts import Act, ActName
from core.entries import RunRef
from core.errors import InputError
from core.frozen import Frozen
from core.pending import PendingCall
from core.public_keys import write_key
from core.signing import Subject, signed_bytes
from core.view import StateView

FILE_BYTES = 64 * 1024
VARIABLE = "PERDURE_KEY_PASSPHRASE"
_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST = timedelta(days=366)


class KeyMade(Frozen):
    """A new key: whose, its public half, and where the private one is."""

    name: str
    public_key: str
    file: Path


class SigningWish(Frozen):
    """What a person says on the command line: sign with this key, for so long (`10m`, `2h`)."""

    file: Path
    lasts: str


@dataclass(frozen=True)
class Signer:
    """Signs what a person decides."""

    key: Ed25519PrivateKey
    file: Path
    lasts: timedelta

    def sign(self, state: StateView, name: ActName, act: Act) -> Act:
        """Return the act signed for what waits in this state; as it is when it is about nothing there.

        Raises:
            InputError: several calls wait and none is named, or the signature would not count; says why.
        """
        calls = state.pending if name != "revoke" else (*state.approved, *state.pending)
        if state.run is None or not calls or act.tool:
            return act
        if not act.id:
            which = "may be revoked" if name == "revoke" else "wait"
            raise InputError(f"several calls {which}: name one of {', '.join(call.id for call in calls)}")
        call = next((call for call in calls if call.id == act.id), None)
        if call is None or call.asked_at is None:
            return act
        self._must_count(call, act.by)
        return self._signed(call.of or state.run, call, call.asked_at, name, act)

    def _must_count(self, call: PendingCall, by: str) -> None:
        if not call.keys:
            raise InputError(f"the policy has no keys for {call.id}: a signature is not checked; leave --sign-with out")
        if by not in call.keys:
            who = ", ".join(call.keys)
            raise InputError(f"the policy has no key of {by or 'nobody'} for {call.id}; say who you are: --by {who}")
        if call.keys[by] != public_key(self.key):
            raise InputError(
                f"{self.file} is not the key that the policy has of {by}: that is {call.keys[by]}, "
                f"and this one {public_key(self.key)}"
            )

    def _signed(self, run: RunRef, call: PendingCall, asked_at: datetime, name: ActName, act: Act) -> Act:
        there = call.id.rsplit("/", 1)[-1]  # what the run whose call it is gets of an act that is passed on to it
        subject = Subject(
            workflow_id=run.workflow_id, run_id=run.run_id, call_id=there, asked_at=asked_at, digest=call.digest
        )
        act = act.model_copy(update={"signed_until": datetime.now(UTC) + self.lasts})
        signature = self.key.sign(signed_bytes(subject, name, act.model_copy(update={"id": there})))
        return act.model_copy(update={"signature": base64.b64encode(signature).decode()})


def make_key(path: Path, name: str, passphrase: SecretStr | None) -> KeyMade:
    """Make a private key in a new file that its owner alone can read.

    Raises:
        InputError: there is such a file already, or it can't be written.
    """
    key = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.get_secret_value().encode())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} is there already, and no key is ever written over; name another file") from None
    except OSError as error:
        raise InputError(f"{path} can't be written ({error.strerror}); name another file") from None
    try:
        with os.fdopen(number, "wb") as file:
            file.write(pem)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InputError(f"{path} can't be written ({error.strerror}); name another file") from None
    return KeyMade(name=name, public_key=public_key(key), file=path)


def public_key(key: Ed25519PrivateKey) -> str:
    """Return the public half as an agent's file has it."""
    return write_key(key.public_key().public_bytes_raw())


def load_signer(wish: SigningWish, passphrase: SecretStr | None) -> Signer:
    """Read the key and how long its signatures count.

    Raises:
        InputError: the file can't be read, others can read it, it is no Ed25519 key, or its passphrase is another.
    """
    return Signer(key=_load(wish.file, passphrase), file=wish.file, lasts=_lasts(wish.lasts))


def _lasts(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    lasts = int(found[1]) * _UNITS[found[2]] if found else timedelta(0)
    if not timedelta(0) < lasts <= _LONGEST:
        raise InputError("--signed-for must be a time such as 90s, 10m, 2h or 3d, at most 366d")
    return lasts


def _load(path: Path, passphrase: SecretStr | None) -> Ed25519PrivateKey:
    pem = _read(path)
    encrypted = b"ENCRYPTED" in pem
    if encrypted and passphrase is None:
        raise InputError(f"{path} is under a passphrase; set {VARIABLE}")
    try:
        password = passphrase.get_secret_value().encode() if passphrase is not None and encrypted else None
        key = load_pem_private_key(pem, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if encrypted:
            raise InputError(f"{path} can't be read with the passphrase in {VARIABLE}; set the right one") from None
        raise InputError(f"{path} is no private key in PEM (PKCS 8); `starter.py keygen FILE` makes one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is a key of another kind than Ed25519; `starter.py keygen FILE` makes one")
    return key


def _read(path: Path) -> bytes:
    """Return what is in a file that its owner alone can read, as ssh wants it of its keys."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{path} is no file; name the one that `starter.py keygen FILE` has made")
            if found.st_mode & 0o077:
                raise InputError(f"{path} can be read by others: it is a private key; first: chmod 600 {path}")
            return file.read(FILE_BYTES)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}); `starter.py keygen FILE` makes a key") from None
