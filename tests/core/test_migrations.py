"""What earlier versions stored is read by this one; what a newer one stored is refused, with the cure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from core.audit import play
from core.entries import Entry
from core.errors import BlobCorrupt
from core.journal import Journal, JournalCache, Node
from core.migrations import CURRENT, Kind, Step, migrated, read_stored
from core.runs import Manifest
from core.scopes import manifest_key, node_key
from core.state import RunState
from core.storage import Storage
from tests.entries import RUN
from tests.fakes import MemoryBlobStore, StoredBlob
from tests.record_journal import DATA

RECORDED = sorted(DATA.glob("journal-v*"))


def recorded(folder: Path) -> MemoryBlobStore:
    """Return a store with a journal that was recorded, as it was."""
    blobs = MemoryBlobStore()
    for path in folder.glob("*.json"):
        blobs.blobs[node_key(RUN.scope, path.stem)] = StoredBlob(path.read_bytes(), {})
    blobs.blobs[manifest_key(RUN.scope, RUN.run_id)] = StoredBlob((folder / "manifest.json").read_bytes(), {})
    return blobs


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
async def test_a_recorded_journal_is_read_and_folded(folder: Path) -> None:
    """Manifest, nodes and entries of every version lead to the same story."""
    blobs = recorded(folder)
    manifest = await Storage(blobs).manifest(RUN.scope, RUN.run_id)
    entries = await Journal(blobs, RUN.scope, JournalCache()).entries(manifest.head)
    last = list(play(entries))[-1]
    assert (last.state.phase, last.state.turn, last.state.artifacts) == ("completed", 2, 1)
    assert (manifest.result.outcome, manifest.result.text.text) == ("completed", "Ten.")


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_a_recorded_state_is_read(folder: Path) -> None:
    """What a run carried on in an earlier version, it carries on in this one."""
    state = read_stored("state", RunState, (folder / "state.json").read_bytes())
    assert [entry.call.id for entry in state.pending] == ["t1c1"]
    assert [entry.kind for entry in state.tail] == ["started", "replied", "approval_requested"]


def test_every_kind_of_entry_was_recorded() -> None:
    """A new kind without recorded data could be broken by a later change, and nobody would know."""
    kinds = set()
    for folder in RECORDED:
        for path in folder.glob("*.json"):
            commits = json.loads(path.read_bytes()).get("commits", [])
            kinds |= {entry["kind"] for commit in commits for entry in commit}
    assert kinds == {kind.model_fields["kind"].default for kind in get_args(get_args(Entry)[0])}


def test_an_older_value_is_lifted_step_by_step_with_all_that_is_in_it() -> None:
    """A node's entries are migrated with it, through each version, and the stored value is not touched."""
    steps: Mapping[Kind, Mapping[int, Step]] = {
        "entry": {1: lambda entry: {**entry, "b": entry["a"] + 1}, 2: lambda entry: {**entry, "c": entry["b"] + 1}},
        "node": {1: lambda node: {**node, "renamed": node["old"]}},
        "manifest": {},
        "state": {},
    }
    current: Mapping[Kind, int] = {**CURRENT, "entry": 3, "node": 2}
    value = {"format": 1, "old": "x", "commits": [[{"a": 1}], [{"v": 2, "b": 5}, {"v": 3, "c": 9}]]}
    before = json.dumps(value)
    lifted = migrated("node", value, steps=steps, current=current)
    assert lifted["format"] == 2
    assert lifted["renamed"] == "x"
    assert lifted["commits"] == [[{"a": 1, "b": 2, "c": 3, "v": 3}], [{"v": 3, "b": 5, "c": 6}, {"v": 3, "c": 9}]]
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"format": 2}, "node of version 2, this version reads up to 1; use the version that wrote it or a newer"),
        ({"format": 1, "commits": [[{"v": 7}]]}, "entry of version 7, this version reads up to 1; use the version"),
        ({"format": 0}, "version 0, which was never written"),
        ({"format": "1"}, "version '1', which was never written"),
        ([], "this is no node"),
    ],
)
def test_what_no_version_up_to_this_one_wrote_is_refused(value: Any, said: str) -> None:
    """A newer version is named with the cure; nothing is guessed."""
    with pytest.raises(BlobCorrupt, match=said):
        migrated("node", value)


@pytest.mark.parametrize("body", ["{", "null", '{"format": 1, "n": 1, "parent": null, "commits": [7]}', "[" * 100_000])
def test_bytes_that_are_no_node_are_an_error_that_says_so(body: str) -> None:
    """Whatever stands in the store, the reader learns what is wrong."""
    with pytest.raises(BlobCorrupt):
        read_stored("node", Node, body)


def test_a_manifest_of_a_newer_version_says_so() -> None:
    """Also where a field is there that this version does not know."""
    with pytest.raises(BlobCorrupt, match="manifest of version 2"):
        read_stored("manifest", Manifest, '{"v": 2, "more": 1}')
