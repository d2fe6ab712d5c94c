"""What the tests of workflows share: the S3 store, and settings that know the tools of the tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from core.ports import BlobStore
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Running, worker_for


@pytest.fixture(scope="session")
def tested(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with the tools of the tests, and a folder of their own."""
    folder: Path = tmp_path_factory.mktemp("worker")
    return settings.model_copy(update={"tools": ("tests.tools",), "data_dir": folder})


@pytest.fixture(scope="session")
async def blobs(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The store of the local stack."""
    store = S3BlobStore.from_settings(settings)
    yield store
    await store.close()


@pytest.fixture
def model() -> FakeModel:
    """A model whose replies the test sets."""
    return FakeModel([])


@pytest.fixture
async def running(client: Client, tested: Settings, blobs: BlobStore, model: FakeModel) -> AsyncIterator[Running]:
    """A worker with that model."""
    async with worker_for(client, tested, blobs, model) as running:
        yield running
