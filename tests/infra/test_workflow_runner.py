"""A run that a query has put ahead of its history is replayed before it goes on."""

from temporalio.bridge.proto.workflow_activation import (
    QueryWorkflow,
    ResolveActivity,
    SignalWorkflow,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion

from infra.workflow_runner import AHEAD, Careful

RESOLVED = WorkflowActivationJob(resolve_activity=ResolveActivity(seq=1))
SIGNALLED = WorkflowActivationJob(signal_workflow=SignalWorkflow(signal_name="settle"))
ASKED = WorkflowActivationJob(query_workflow=QueryWorkflow(query_type="state"))


def activation(length: int, size: int, *jobs: WorkflowActivationJob) -> WorkflowActivation:
    """What the SDK hands to a run, at this length (events) and size (bytes) of its history."""
    return WorkflowActivation(run_id="a run", history_length=length, history_size_bytes=size, jobs=jobs)


def verdicts(*activations: WorkflowActivation) -> list[bool]:
    """Whether each was handed on to the run."""
    passed: list[WorkflowActivation] = []

    def run(act: WorkflowActivation) -> WorkflowActivationCompletion:
        passed.append(act)
        return WorkflowActivationCompletion(run_id=act.run_id)

    careful = Careful(run)
    for act in activations:
        failure = careful(act).failed.failure.message
        assert failure == ("" if act in passed else AHEAD)
    return [act in passed for act in activations]


def test_events_that_came_with_a_query_and_no_task_are_not_built_upon() -> None:
    """The query is answered; the next task fails, and so does not go on from them."""
    tasks = [activation(9, 3900, RESOLVED), activation(15, 5400, RESOLVED)]
    query = [activation(20, 5400, RESOLVED), activation(20, 5400, ASKED), activation(20, 5400, ASKED)]
    assert verdicts(*tasks, *query, activation(22, 6700, SIGNALLED)) == [True] * 5 + [False]


def test_queries_of_a_run_that_is_not_ahead_change_nothing() -> None:
    """They come with no events, or a task comes with them."""
    asked = [activation(9, 3900, RESOLVED), activation(9, 3900, ASKED), activation(15, 5400, RESOLVED)]
    assert verdicts(*asked, activation(15, 5400, ASKED), activation(22, 6700, SIGNALLED)) == [True] * 5


def test_several_activations_of_one_task_are_one_task() -> None:
    """Such as a cancelled timer's: the history is as long as before."""
    assert verdicts(activation(9, 3900, RESOLVED), activation(9, 3900, RESOLVED), activation(15, 5400, SIGNALLED))


def test_a_server_that_tells_no_sizes_is_taken_at_its_word() -> None:
    """Nothing can be known then, and no task fails."""
    assert verdicts(activation(9, 0, RESOLVED), activation(15, 0, RESOLVED), activation(22, 0, SIGNALLED)) == [True] * 3
