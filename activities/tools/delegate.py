"""Tool `delegate`: served by the workflow, which starts a run of another agent below its own; no worker runs it."""

from datetime import timedelta

from activities.toolbox import tool


@tool(effect="write", timeout=timedelta(minutes=1), served_by="agent")
def delegate(agent: str, task: str, attachments: list[str] | None = None) -> str:
    """Hand a task to another agent, and wait for its result. It knows nothing but what you tell it here.

    Several calls in one reply run at the same time.

    Args:
        agent: The name of the agent.
        task: What it shall do, with all that it must know.
        attachments: Names of attached files, or handles of artifacts, that it gets.
    """
    raise NotImplementedError(f"started by the workflow, not by a worker: {agent} {task} {attachments}")
