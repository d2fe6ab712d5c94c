"""The one place that connects to Temporal: the converter, the runtime, search attributes, and clear errors."""

import asyncio
import functools
import logging
import re
from datetime import timedelta

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode

from core.errors import InputError, PerdureError
from infra.payloads import data_converter
from infra.settings import DEFAULT_TEMPORAL_ADDRESS, Settings

AGENT_NAME = SearchAttributeKey.for_keyword("AgentName")
AGENT_PHASE = SearchAttributeKey.for_keyword("AgentPhase")
SEARCH_ATTRIBUTES: tuple[SearchAttributeKey[str], ...] = (AGENT_NAME, AGENT_PHASE)

_CONNECT_TIMEOUT = timedelta(seconds=5)
_VISIBLE_TIMEOUT = timedelta(seconds=10)
_REASON_CHARACTERS = 300

log = structlog.stdlib.get_logger(__name__)


class ServerUnavailable(PerdureError):
    """Temporal does not answer; the same call may succeed once the server is up."""

    retryable = True


@functools.cache
def runtime() -> Runtime:
    """Return the process's one Temporal runtime; its core logs go to Python's logging instead of stdout."""
    forwarding = LogForwardingConfig(
        logger=logging.getLogger("temporalio.core"), append_target_to_name=False, prepend_target_on_message=False
    )
    telemetry_filter = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=telemetry_filter, forwarding=forwarding)))


async def connect(settings: Settings) -> Client:
    """Connect within 5 seconds, without retries, and make sure that the namespace is there.

    Raises:
        ServerUnavailable: nothing that speaks Temporal's protocol answers at the address; retryable.
        InputError: the address, the TLS files, the API key or the namespace is wrong; not retryable.
    """
    address = settings.temporal.address or DEFAULT_TEMPORAL_ADDRESS
    config: ClientConnectConfig = {"target_host": address, "namespace": "default"}
    try:
        config |= settings.temporal.to_client_connect_config()
        async with asyncio.timeout(_CONNECT_TIMEOUT.total_seconds()):
            client = await Client.connect(**config, data_converter=data_converter, runtime=runtime())
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except TimeoutError as error:
        raise _unavailable(address, f"no answer within {_CONNECT_TIMEOUT.total_seconds():g} s") from error
    except RPCError as error:
        raise _refused(error, address, config["namespace"]) from error
    except OSError as error:
        raise InputError(f"a TLS file of TEMPORAL_TLS_* can't be read: {error}; correct the path") from error
    except ValueError as error:
        raise InputError(
            f"Temporal's address {address!r} is wrong ({error}): set TEMPORAL_ADDRESS to host:port"
        ) from error
    except RuntimeError as error:  # how the SDK reports a connection that fails, and a key that is refused at once
        if "Unauthenticated" in str(error) or "PermissionDenied" in str(error):
            raise _no_access(str(error), address, config["namespace"]) from error
        raise _unavailable(address, str(error)) from error
    return client


async def ensure_search_attributes(client: Client) -> None:
    """Register `SEARCH_ATTRIBUTES` and wait until they are visible. Idempotent.

    Raises:
        InputError: an attribute exists with another type, or the server does not let this client register any.
        ServerUnavailable: the server is gone, or does not show them within 10 seconds.
    """
    if not _missing(await _registered(client)):
        return
    kinds = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in SEARCH_ATTRIBUTES}
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    try:
        await client.operator_service.add_search_attributes(request, timeout=_CONNECT_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise _attributes_refused(error) from error
    await _wait_until_visible(client)


async def has_search_attributes(client: Client) -> bool:
    """Tell whether runs may carry `SEARCH_ATTRIBUTES`. Never raises: a server that won't say counts as no."""
    try:
        missing = _missing(await _registered(client))
    except PerdureError as error:
        log.warning("search attributes can't be listed: runs go without them", reason=str(error))
        return False
    if missing:
        log.warning("search attributes are not registered: runs go without them", missing=sorted(missing))
    return not missing


async def _wait_until_visible(client: Client) -> None:
    try:
        async with asyncio.timeout(_VISIBLE_TIMEOUT.total_seconds()):
            while missing := _missing(registered := await _registered(client)):
                if taken := missing & registered.keys():
                    raise InputError(
                        f"search attributes {', '.join(sorted(taken))} exist with another type than Keyword: remove "
                        "them (`temporal operator search-attribute remove`), or run without them"
                    )
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise ServerUnavailable("the search attributes did not become visible in time; try again") from error


async def _registered(client: Client) -> dict[str, int]:
    """Return the namespace's custom attributes with their types, as numbers of `IndexedValueType`."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        answer = await client.operator_service.list_search_attributes(request, timeout=_CONNECT_TIMEOUT)
    except RPCError as error:
        raise _attributes_refused(error) from error
    except RuntimeError as error:  # a lazy client connects only now
        raise ServerUnavailable(f"Temporal does not answer: {_short(str(error))}") from error
    return {name: int(kind) for name, kind in answer.custom_attributes.items()}


def _missing(registered: dict[str, int]) -> set[str]:
    keyword = int(IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD)
    return {key.name for key in SEARCH_ATTRIBUTES if registered.get(key.name) != keyword}


def _attributes_refused(error: RPCError) -> PerdureError:
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}:
        return ServerUnavailable(f"Temporal went away while search attributes were set up: {_short(error.message)}")
    names = " and ".join(key.name for key in SEARCH_ATTRIBUTES)
    return InputError(
        f"Temporal refuses to set up search attributes ({_short(error.message)}): create {names} as Keyword in its "
        "own console, or run without them"
    )


def _refused(error: RPCError, address: str, namespace: str) -> PerdureError:
    match error.status:
        case RPCStatusCode.NOT_FOUND | RPCStatusCode.INVALID_ARGUMENT:
            return InputError(
                f"Temporal at {address} has no namespace {namespace!r}: set TEMPORAL_NAMESPACE to one that exists, or "
                f"create it with `temporal operator namespace create --namespace {namespace}`"
            )
        case RPCStatusCode.UNAUTHENTICATED | RPCStatusCode.PERMISSION_DENIED:
            return _no_access(error.message, address, namespace)
        case _:
            return _unavailable(address, error.message)


def _no_access(reason: str, address: str, namespace: str) -> InputError:
    return InputError(
        f"Temporal at {address} refuses access to namespace {namespace!r} ({_short(reason)}): check "
        "TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the TLS certificate (TEMPORAL_TLS_*)"
    )


def _unavailable(address: str, reason: str) -> ServerUnavailable:
    return ServerUnavailable(
        f"Temporal does not answer at {address} ({_short(reason)}). Start the local servers with `make up`, or set "
        "TEMPORAL_ADDRESS (and TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS) to a server that runs."
    )


def _short(reason: str) -> str:
    """Take the words for people out of the SDK's nested report; one line of bounded length."""
    words = re.findall(r'(?:message|error): "([^"]+)"', reason) or [reason.removeprefix("Failed client connect: ")]
    return " ".join("; ".join(words).split())[:_REASON_CHARACTERS]
