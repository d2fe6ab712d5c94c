"""What a process keeps of blob storage: the port, and the caches that all its runs share."""

from core.artifacts import Artifacts, TextCache
from core.errors import BlobCorrupt
from core.journal import JOURNAL_CACHE_BYTES, Journal, JournalCache
from core.migrations import read_stored
from core.ports import BlobStore
from core.redaction import NO_SECRETS, Redaction
from core.runs import Manifest
from core.scopes import manifest_key


class Storage:
    """Gives the journal and the artifacts of any scope."""

    def __init__(self, blobs: BlobStore, journal_cache_bytes: int = JOURNAL_CACHE_BYTES) -> None:
        self.blobs = blobs
        self._journals = JournalCache(journal_cache_bytes)
        self._texts = TextCache()

    def journal(self, scope: str) -> Journal:
        """Return the journals of a scope."""
        return Journal(self.blobs, scope, self._journals)

    def artifacts(self, scope: str, redaction: Redaction = NO_SECRETS) -> Artifacts:
        """Return the artifacts of a scope; for a call that knows secrets, with what keeps them out of references."""
        return Artifacts(self.blobs, scope, self._texts, redaction)

    async def manifest(self, scope: str, run_id: str) -> Manifest:
        """Return what a closed run has come to, without Temporal.

        Raises:
            BlobMissing: the run is not closed, or unknown.
            BlobCorrupt: the manifest is not of a form that this version reads.
        """
        body = await self.blobs.get(manifest_key(scope, run_id))
        try:
            return read_stored("manifest", Manifest, body)
        except BlobCorrupt as error:
            raise BlobCorrupt(f"the manifest of run {run_id}: {error}") from error
