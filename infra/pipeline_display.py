"""What a person sees of a pipeline's run in a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from core.content import one_line
from core.pipelines.runs import PipelineResult
from core.pipelines.view import PipelineView, StepView
from infra.display import STYLES, printable, show_pending
from infra.runs import RunInfo

STEP_STYLES = {
    "done": "green",
    "undone": "magenta",
    "failed": "bold red",
    "undo failed": "bold red",
    "rejected": "magenta",
    "running": "cyan",
    "awaiting_approval": "bold yellow",
    "in doubt": "bold yellow",
}


def show_pipeline(console: Console, info: RunInfo, view: PipelineView) -> None:
    """Write where a run stands: each step, what waits, the last lines."""
    phase = view.phase.replace("_", " ")
    console.print(Text.assemble((printable(info.id), "bold"), "  ", (phase, STYLES.get(view.phase, ""))))
    if view.reason:
        console.print(Text(printable(view.reason)))
    if info.trouble:
        console.print(Text(printable(info.trouble), style="bold red"))
    console.print(steps_table(view))
    for call in view.pending:
        show_pending(console, info.id, call)
    if view.paused:
        console.print(Text.assemble(("paused: ", "bold yellow"), printable(view.paused)))
    for text in view.recent:
        console.print(Text(printable(text), style="dim"), soft_wrap=True)


def steps_table(view: PipelineView) -> Table:
    """Return the steps with how each stands."""
    table = Table.grid(padding=(0, 2))
    for step in view.steps:
        indent = "  " * step.key.count(".")
        said = step.undo_error or step.error or step.output or step.about
        took = _took(step)
        attempts = f"{step.attempts} attempts" if step.attempts > 1 else ""
        status = step.status.replace("_", " ") + (" (reused)" if step.reused else "")
        table.add_row(
            Text(f"{indent}{step.key}"),
            Text(status, style=STEP_STYLES.get(step.status, "")),
            Text(" ".join(filter(None, (took, attempts, f"by {step.by}" if step.by else "")))),
            Text(one_line(printable(said), 80), style="dim"),
        )
    return table


def _took(step: StepView) -> str:
    if step.started_at is None or step.ended_at is None:
        return ""
    return f"{(step.ended_at - step.started_at).total_seconds():.1f} s"


def show_end(console: Console, info: RunInfo, result: PipelineResult | None, reason: str) -> None:
    """Write how a run ended, and above all what could not be undone."""
    status = info.status.replace("_", " ")
    console.print(Text.assemble((status, STYLES.get(info.status, "")), f": {printable(reason)}" if reason else ""))
    if result is not None and result.undo_failed:
        for key in result.undo_failed:
            step = result.steps.get(key)
            why = f": {printable(step.undo_error)}" if step is not None and step.undo_error else ""
            console.print(Text(f"{key} could NOT be undone, it is still there{why}", style="bold red"))
    if result is not None and result.output is not None and info.status == "completed":
        console.print(Text(printable(result.output.shown())), soft_wrap=True)
