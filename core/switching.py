"""Which model is asked: the one that the run began with, until it fails for good or a person names another one.

Where the agent names several, each call is put to each of them before the run stops: the next of the list, and from its
end on those of its beginning. The run stays with the one that answered. A model that is not in the list has no others
behind it. All of it stands in the journal: prompts are made for the model that it names.
"""

from collections.abc import Iterable
from datetime import datetime

from core.acts import Act
from core.content import clean, one_line
from core.entries import Entry, Forked, Refused, Resumed, Started, Switched
from core.failures import TIMED_OUT, Failure
from core.retries import MALFORMED, MALFORMED_TRIES, TRANSIENT_TRIES
from core.runs import RunSpec
from core.state import FailedModel, RunState

OF_THE_MODEL = frozenset({"ModelUnavailable", MALFORMED, "ModelRefused", "ContentRefused", "ContextTooLong", TIMED_OUT})
"""Failures that another model need not have: neither ours, nor the store's, nor the worker's."""

CURE = "resume tries again; resume --model OTHER goes on with another model"
MODEL_CHARACTERS = 200

_OF_MODELS = frozenset({"started", "forked", "switched", "resumed"})
_WHY_CHARACTERS = 800
_END_CHARACTERS = 300
"""Of a long reason: its end holds the cure."""
_TRIED = {"ModelUnavailable": TRANSIENT_TRIES, TIMED_OUT: TRANSIENT_TRIES, MALFORMED: MALFORMED_TRIES}


def model_of(spec: RunSpec, state: RunState) -> str:
    """Return the model that is asked now."""
    return state.model or spec.model


def switched(spec: RunSpec, state: RunState, failure: Failure, now: datetime) -> Switched | None:
    """Return the switch to the next model after one has failed for good; None when there is none left."""
    failed = model_of(spec, state)
    if failure.kind not in OF_THE_MODEL or failed not in spec.models:
        return None
    place = spec.models.index(failed)
    tried = {failed, *(each.model for each in state.failed_models)}
    others = (model for model in (*spec.models[place + 1 :], *spec.models[:place]) if model not in tried)
    model = next(others, None)
    if model is None:
        return None
    return Switched(at=now, turn=state.turn, model=model, failed=failed, why=_reason(failure))


def why_stopped(spec: RunSpec, state: RunState, failure: Failure) -> str:
    """Say why a model call failed for good: for each model that it was put to."""
    if failure.worker_lost:
        return "the workers that called the model died or were cut off, each time that it was tried"
    if not state.failed_models:
        return _reason(failure)
    failed = [*state.failed_models, FailedModel(model=model_of(spec, state), why=_reason(failure))]
    return f"all {len(failed)} models failed. " + " ".join(f"{each.model}: {each.why}" for each in failed)


def why_paused(spec: RunSpec, state: RunState, failure: Failure) -> str:
    """Say the same, and what lets the run go on."""
    cure = CURE if failure.kind in OF_THE_MODEL else "resume tries again"
    return f"{why_stopped(spec, state, failure)} - {cure}"


def resumed(state: RunState, act: Act, now: datetime) -> Resumed | Refused:
    """Take the act `resume`; whether there is such a model is known to the workers, and its first call shows it."""
    model = one_line(clean(act.model), MODEL_CHARACTERS)
    why = ""
    if state.paused is None:
        first = "pause it first, to give it another model" if model and state.outcome is None else ""
        why = f"the run is not paused, it is {state.phase}" + (f"; {first}" if first else "")
    elif model and model != "offline" and not all(model.partition(":")):
        why = f"there is no model {model!r}; name one as PROVIDER:NAME"
    if why:
        return Refused(at=now, turn=state.turn, act="resume", why=why)
    return Resumed(at=now, turn=state.turn, by=act.by, model=model)


def folded(state: RunState, entry: Switched | Resumed) -> RunState:
    """Return the state after the model has changed, or a person let the run go on."""
    if isinstance(entry, Switched):
        failed = FailedModel(model=entry.failed, why=entry.why)
        return state.model_copy(update={"model": entry.model, "failed_models": (*state.failed_models, failed)})
    cause = state.paused.cause if state.paused is not None else None
    changes: dict[str, object] = {
        "paused": None,
        "mistakes": 0,
        "compactions": 0,
        "seen": (),
        "failures": {},
        "failed_models": (),
        "model": entry.model or state.model,
        "grants": state.grants + (1 if cause == "limit" else 0),
    }
    if cause not in {"limit", "person"}:
        changes |= {"said": None, "stop_reason": None}
    return state.model_copy(update=changes)


def with_model(opening: Started | Forked | None, entries: Iterable[Entry]) -> Started | Forked | None:
    """Return the configuration that holds after these entries, with the model that is asked then."""
    for entry in entries:
        if entry.kind not in _OF_MODELS:  # `isinstance` takes a microsecond, which is much for a long journal
            continue
        match entry:
            case Started() | Forked():
                opening = entry
            case Switched() | Resumed() if opening is not None and entry.model:
                opening = opening.model_copy(update={"model": entry.model})
            case _:
                pass
    return opening


def _reason(failure: Failure) -> str:
    """Say why a model call failed, in one line: the beginning and the end of what its adapter says, and the tries."""
    text = one_line(failure.text, 10 * _WHY_CHARACTERS)
    if len(text) > _WHY_CHARACTERS:
        text = f"{text[: _WHY_CHARACTERS - _END_CHARACTERS]} … {text[-_END_CHARACTERS:]}"
    tries = _TRIED.get(failure.kind)
    return f"{text} (tried {tries} times)" if tries else text
