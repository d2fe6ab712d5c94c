"""How activities are retried and watched. `PayloadsTooLarge` never is: the same result would be too large again."""

from datetime import timedelta

from temporalio.common import RetryPolicy

from core.failures import SHUT_DOWN, TOO_LARGE
from core.retries import MALFORMED, STORE_DOWN, TRANSIENT_TRIES

NEVER_RETRIED = [TOO_LARGE]
OF_LOST_WORKERS = [SHUT_DOWN, "TemporalTimeout:Heartbeat"]
"""Not retried by Temporal, which would count them as attempts of the call's own: the workflow starts it anew."""

MODEL_TIMEOUT = timedelta(minutes=30)
"""The longest reply; that one comes at all is watched by the adapter, chunk by chunk."""
MODEL_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(minutes=1),
    maximum_attempts=TRANSIENT_TRIES,
    non_retryable_error_types=[*NEVER_RETRIED, *OF_LOST_WORKERS, MALFORMED, STORE_DOWN],
)
"""Temporal counts transient failures of the provider; what else may be tried again, the workflow counts."""

JOURNAL_TIMEOUT = timedelta(minutes=5)
JOURNAL_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=10,
    non_retryable_error_types=NEVER_RETRIED,
)


def tool_retry(attempts: int) -> RetryPolicy:
    """Return how a tool is retried that may be started so often."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=attempts,
        non_retryable_error_types=[*NEVER_RETRIED, *OF_LOST_WORKERS],
    )
