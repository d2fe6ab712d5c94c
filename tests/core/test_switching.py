"""Which model is asked: the rules, tried without a server."""

import pytest

from core.agents import Limits
from core.approvals import act_on
from core.entries import Entry, Paused, Refused, Resumed, Switched
from core.failures import Failure
from core.fold import apply
from core.outline import Outline
from core.prompt import configuration_of
from core.runs import RunSpec
from core.state import RunState
from core.steps import MISTAKES, Finish, Record, next_step
from core.switching import model_of, switched, why_paused
from tests.entries import NOW, OPEN_STATE, reply, spec, started

DOWN = Failure(kind="ModelUnavailable", text="HTTP 503: down.")
REFUSED = Failure(kind="ModelRefused", text="HTTP 401: bad key.")
THREE = spec().model_copy(update={"model": "p:a", "models": ("p:a", "p:b", "p:c")})


def next_model(run: RunSpec, state: RunState, failure: Failure = REFUSED) -> tuple[str, RunState]:
    """Let the model that is asked fail, and return the next one, or nothing."""
    entry = switched(run, state, failure, NOW)
    return (entry.model, apply(state, entry)) if entry is not None else ("", state)


def test_each_model_of_the_list_is_asked_once_and_the_run_stays_with_the_one_that_answers() -> None:
    """From its end on it begins again; what failed before the last reply may be asked anew."""
    model, state = next_model(THREE, OPEN_STATE)
    assert model == model_of(THREE, state) == "p:b"
    state = apply(state, reply(1, text="Hm."))
    assert model_of(THREE, state) == "p:b"
    model, state = next_model(THREE, state)
    assert model == "p:c"
    model, state = next_model(THREE, state)
    assert model == "p:a"
    assert next_model(THREE, state)[0] == ""


def test_a_pause_names_all_models_with_their_reasons() -> None:
    """In the order in which they were asked; resume puts the call to all of them again."""
    _, state = next_model(THREE, OPEN_STATE, DOWN)
    _, state = next_model(THREE, state)
    why = why_paused(THREE, state, DOWN)
    assert why == (
        "all 3 models failed. p:a: HTTP 503: down. (tried 10 times) p:b: HTTP 401: bad key. p:c: HTTP 503: down. "
        "(tried 10 times) - resume tries again; resume --model OTHER goes on with another model"
    )
    state = apply(apply(state, Paused(at=NOW, cause="failure", why=why)), Resumed(at=NOW, by="ana"))
    assert (model_of(THREE, state), next_model(THREE, state)[0]) == ("p:c", "p:a")


@pytest.mark.parametrize("kind", ["StoreRefused", "WorkerLost", "KeyError"])
def test_what_is_no_fault_of_the_model_switches_nothing(kind: str) -> None:
    """Another model would meet it, too."""
    assert switched(THREE, OPEN_STATE, Failure(kind=kind, text="x"), NOW) is None


def test_a_long_reason_keeps_its_cure() -> None:
    """The provider's own words are cut in their middle."""
    why = why_paused(spec(), OPEN_STATE, Failure(kind="ModelRefused", text="HTTP 400: " + "x " * 3000 + "The cure."))
    assert why.startswith("HTTP 400: x x")
    assert "The cure. - resume" in why
    assert len(why) < 1000


def test_a_model_that_a_person_named_has_no_others_behind_it() -> None:
    """Unless it is one of the list."""
    state = apply(OPEN_STATE, Resumed(at=NOW, by="ana", model="q:mine"))
    assert (model_of(THREE, state), next_model(THREE, state)[0]) == ("q:mine", "")
    assert next_model(THREE, apply(state, Resumed(at=NOW, model="p:b")))[0] == "p:c"


def test_resume_takes_a_model_only_when_the_run_is_paused() -> None:
    """Else it says what to do first; a name that can't be one is refused."""
    paused = apply(OPEN_STATE, Paused(at=NOW, cause="failure", why="x"))
    taken = act_on(paused, "resume", b'{"model": "p:other", "by": "ana"}', NOW)
    assert isinstance(taken, Resumed)
    assert (taken.model, taken.by) == ("p:other", "ana")
    wrong = act_on(paused, "resume", b'{"model": "gpt"}', NOW)
    early = act_on(OPEN_STATE, "resume", b'{"model": "p:other"}', NOW)
    assert isinstance(wrong, Refused)
    assert wrong.why == "there is no model 'gpt'; name one as PROVIDER:NAME"
    assert isinstance(early, Refused)
    assert early.why == "the run is not paused, it is thinking; pause it first, to give it another model"


def test_the_journal_says_which_model_the_next_prompt_is_for() -> None:
    """Also to who reads on from where it was before."""
    entries: list[Entry] = [started(), Switched(at=NOW, model="p:b", failed="p:a", why="x")]
    assert configuration_of(entries).model == "p:b"
    more: list[Entry] = [*entries, reply(1, text="Hm."), Resumed(at=NOW), Resumed(at=NOW, model="q:mine")]
    assert configuration_of(more, Outline().of(entries)).model == configuration_of(more).model == "q:mine"


def test_an_agent_that_shall_fail_ends_where_others_pause() -> None:
    """What a model does wrong ends it; a limit is still a question for people."""
    failing = spec().model_copy(update={"on_failure": "fail"})
    refusing = apply(OPEN_STATE, reply(1, text="No.", stop_reason="refusal"))
    assert next_step(failing, refusing, NOW) == Finish(outcome="failed", reason="the model refused to answer (No.)")
    confused = OPEN_STATE.model_copy(update={"mistakes": MISTAKES})
    assert isinstance(next_step(failing, confused, NOW), Finish)
    at_limit = OPEN_STATE.model_copy(update={"turn": 2})
    assert isinstance(next_step(failing.model_copy(update={"limits": Limits(turns=2)}), at_limit, NOW), Record)
