"""What is too big is refused before it is sent."""

import pytest
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError

from infra.payloads import PAYLOAD_BYTES, BoundedPayloadConverter, data_converter

CONVERTER = data_converter.payload_converter


def test_a_value_that_temporal_would_choke_on_is_refused() -> None:
    """The error names it, and is not worth a retry."""
    with pytest.raises(ApplicationError, match=r"a str of 1\.0 MB is too big to send") as refused:
        CONVERTER.to_payloads(["small", "x" * PAYLOAD_BYTES])
    assert refused.value.non_retryable
    assert refused.value.type == "PayloadsTooLarge"


def test_what_fits_is_sent_as_json() -> None:
    """The Temporal UI reads it without a codec."""
    (payload,) = CONVERTER.to_payloads([{"a": 1}])
    assert payload.data == b'{"a":1}'


def test_nothing_asks_in_which_context_a_payload_is_encoded() -> None:
    """On that the sandbox relies, which answers the SDK's question without looking (`infra.workflow_runner`)."""
    context = WorkflowSerializationContext(namespace="default", workflow_id="any")
    assert data_converter.with_context(context).payload_converter is CONVERTER
    assert data_converter.payload_codec is None
    assert data_converter.external_storage is None


def test_there_is_one_converter() -> None:
    """The SDK makes a data converter at every workflow task; what ours has learnt of types is not lost by it."""
    assert BoundedPayloadConverter() is BoundedPayloadConverter()
    assert isinstance(DataConverter(payload_converter_class=BoundedPayloadConverter), DataConverter)
