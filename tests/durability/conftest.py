"""What the tests of durability share: the S3 store, and settings that know the tools of the tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.s3 import S3BlobStore
from infra.settings import Settings


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
