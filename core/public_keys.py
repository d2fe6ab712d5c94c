"""Public keys of people who decide, as an agent's file names them: `ed25519:` and the key's 32 bytes in Base64."""

import base64

PREFIX = "ed25519:"
KEY_BYTES = 32
_PRIME = 2**255 - 19
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
"""Of the curve -x² + y² = 1 + d x² y²; a key is the y of one of its points, and the sign of x in the highest bit."""


def read_key(text: str) -> bytes:
    """Return the 32 bytes of a public key.

    Raises:
        ValueError: it is not of this form, or no key that somebody could have; says so, with the cure.
    """
    raw = from_base64(text.removeprefix(PREFIX), KEY_BYTES) if text.startswith(PREFIX) else None
    if raw is None:
        raise ValueError(f"must be {PREFIX} and 32 bytes in Base64, as `starter.py keygen FILE` prints it")
    if not _has_owner(raw):
        raise ValueError("is 32 bytes, but no key that anybody could have made; take what `starter.py keygen` prints")
    return raw


def write_key(raw: bytes) -> str:
    """Return the 32 bytes of a public key as `read_key` reads them."""
    return PREFIX + base64.b64encode(raw).decode()


def from_base64(text: str, size_bytes: int) -> bytes | None:
    """Return so many bytes from Base64; None when it is anything else, or not the one way to write them."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if len(raw) == size_bytes and base64.b64encode(raw).decode() == text else None


def _has_owner(raw: bytes) -> bool:
    """Say whether a key is a point of the curve, and none of the eight for which anybody could make signatures."""
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    square = y * y % _PRIME
    x_square = (square - 1) * pow(_D * square + 1, -1, _PRIME) % _PRIME
    on_curve = y < _PRIME and pow(x_square, (_PRIME - 1) // 2, _PRIME) <= 1
    weak = y in {0, 1, _PRIME - 1} or (_D * square * square + 2 * square - 1) % _PRIME == 0
    return on_curve and not weak
