"""Updates: acts of people that are checked before they are taken, and answered with what came of them."""

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from core.acts import ActName
    from core.approvals import Answer
    from core.entries import Refused
    from workflows.run import Run
    from workflows.signatures import taken_by

REFUSED = "ActRefused"
"""The type of the error that an update fails with which is not taken; its message says why."""


def check(run: Run, name: ActName, act: RawValue) -> None:
    """Refuse an act that can't be carried out: it leaves no trace, and its sender is told why.

    Raises:
        ApplicationError: the act is refused, or the run goes on in a new Temporal run in this very moment, or signals
            that were sent before are still to be read.
    """
    if run.inbox:
        raise ApplicationError(f"{len(run.inbox)} signals are to be read first; send it again", type="SendAgain")
    if run.leaving:
        raise ApplicationError("the run goes on in a new Temporal run right now; send it again", type="SendAgain")
    taken = taken_by(run, name, act)
    if isinstance(taken, Refused):
        raise ApplicationError(f"cannot {name}: {taken.why}", type=REFUSED)


def answer(run: Run, name: ActName, act: RawValue) -> Answer:
    """Carry out an act that was checked, and answer with what came of it.

    Raises:
        ApplicationError: another act was faster, and this one is refused now; that is recorded.
    """
    run.accepted()
    taken = taken_by(run, name, act)
    run.apply(taken)
    if isinstance(taken, Refused):
        raise ApplicationError(f"cannot {name}: {taken.why}", type=REFUSED)
    return Answer(version=run.state.steps, entry=taken)
