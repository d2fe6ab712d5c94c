"""Where the bytes of a run are kept.

A scope is the root run with its sub-agents and forks: they share artifacts and are purged together. Every key below
it is a content hash or a run id of Temporal's, never a name from a model or a person.
"""

import hashlib
import re


def scope_prefix(scope: str) -> str:
    """Return the key prefix of a scope (a workflow id, any text): readable, and unique by its hash."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", scope).strip("-.")[:60] or "run"
    return f"scopes/{slug}-{hashlib.sha256(scope.encode(errors='replace')).hexdigest()[:16]}"


def artifact_key(scope: str, sha256: str) -> str:
    """Return where an artifact of the scope is; with a part of the hash, the prefix of all that begin so."""
    return f"{scope_prefix(scope)}/artifacts/{sha256}"


def node_key(scope: str, sha256: str) -> str:
    """Return where a journal node of the scope is."""
    return f"{scope_prefix(scope)}/journal/{sha256}"


def manifest_key(scope: str, run_id: str) -> str:
    """Return where the manifest of a closed run is."""
    return f"{scope_prefix(scope)}/runs/{run_id}.json"


def signpost_key(workflow_id: str, run_id: str) -> str:
    """Return where it is written that a run's bytes are in another run's scope, for one that is looked for by its id.

    The object is a `RunRef` as JSON.
    """
    return f"{scope_prefix(workflow_id)}/elsewhere/{run_id}.json"
