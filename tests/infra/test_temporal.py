"""The connection to Temporal: what it says when it fails, and the search attributes."""

import asyncio
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.envconfig import ClientConfigProfile, ClientConfigTLS

from core.errors import InputError
from infra.settings import Settings
from infra.stack import LocalStack
from infra.temporal import (
    AGENT_PHASE,
    ServerUnavailable,
    connect,
    ensure_search_attributes,
    has_search_attributes,
    runtime,
)
from tests.waiting import wait_until

SCRIPT = """
import asyncio
from infra.settings import load_settings
from infra.temporal import connect

print((asyncio.run(connect(load_settings(env_file=None)))).namespace)
"""


def at(address: str, namespace: str | None = None, tls: ClientConfigTLS | None = None) -> Settings:
    """Settings of a client that connects there."""
    return Settings(temporal=ClientConfigProfile(address=address, namespace=namespace, tls=tls))


async def fresh_namespace(settings: Settings) -> Client:
    """Return a client of a namespace without search attributes of its own."""
    client = await connect(settings)
    name = f"test-{uuid.uuid4().hex[:8]}"
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86400))
    await client.workflow_service.register_namespace(request)

    async def connected() -> Client | None:
        try:
            return await connect(at(settings.temporal.address or "", name))
        except InputError:  # not yet known to the whole server
            return None

    found: Client = await wait_until(connected, description="the new namespace")
    return found


async def test_a_dead_address_is_told_with_the_cure() -> None:
    """Nobody listens: which address, how to start a server, which variable to set."""
    with pytest.raises(ServerUnavailable, match=r"does not answer at 127\.0\.0\.1:1 .*make up.*TEMPORAL_ADDRESS"):
        await connect(at("127.0.0.1:1"))


async def test_a_server_that_stays_silent_is_given_up() -> None:
    """It takes the connection and never answers: after seconds, not for ever."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ServerUnavailable, match="no answer within 5 s"),
    ):
        await connect(at(f"127.0.0.1:{silent.getsockname()[1]}"))


async def test_a_server_that_is_not_temporal_is_told(stack: LocalStack) -> None:
    """S3's port, for instance."""
    with pytest.raises(ServerUnavailable, match="does not answer"):
        await connect(at(stack.addresses.s3.removeprefix("http://")))


@pytest.mark.parametrize("address", ["no host", "127.0.0.1:99999"])
async def test_a_malformed_address_is_wrong_input(address: str) -> None:
    """Trying again would not help."""
    with pytest.raises(InputError, match="TEMPORAL_ADDRESS"):
        await connect(at(address))


async def test_a_namespace_that_is_not_there_is_told_at_once(settings: Settings) -> None:
    """Not only at the first start of a run."""
    with pytest.raises(InputError, match=r"no namespace 'elsewhere'.*TEMPORAL_NAMESPACE"):
        await connect(at(settings.temporal.address or "", "elsewhere"))


async def test_a_missing_certificate_is_named(settings: Settings) -> None:
    """TLS files come from variables: a wrong path is wrong input."""
    tls = ClientConfigTLS(client_cert=Path("/nonexistent/client.pem"))
    with pytest.raises(InputError, match=r"/nonexistent/client\.pem"):
        await connect(at(settings.temporal.address or "", tls=tls))


async def test_search_attributes_are_registered_once_and_usable(settings: Settings) -> None:
    """Absent at first; after `ensure`, however often, a run may carry them at once."""
    client = await fresh_namespace(settings)
    assert not await has_search_attributes(client)
    await ensure_search_attributes(client)
    await ensure_search_attributes(client)
    assert await has_search_attributes(client)
    await client.start_workflow(
        "Anything",
        id="tagged",
        task_queue="nobody",
        search_attributes=TypedSearchAttributes([SearchAttributePair(AGENT_PHASE, "thinking")]),
    )


async def test_a_search_attribute_of_another_type_is_told(settings: Settings) -> None:
    """The server ignores the second registration in silence."""
    client = await fresh_namespace(settings)
    taken = {AGENT_PHASE.name: IndexedValueType.INDEXED_VALUE_TYPE_INT}
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=taken)
    await client.operator_service.add_search_attributes(request)
    with pytest.raises(InputError, match="AgentPhase exist with another type"):
        await ensure_search_attributes(client)
    assert not await has_search_attributes(client)


async def test_asking_for_search_attributes_never_raises() -> None:
    """A server that can't be asked counts as one without them."""
    client = await Client.connect("127.0.0.1:1", lazy=True, runtime=runtime())
    assert not await has_search_attributes(client)


async def test_a_short_script_exits_cleanly_and_prints_nothing_of_its_own(stack: LocalStack) -> None:
    """The SDK's core writes to the log, not to stdout, and the interpreter ends with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, env=stack.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert (process.returncode, output.decode(), errors.decode()) == (0, "default\n", "")
