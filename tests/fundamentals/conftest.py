"""What the tutorial needs: a worker on the real servers, with a model whose replies each test writes down."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, worker_for


@pytest.fixture
def model() -> FakeModel:
    """The model; a test sets its `replies`, one for each turn."""
    return FakeModel([])


@pytest.fixture
async def perdure(client: Client, settings: Settings, model: FakeModel, tmp_path: Path) -> AsyncIterator[Running]:
    """A worker that knows the tools of `tests/tools`, as a user's package would be named in PERDURE_TOOLS."""
    own = settings.model_copy(update={"tools": ("tests.tools",), "data_dir": tmp_path})
    blobs = S3BlobStore.from_settings(settings)
    async with worker_for(client, own, blobs, model) as running:
        yield running
    await blobs.close()
