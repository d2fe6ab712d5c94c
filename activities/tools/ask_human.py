"""Tool `ask_human`: served by the workflow, which waits for a person's answer; no worker runs it."""

from datetime import timedelta

from activities.toolbox import tool


@tool(effect="read", timeout=timedelta(minutes=1), served_by="workflow")
def ask_human(question: str, options: list[str] | None = None) -> str:
    """Ask a person, and wait for the answer: for what only people know or may decide.

    Args:
        question: The question, with all that a person must know to answer it.
        options: The answers to choose from; left out: any text.
    """
    raise NotImplementedError(f"asked by the workflow, not by a worker: {question} {options}")
