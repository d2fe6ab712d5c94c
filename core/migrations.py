"""How what was stored by an earlier version is read by this one: one step a version, pure, on the JSON that was stored.

```
kind      version in  where it is kept
entry     v           in journal nodes, tails and answers of runs
node      format      journal nodes
manifest  v           manifests of closed runs
state     version     what a workflow carries on
```

A change that old code could not read raises the version in the model and adds to `STEPS` the function that lifts a
value by one version. What is of the current version never comes here: it is read as it is. `tests/data` has values of
each version, which every later one must read.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from core.errors import BlobCorrupt

Kind = Literal["entry", "node", "manifest", "state"]
Step = Callable[[dict[str, Any]], dict[str, Any]]

VERSION_FIELD: Mapping[Kind, str] = {"entry": "v", "node": "format", "manifest": "v", "state": "version"}
CURRENT: Mapping[Kind, int] = {"entry": 1, "node": 1, "manifest": 1, "state": 1}
STEPS: Mapping[Kind, Mapping[int, Step]] = {"entry": {}, "node": {}, "manifest": {}, "state": {}}
"""From each earlier version to the next one."""

Model = TypeVar("Model", bound=BaseModel)


def migrated(
    kind: Kind,
    value: Any,
    *,
    steps: Mapping[Kind, Mapping[int, Step]] = STEPS,
    current: Mapping[Kind, int] = CURRENT,
) -> dict[str, Any]:
    """Return a stored value in the current version, the entries in it too. The value itself is not changed.

    Raises:
        BlobCorrupt: it is no such value, of a newer version than this code, or of one that was never written.
    """
    field = VERSION_FIELD[kind]
    if not isinstance(value, dict):
        raise BlobCorrupt(f"this is no {kind}: a JSON object is expected; restore it from a backup")
    version = value.get(field, 1)
    if isinstance(version, int) and version > current[kind]:
        raise BlobCorrupt(
            f"{kind} of version {version}, this version reads up to {current[kind]}; "
            "use the version that wrote it or a newer one"
        )
    while version != current[kind]:
        if version not in steps[kind]:
            raise BlobCorrupt(f"{kind} of version {version!r}, which was never written; restore it from a backup")
        value = {**steps[kind][version](value), field: version + 1}
        version += 1

    def lifted(values: Any) -> Any:
        """Lift entries, and lists of them; what is neither is left to the model to refuse."""
        if isinstance(values, list):
            return [lifted(one) for one in values]
        return migrated("entry", values, steps=steps, current=current) if isinstance(values, dict) else values

    inner = {"node": "commits", "state": "tail"}.get(kind, "")
    return {**value, inner: lifted(value[inner])} if inner in value else dict(value)


def read_stored(kind: Kind, model: type[Model], body: bytes | str) -> Model:
    """Read what is stored, of whatever version up to this one.

    Raises:
        BlobCorrupt: as `migrated`; or it is of a form that no version of it had.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError:
        pass
    try:
        return model.model_validate(migrated(kind, json.loads(body)))
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else "no JSON"
        raise BlobCorrupt(
            f"not of a form that this version reads ({why}); use the version that wrote it or a newer one"
        ) from error
