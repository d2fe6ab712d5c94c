"""The one place where it is checked what is sent to Temporal: too big is refused before, not after.

Temporal refuses a payload over 2 MiB, and how depends on who sends it: an activity's result is retried for ever, an
activity's input hangs its run, a start is an error of the connection. Everything of ours is bounded far below by the
content rule; what gets past it by a fault is an error here, the same everywhere, and a run that meets it pauses.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from core.content import readable_bytes
from core.failures import TOO_LARGE

PAYLOAD_BYTES = 1024 * 1024
"""Longest single value; half of what Temporal takes."""


class BoundedPayloadConverter(PydanticPayloadConverter):
    """Pydantic's converter, which refuses what Temporal would choke on. There is one: the SDK wants one a task."""

    _only: ClassVar[Self | None] = None

    def __new__(cls) -> Self:
        """Return the one there is."""
        if cls._only is None:
            cls._only = super().__new__(cls)
            PydanticPayloadConverter.__init__(cls._only)
        return cls._only

    def __init__(self) -> None:
        """Leave it as it was made, with all that it has learnt of types."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Encode values.

        Raises:
            ApplicationError: of type `PayloadsTooLarge`, not retryable; names what is too big.
        """
        payloads = super().to_payloads(values)
        for value, payload in zip(values, payloads, strict=True):
            if len(payload.data) > PAYLOAD_BYTES:
                raise ApplicationError(
                    f"a {type(value).__name__} of {readable_bytes(len(payload.data))} is too big to send, at most "
                    f"{readable_bytes(PAYLOAD_BYTES)}: store what is long as an artifact",
                    type=TOO_LARGE,
                    non_retryable=True,
                )
        return payloads


data_converter = DataConverter(payload_converter_class=BoundedPayloadConverter)
