"""Reading and writing a conversation, for the activities that ask a model."""

from collections.abc import Container, Iterable

import structlog

from core.artifacts import Artifacts
from core.content import PREVIEW_BYTES, ArtifactRef, Content, cut
from core.entries import Entry, RunRef, size_bytes
from core.errors import BlobCorrupt, BlobMissing, InputError, StoreRefused, StoreUnavailable
from core.journal import Head
from core.lines import readable_arguments
from core.steps import TAIL_BYTES, TAIL_ENTRIES
from core.storage import Storage

log = structlog.get_logger(__name__)


async def read_texts(artifacts: Artifacts, refs: Iterable[ArtifactRef]) -> dict[str, str]:
    """Return the whole texts of artifacts, by SHA-256. Raises as `Artifacts.read_text`."""
    return {ref.sha256: await artifacts.read_text(Content(artifact=ref)) for ref in refs}


async def read_messages(artifacts: Artifacts, entries: Iterable[Entry], wanted: Container[str]) -> dict[str, str]:
    """Return the texts of those long messages that are wanted, by SHA-256; of one that can't be read, that it can't.

    Raises:
        StoreUnavailable, StoreRefused: by their own verdict.
    """
    texts: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "messaged" and (ref := entry.text.artifact) is not None and ref.sha256 in wanted:
            try:
                texts[ref.sha256] = await artifacts.read_text(entry.text)
            except (BlobMissing, BlobCorrupt, InputError) as error:
                texts[ref.sha256] = f"(A message of {entry.by or 'somebody'} can't be read: {error})"
    return texts


async def committed(storage: Storage, run: RunRef, head: Head, tail: tuple[Entry, ...]) -> Head | None:
    """Write the tail when it has grown past its bound; a store that is down or refuses only postpones that.

    What a model has said is paid for: it is kept in the run's state, which pauses the run before that grows too long.

    Returns the new head, or None when nothing was written. Safe to repeat.
    """
    if len(tail) <= TAIL_ENTRIES and sum(map(size_bytes, tail)) <= TAIL_BYTES:
        return None
    try:
        return await storage.journal(run.scope).append(head, tail)
    except (StoreUnavailable, StoreRefused) as error:
        log.warning("journal not written yet; the newest entry is kept in the run's state", error=str(error))
        return None


def readable_preview(content: Content, arguments: str) -> Content:
    """Let the preview of long arguments be their beginning as people read it: who approves sees what would run."""
    if content.artifact is None:
        return content
    preview = cut(readable_arguments(arguments), PREVIEW_BYTES)
    return Content(artifact=content.artifact.model_copy(update={"preview": preview}))
