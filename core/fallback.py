"""What becomes of a run whose model call failed for good: it pauses, and says which model, why, and what goes on."""

from core.content import one_line
from core.failures import TIMED_OUT, WORKER_LOST, Failure
from core.retries import MALFORMED, MALFORMED_TRIES, TRANSIENT_TRIES

OF_THE_MODEL = frozenset({"ModelUnavailable", MALFORMED, "ModelRefused", "ContentRefused", "ContextTooLong", TIMED_OUT})
"""Failures that another model need not have: neither ours, nor the store's, nor the worker's."""

WHY_CHARACTERS = 800
_END_CHARACTERS = 300
"""Of a long reason: its end holds the cure."""

_TRIED = {"ModelUnavailable": TRANSIENT_TRIES, TIMED_OUT: TRANSIENT_TRIES, MALFORMED: MALFORMED_TRIES}


def reason(failure: Failure) -> str:
    """Say why a model call failed, in one line: the beginning and the end of what its adapter says, and the tries."""
    text = one_line(failure.text, 10 * WHY_CHARACTERS)
    if len(text) > WHY_CHARACTERS:
        text = f"{text[: WHY_CHARACTERS - _END_CHARACTERS]} … {text[-_END_CHARACTERS:]}"
    tries = _TRIED.get(failure.kind)
    return f"{text} (tried {tries} times)" if tries else text


def why_paused(failure: Failure) -> str:
    """Say why a run pauses whose model call failed, and what lets it go on."""
    if failure.kind in OF_THE_MODEL:
        return f"{reason(failure)} - resume tries again; resume --model OTHER goes on with another model"
    if failure.kind == WORKER_LOST:
        return "the workers that called the model died or were cut off, each time that it was tried; resume tries again"
    return reason(failure)
