"""How activities are retried and watched. `PayloadsTooLarge` never is: the same result would be too large again."""

from datetime import timedelta

from temporalio.common import RetryPolicy

from core.failures import TOO_LARGE
from core.tools import ATTEMPTS, ToolPolicy

NEVER_RETRIED = [TOO_LARGE]

MODEL_TIMEOUT = timedelta(minutes=10)
MODEL_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(minutes=1),
    maximum_attempts=10,
    non_retryable_error_types=NEVER_RETRIED,
)

JOURNAL_TIMEOUT = timedelta(minutes=5)
JOURNAL_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=10,
    non_retryable_error_types=NEVER_RETRIED,
)


def tool_retry(policy: ToolPolicy) -> RetryPolicy:
    """Return how often a tool may be started, by its effect: a write at most once."""
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=500),
        backoff_coefficient=2,
        maximum_interval=timedelta(seconds=30),
        maximum_attempts=ATTEMPTS[policy.effect],
        non_retryable_error_types=NEVER_RETRIED,
    )
