"""The servers that the tests run against: real ones, started once."""

import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from temporalio.client import Client

from infra.settings import Settings
from infra.stack import LocalStack
from infra.temporal import connect

# A shell that runs the tests in its background makes them, and all that they start, deaf to Ctrl-C; some try that.
signal.signal(signal.SIGINT, signal.default_int_handler)

OF_THE_MACHINE = ("PERDURE_", "TEMPORAL_", "AWS_", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "BEDROCK_")


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """No setting and no key of the machine reaches a test, or a process that it starts."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith(OF_THE_MACHINE)]:
            environment.delenv(name)
        yield


@pytest.fixture(scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory, clean_environment: None) -> AsyncIterator[LocalStack]:
    """Temporal and S3, shared by all tests: leave them running, and use names of your own."""
    async with LocalStack(tmp_path_factory.mktemp("stack"), flush_interval=None) as running:
        yield running


@pytest.fixture(scope="session")
def settings(stack: LocalStack) -> Settings:
    """The settings of a worker or starter that uses the stack."""
    return stack.settings()


@pytest.fixture(scope="session")
async def client(settings: Settings) -> Client:
    """A client of the stack's Temporal."""
    return await connect(settings)
