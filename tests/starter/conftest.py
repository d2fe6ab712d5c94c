"""A starter as a person has it: a process of its own, pointed at the tests' servers and at agents of the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.stack import LocalStack
from tests.starter.commands import Starter

PUBLISHER = """\
---
name: publisher
description: Publishes what it is told to.
tools: [publish]
---
Publish, and say so.
"""


@pytest.fixture
async def blobs(settings: Settings) -> AsyncIterator[S3BlobStore]:
    """The stack's S3."""
    store = S3BlobStore.from_settings(settings)
    yield store
    await store.close()


@pytest.fixture
def runs(client: Client) -> Runs:
    """The runs of the tests' namespace."""
    return Runs(client)


@pytest.fixture
def own(settings: Settings) -> Settings:
    """Settings with a tool that a person is asked about."""
    return settings.model_copy(update={"tools": ("tests.starter.tools",)})


@pytest.fixture
def agents_dir(tmp_path: Path) -> Path:
    """A folder with one agent."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "publisher.md").write_text(PUBLISHER, encoding="utf-8")
    return folder


@pytest.fixture
def starter(stack: LocalStack, agents_dir: Path) -> Starter:
    """The starter, pointed at the tests' servers and at that folder."""
    return Starter({**stack.env(), "PERDURE_AGENTS_DIR": str(agents_dir)})
