"""Names of models as people write them, checked before a run is started or goes on with one.

Whether a provider knows the name, and has a key, is known to the workers only. No provider's package is imported here.
"""

from pathlib import Path

from core.content import clean, one_line
from core.errors import InputError
from infra.accounts import CREDENTIALS

PREFIXES = tuple(CREDENTIALS)
KNOWN = ", ".join(["offline", "script:FILE", *(f"{prefix}:NAME" for prefix in PREFIXES)])


def check_model(model: str) -> str:
    """Return the model's full name; a script's relative path is made absolute, since workers run elsewhere.

    Raises:
        InputError: no name, a provider that there is not, or no such script.
    """
    model = check_provider(model)
    kind, _, file = model.partition(":")
    if kind != "script":
        return model
    path = Path(file)
    try:
        if path.is_file():
            return f"script:{path.resolve()}"
    except (OSError, ValueError):
        pass
    raise InputError(f"the model {_shown(model)} names no file; script: takes a YAML file of replies")


def check_provider(model: str) -> str:
    """Return the model's name without blanks around it, if it is of a known kind.

    Raises:
        InputError: no name, or a provider that there is not.
    """
    model = model.strip()
    if not model:
        raise InputError("the model is empty; name one, such as anthropic:NAME, script:FILE or offline")
    kind, _, name = model.partition(":")
    if model != "offline" and not (kind in {"script", *PREFIXES} and name.strip()):
        raise InputError(f"there is no model {_shown(model)}; known: {KNOWN}")
    return model


def _shown(model: str) -> str:
    return repr(one_line(clean(model), 200))
