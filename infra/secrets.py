"""Secrets of tools as a machine has them: variables of the worker's environment, and files of one folder.

`PERDURE_SECRET_GITHUB_TOKEN` wins over the file `GITHUB_TOKEN` of `PERDURE_SECRETS_DIR`: the folder where Docker
(`/run/secrets`) or Kubernetes mount theirs. Variables are read when the worker starts, files each time that a tool
needs them, so that a new file counts at once. Whatever is handed out is hidden in the logs from then on.
"""

import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from core.errors import SecretMissing
from core.redaction import SECRET_NAME
from infra.logging import never_log
from infra.settings import NAMED_PREFIX, Settings

FILE_BYTES = 64 * 1024
"""Longest file that is a secret: private keys and service accounts have a few KiB."""


class EnvironmentSecrets:
    """A `SecretSource`. `variables` are values by name in upper case; `folder` is where files are, None: nowhere."""

    def __init__(self, variables: Mapping[str, SecretStr], folder: Path | None) -> None:
        self._variables = variables
        self._folder = folder

    @classmethod
    def from_settings(cls, settings: Settings) -> "EnvironmentSecrets":
        """Return the secrets that a worker with these settings has."""
        return cls(settings.named_secrets, settings.secrets_dir)

    def secret(self, name: str) -> str:
        """Return a secret, without one line end at the end of its file.

        Raises:
            SecretMissing: no variable and no file, or a file that can't be used; names both, and never a value.
        """
        if not SECRET_NAME.fullmatch(name):
            raise SecretMissing("a secret's name has at most 64 letters, digits and _; correct it where it is named")
        variable = self._variables.get(name.upper())
        value = self._from_file(name) if variable is None else variable.get_secret_value()
        if not _is_text(value):
            raise SecretMissing(f"{NAMED_PREFIX}{name.upper()} is no UTF-8 text: {self._cure(name)}")
        never_log(name, value)
        return value

    def _from_file(self, name: str) -> str:
        if self._folder is None:
            raise SecretMissing(f"there is no secret {name}: {self._cure(name)}")
        path = self._folder / name
        try:
            value = _read(path, self._folder)
        except FileNotFoundError:
            raise SecretMissing(f"there is no secret {name}: {self._cure(name)}") from None
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SecretMissing(
                f"the file {path} can't be used as secret {name}, {reason}: {self._cure(name)}"
            ) from None
        return value

    def _cure(self, name: str) -> str:
        folder = self._folder or "a folder, and name the folder in PERDURE_SECRETS_DIR"
        return (
            f"write it into the file {name} of {folder}, or set {NAMED_PREFIX}{name.upper()} where the workers start "
            "and restart them; then resume"
        )


class _Unusable(RuntimeError):
    """A file is no secret; the text says why, after the words "can't be used"."""


def _read(path: Path, folder: Path) -> str:
    """Read a small text file of a folder. Links may lead about inside of the folder: Kubernetes has them."""
    target = path.resolve(strict=True)
    if not target.is_relative_to(folder.resolve()):
        raise _Unusable("it is a link that leads out of the folder")
    if not stat.S_ISREG(target.stat().st_mode):
        raise _Unusable("it is no regular file")
    with target.open("rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise _Unusable(f"it has more than {FILE_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _Unusable("it is no UTF-8 text") from None
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _is_text(value: str) -> bool:
    """Say whether a value can be sent: a variable's bytes that are no UTF-8 become what can't."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
