"""What is too big is refused before it is sent."""

import pytest
from temporalio.exceptions import ApplicationError

from infra.payloads import PAYLOAD_BYTES, data_converter

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
