"""What the commands on a run's past do: read it, prove it, step through it, compare two. Each returns its exit code.

A closed run needs the blob store only; Temporal is asked for what is open, and may be down.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core.audit import artifacts_of, digest, made_by_tools, parting, play, reading, readings
from core.content import ArtifactRef
from core.entries import Entry
from core.errors import PerdureError, StoreUnavailable
from core.prompt import configuration_of
from core.scopes import artifact_key, scope_prefix
from core.storage import Storage
from infra.display import Display, command_text
from infra.exits import FAILED, OK, exit_code_of
from infra.journals import OBJECTS, Found, commits_of, entries_of, find_journal, scope_of
from infra.process import client_settings
from infra.runs import NoWorker, RunNotFound
from infra.settings import Settings
from infra.store import opened_storage
from infra.story import (
    Branch,
    Difference,
    Kept,
    show_difference,
    show_found,
    show_kept,
    show_played,
    show_reading,
    show_verification,
)
from infra.temporal import ServerUnavailable
from infra.verification import verify
from infra.watch import LONGEST_POLL, POLL

HEADS_AT_ONCE = 16


async def read_journal(display: Display, run: str, *, run_id: str, turn: int | None) -> int:
    """Write a run's journal, or one turn of it with all that was said."""
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        found = await find_journal(settings, storage, run, run_id)
        entries = await entries_of(storage, found)
        shown = readings(entries, turn)
        if display.as_json:
            numbered = [{"number": each.number, "entry": entries[each.number - 1]} for each in shown]
            display.document({**_about(found), "entries": numbered})
            return OK
        show_found(display.out, found)
        for each in shown:
            text = each.text if turn is not None else None
            show_reading(display.out, each, text.shown() if text is not None else None)
        display.note(found.note)
    return OK


async def follow_journal(display: Display, run: str, *, run_id: str, turn: int | None) -> int:
    """Write a run's entries as they come, until it has ended; as JSON, an object a line."""
    settings = client_settings()
    display.on_interrupt = f"interrupted; the run goes on: {command_text('journal', run, '--follow')}"
    async with opened_storage(settings, display.note) as storage:
        following = _Following(display, settings, storage, await find_journal(settings, storage, run, run_id))
        number = 0
        async for entry in following.entries():
            number += 1
            if turn is not None and entry.turn != turn:
                continue
            if display.as_json:
                display.document({"number": number, "entry": entry}, indent=None)
            else:
                show_reading(display.out, reading(number, entry))
    manifest = following.found.manifest
    if manifest is None:
        display.note(following.found.note)
    return FAILED if manifest is None else exit_code_of(manifest.result.outcome)


async def prove(display: Display, run: str, *, run_id: str) -> int:
    """Hash all bytes of a run anew, and say which are missing or altered."""
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        proof = await verify(storage, await find_journal(settings, storage, run, run_id))
    display.document(proof) if display.as_json else show_verification(display.out, proof)
    display.note("" if display.as_json else proof.note)
    return FAILED if proof.faults else OK


async def replay(display: Display, run: str, *, run_id: str) -> int:
    """Step through a run's journal and write the state after each entry; as JSON, an object a line."""
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        found = await find_journal(settings, storage, run, run_id)
        entries = await entries_of(storage, found)
    for step in play(entries):
        display.document(step, indent=None) if display.as_json else show_played(display.out, step)
    display.note(found.note)
    return OK


async def diff(display: Display, left: str, right: str) -> int:
    """Write where two runs part, and what each did after that."""
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        both = [await find_journal(settings, storage, run) for run in (left, right)]
        journals = [await commits_of(storage, found) for found in both]
    common = parting(*journals)
    entries = [[entry for commit in commits for entry in commit] for commits in journals]
    branches = [_branch(found, rest[common.entries :]) for found, rest in zip(both, entries, strict=True)]
    difference = Difference(common=common, left=branches[0], right=branches[1])
    if display.as_json:
        display.document(difference)
        return OK
    show_difference(display.out, difference, entries[0][common.entries - 1] if common.entries else None)
    for found in both:
        display.note(found.note)
    return OK


async def list_artifacts(display: Display, run: str) -> int:
    """List the artifacts of a run's scope, its results first."""
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        roles, note = await _roles(settings, storage, run)
        kept = await _kept(storage, await scope_of(storage, run), roles)
    display.document(kept) if display.as_json else show_kept(display.out, run, kept)
    display.note("" if display.as_json else note)
    return OK


async def _roles(settings: Settings, storage: Storage, run: str) -> tuple[dict[str, str], str]:
    """Return what the artifacts are to the run, by hash; a run that nobody can tell of may still have some."""
    try:
        found = await find_journal(settings, storage, run)
        entries = await entries_of(storage, found)
    except PerdureError as error:
        if not await storage.blobs.list(artifact_key(await scope_of(storage, run), ""), 1):
            raise
        return {}, f"which of them are results is not known: {error}"
    roles = {ref.sha256: "used" for ref in artifacts_of(entries)}
    roles |= {ref.sha256: "attachment" for ref in configuration_of(entries).attachments}
    return roles | {ref.sha256: "result" for ref in made_by_tools(entries)}, found.note


async def _kept(storage: Storage, scope: str, roles: dict[str, str]) -> list[Kept]:
    artifacts = storage.artifacts(scope)
    listed = await storage.blobs.list(f"{scope_prefix(scope)}/artifacts/", OBJECTS)
    hashes = [info.key.rsplit("/", 1)[-1] for info in listed]
    refs: list[ArtifactRef] = []
    for start in range(0, len(hashes), HEADS_AT_ONCE):
        refs += await asyncio.gather(*(artifacts.find(sha256) for sha256 in hashes[start : start + HEADS_AT_ONCE]))
    kept = [Kept(handle=ref.handle, role=roles.get(ref.sha256, ""), artifact=ref) for ref in refs]
    order = ["result", "attachment", "used", ""]
    return sorted(kept, key=lambda each: (order.index(each.role), each.artifact.name))


@dataclass
class _Following:
    """A journal that is looked at again and again."""

    display: Display
    settings: Settings
    storage: Storage
    found: Found
    seen: Counter[str] = field(default_factory=Counter)
    trouble: str = ""

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield each entry once, until the journal is closed, or nobody goes on with it."""
        for entry in await self._new():
            yield entry
        while self.found.open:
            await asyncio.sleep((LONGEST_POLL if self.trouble else POLL).total_seconds())
            await self._look()
            for entry in await self._new():
                yield entry

    async def _look(self) -> None:
        run, why = self.found.run, ""
        try:
            self.found = await find_journal(self.settings, self.storage, run.workflow_id, run.run_id, search=False)
        except (NoWorker, ServerUnavailable, StoreUnavailable) as error:
            why = str(error)
        except RunNotFound:
            self.found = self.found.model_copy(update={"open": False, "note": "the run has ended without a manifest"})
        if why != self.trouble:
            self.display.note(why or "goes on")
        self.trouble = why

    async def _new(self) -> list[Entry]:
        """Return the entries not yet seen.

        One that a person caused may be written behind one that was begun before it, so it is not the place in the
        journal that tells what is new.
        """
        now: Counter[str] = Counter()
        new = []
        for entry in await entries_of(self.storage, self.found):
            now[name := digest(entry)] += 1
            if now[name] > self.seen[name]:
                new.append(entry)
        self.seen |= now
        return new


def _about(found: Found) -> dict[str, object]:
    result = found.manifest.result if found.manifest else None
    return {"run": found.run, "head": found.head, "closed": result is not None, "result": result, "note": found.note}


def _branch(found: Found, entries: Sequence[Entry]) -> Branch:
    return Branch(run=found.run.workflow_id, run_id=found.run.run_id, entries=tuple(entries))
