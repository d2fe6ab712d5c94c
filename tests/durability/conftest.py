"""What the tests of durability share: the S3 store, and settings that know the tools of the tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.durability.counter import Counter, counter_process
from tests.running import Running


@pytest.fixture(scope="session")
def tested(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with the tools of the tests, and a folder of their own."""
    folder: Path = tmp_path_factory.mktemp("worker")
    tools = ("tests.tools", "tests.durability.tools")
    return settings.model_copy(update={"tools": tools, "data_dir": folder})


@pytest.fixture(scope="session")
async def blobs(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The store of the local stack."""
    store = S3BlobStore.from_settings(settings)
    yield store
    await store.close()


@pytest.fixture
def running(client: Client, settings: Settings, blobs: S3BlobStore) -> Running:
    """A client on a task queue of its own, without a worker."""
    return Running(client, settings.model_copy(update={"task_queue": f"kill-{uuid4().hex[:8]}"}), blobs)


@pytest.fixture
async def counter(tmp_path: Path) -> AsyncIterator[Counter]:
    """A counter outside the system."""
    async with counter_process(tmp_path) as counting:
        yield counting
