"""What a run of a pipeline makes of people's acts: signals, and updates, which are answered."""

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from core.acts import ActName
    from core.approvals import Answer
    from core.entries import Refused
    from core.pending import WaitingRun
    from core.pipelines import fold
    from core.pipelines.acts import OfPipeline, act_on_pipeline
    from core.signing import Signatures
    from workflows.answers import REFUSED
    from workflows.below import WAITS_BELOW
    from workflows.pipeline_run import PipelineRun
    from workflows.signatures import is_signed_by


def taken_by(run: PipelineRun, name: ActName, act: RawValue) -> OfPipeline:
    """Return what comes of a person's act now: the decision, or why it is refused. Changes nothing, never raises."""
    signatures = Signatures(run=run.spec.run, verify=is_signed_by) if run.spec is not None else None
    return act_on_pipeline(run.state, name, act.payload.data, workflow.now(), signatures)


def check(run: PipelineRun, name: ActName, act: RawValue) -> None:
    """Refuse an act that can't be carried out: it leaves no trace, and its sender is told why.

    Raises:
        ApplicationError: the act is refused, or the run goes on in a new Temporal run in this very moment.
    """
    if run.leaving:
        raise ApplicationError("the run goes on in a new Temporal run right now; send it again", type="SendAgain")
    if run.inbox:
        raise ApplicationError(f"{len(run.inbox)} signals are to be read first; send it again", type="SendAgain")
    taken = taken_by(run, name, act)
    if isinstance(taken, Refused):
        raise ApplicationError(f"cannot {name}: {taken.why}", type=REFUSED)


def answer(run: PipelineRun, name: ActName, act: RawValue) -> Answer:
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


def hear(run: PipelineRun, raw: RawValue) -> None:
    """Take in what the run of a step's agent waits for."""
    run.signals += 1
    try:
        told = WaitingRun.model_validate_json(raw.payload.data)
    except ValidationError:
        why = "it is not what a run below tells; people send other signals"
        run.apply(Refused(at=workflow.now(), act=WAITS_BELOW, why=why))
        return
    run.become(fold.heard(run.state, told))
