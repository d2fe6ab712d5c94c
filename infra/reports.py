"""What a client tells of one run: where it stands, and in the end what it has come to, with its text in full."""

import io
import sys
from pathlib import Path

from core.artifacts import Artifacts
from core.content import ArtifactRef
from core.errors import InputError
from core.frozen import Frozen
from core.media import is_textual
from core.runs import RunResult
from core.view import StateView
from infra.display import Display, printable, show_ending
from infra.runs import Ending, NoWorker, RunInfo, Runs, Status
from infra.settings import Settings
from infra.store import copy, save_text, whole_text


class RunReport(Frozen):
    """All that is known of a run right now. `state` is None when no worker answers; `note` or the trouble says why."""

    run: RunInfo
    state: StateView | None = None
    ending: Ending | None = None
    note: str = ""


class Outcome(Frozen):
    """What a closed run has come to; `text` is whole, or in `file` when one was asked for."""

    id: str
    status: Status
    reason: str = ""
    text: str | None = None
    file: Path | None = None
    result: RunResult | None = None


async def report_run(runs: Runs, run: str) -> RunReport:
    """Ask server and worker for a run; a worker that does not answer makes the report shorter, not fail.

    Raises:
        RunNotFound, ServerUnavailable, InputError: as `Runs`.
    """
    info = await runs.info(run)
    ending = await runs.ending(run) if info.status != "running" else None
    try:
        return RunReport(run=info, state=await runs.state(run), ending=ending)
    except NoWorker as error:
        return RunReport(run=info, ending=ending, note="" if ending or info.trouble else str(error))


async def write_artifact(display: Display, artifacts: Artifacts, ref: ArtifactRef) -> None:
    """Write an artifact to stdout; on a terminal only what is text, with control characters made visible.

    Raises:
        InputError: it is no text, and stdout is a terminal.
        StorageError: by its own verdict; nothing was written.
    """
    if not display.out.is_terminal:
        await copy(artifacts, ref, sys.stdout.buffer)
        return
    if not is_textual(ref.media_type):
        raise InputError(f"{ref.described()} is no text for a terminal; write it to a file with -o FILE")
    body = io.BytesIO()
    await copy(artifacts, ref, body)
    sys.stdout.write(printable(body.getvalue().decode(errors="replace")))


async def outcome_of(settings: Settings, ending: Ending, target: Path | None = None) -> Outcome:
    """Fetch the text of a run that has ended, into a file when one is named.

    Raises:
        StorageError: the text is an artifact and can't be read.
        InputError: the file can't be written.
    """
    result = ending.result
    reason = ending.reason or (result.reason if result else "")
    outcome = Outcome(id=ending.run.id, status=ending.run.status, reason=reason, result=result)
    if result is None:
        return outcome
    text = await whole_text(settings, result.scope or ending.run.id, result.text)
    if target is None:
        return outcome.model_copy(update={"text": text})
    return outcome.model_copy(update={"file": save_text(text, target)})


def show_outcome(display: Display, ending: Ending, outcome: Outcome) -> None:
    """Write the text to stdout, and how the run ended to stderr; as JSON, all of it to stdout."""
    if display.as_json:
        display.document(outcome)
        return
    if outcome.text:
        text = printable(outcome.text) if display.out.is_terminal else outcome.text
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    if outcome.file is not None:
        display.note(f"written to {outcome.file}")
    show_ending(display.err, ending)
