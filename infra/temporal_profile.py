"""Temporal's own variables and configuration file, as `temporalio.envconfig` reads them."""

from collections.abc import Mapping
from pathlib import Path

from temporalio.envconfig import ClientConfigProfile

from core.errors import InputError


def temporal_profile(values: Mapping[str, str]) -> ClientConfigProfile:
    """Read Temporal's variables and configuration file; what envconfig lets pass in silence is refused here.

    Raises:
        InputError: the file is missing or can't be read, or a variable is malformed; names it and the cure.
    """
    file = values.get("TEMPORAL_CONFIG_FILE")
    if file is not None and not Path(file).exists():
        raise InputError(f"TEMPORAL_CONFIG_FILE={file!r}: there is no such file; correct the path or unset it")
    tls = values.get("TEMPORAL_TLS", "true")
    if tls.lower() not in {"true", "false", "1", "0"}:
        raise InputError(f"TEMPORAL_TLS={tls!r}: must be true or false; unset it to decide by the API key")
    try:
        return ClientConfigProfile.load(override_env_vars=values)
    except RuntimeError as error:
        raise InputError(
            f"Temporal's configuration can't be read: {error}; correct the file or the variables TEMPORAL_*"
        ) from error


def leads_elsewhere(values: Mapping[str, str], address: str | None) -> bool:
    """Say whether these variables name a Temporal, and not just the one at `address` (host:port)."""
    profile = temporal_profile(values)
    if profile.address and profile.address.replace("localhost:", "127.0.0.1:") == address:
        return False
    return bool(profile.address or profile.api_key or "TEMPORAL_PROFILE" in values)
