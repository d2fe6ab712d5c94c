"""What the commands of `starter.py pipeline` do. Each returns its exit code, and raises only `PerdureError`s."""

import asyncio
from collections.abc import Sequence

from rich.text import Text

from core.acts import Act, ActName
from core.errors import InputError
from core.pipelines.graph import mermaid, tree
from core.pipelines.lines import what
from core.pipelines.record import Record
from core.pipelines.runs import PipelineResult
from core.pipelines.view import PipelineView
from infra.acts import make_act
from infra.decisions import decide, stop
from infra.display import Display, printable, show_pending, show_runs
from infra.exits import OK, UNDO_FAILED, exit_code_of
from infra.launch import Launched, user_name
from infra.pipeline_display import show_end, show_pipeline, steps_table
from infra.pipeline_files import agents_of, find_pipeline, read_pipeline
from infra.pipeline_launch import launch_pipeline, make_pipeline_order, rerun_input, start_pipeline
from infra.pipeline_runs import LONGEST_POLL, POLL, PipelineRuns
from infra.process import client_settings
from infra.runs import NoWorker, RunInfo
from infra.signing_keys import SigningWish, load_signer
from infra.store import opened_storage
from infra.temporal import ServerUnavailable, connect


async def show_file(display: Display, file: str, *, as_mermaid: bool) -> int:
    """Check a pipeline's file and draw it."""
    path = find_pipeline(file)
    pipeline = read_pipeline(path)
    agents_of(pipeline, path, client_settings().agents_dir)
    drawn = mermaid(pipeline).splitlines() if as_mermaid else tree(pipeline)
    if display.as_json:
        display.document({"pipeline": pipeline, "drawn": drawn})
    else:
        for line in drawn:
            display.out.print(Text(printable(line)), soft_wrap=True)
    return OK


async def start(
    display: Display, file: str, inputs: Sequence[str], *, run: str | None, models: Sequence[str], watch_it: bool
) -> int:
    """Start a run of a pipeline, or attach to the one of this id."""
    settings = client_settings()
    order = make_pipeline_order(find_pipeline(file), inputs, run=run, models=models, agents_dir=settings.agents_dir)
    runs = PipelineRuns(await connect(settings))
    display.on_interrupt = f"interrupted; {order.id} may have been started all the same"
    launched = await launch_pipeline(runs, settings, order, display.note)
    return await _launched(display, runs, launched, watch_it=watch_it)


async def rerun(display: Display, origin: str, step: str, *, file: str | None, run: str | None, watch_it: bool) -> int:
    """Start a run that goes on from a step of another one, with what that has come to before."""
    settings = client_settings()
    runs = PipelineRuns(await connect(settings))
    if await runs.ended(origin) is None:
        raise InputError(f"run {origin!r} has not ended: cancel it first, or wait")
    whole = await runs.whole(origin)
    if whole is None:
        raise InputError(f"run {origin!r} never opened: there is nothing to go on from; start it anew")
    pipeline = read_pipeline(find_pipeline(file)) if file is not None else None
    given = rerun_input(whole, step, pipeline)
    if file is not None and pipeline is not None:
        agents_of(pipeline, find_pipeline(file), settings.agents_dir)
    new = run or f"{origin}-from-{step}"
    launched = await start_pipeline(runs, settings, new, given, {"rerun": origin, "from": step})
    return await _launched(display, runs, launched, watch_it=watch_it)


async def show_state(display: Display, run: str) -> int:
    """Show where a run stands."""
    runs = PipelineRuns(await connect(client_settings()))
    info, view = await runs.info(run), await runs.view(run)
    if display.as_json:
        display.document({"run": info, "state": view})
    else:
        show_pipeline(display.out, info, view)
    return OK


async def watch(display: Display, run: str) -> int:
    """Show what happens until the run has ended."""
    return await _watch(display, PipelineRuns(await connect(client_settings())), run)


async def list_pipelines(display: Display, limit: int) -> int:
    """List the runs of pipelines, the newest first."""
    found = await PipelineRuns(await connect(client_settings())).list("", limit)
    display.document(found) if display.as_json else show_runs(display.out, found)
    return OK


async def act_on(  # noqa: PLR0913 - what a person may say
    display: Display,
    run: str,
    name: ActName,
    *,
    step: str,
    by: str | None,
    reason: str,
    sign: SigningWish | None = None,
) -> int:
    """Send a person's act, and tell what came of it."""
    return await send_act(
        display, run, name, make_act(call=step, by=user_name() if by is None else by, reason=reason), sign
    )


async def send_act(display: Display, run: str, name: ActName, act: Act, sign: SigningWish | None = None) -> int:
    """Send an act, and tell what came of it."""
    settings = client_settings()
    signer = load_signer(sign, settings.key_passphrase) if sign is not None else None
    runs = PipelineRuns(await connect(settings))
    decision = await decide(runs, run, name, act, signer)
    display.document(decision) if display.as_json else display.out.print(Text(printable(decision.said)))
    return OK


async def cancel(display: Display, run: str) -> int:
    """Cancel a run."""
    decision = await stop(PipelineRuns(await connect(client_settings())), run)
    display.document(decision) if display.as_json else display.out.print(Text(printable(decision.said)))
    return OK


async def show_record(display: Display, run: str) -> int:
    """Write all that happened, and what each step was given: the run's record in the blob store."""
    settings = client_settings()
    runs = PipelineRuns(await connect(settings))
    view = await runs.view(run)
    if view.run is None or view.head is None:
        raise InputError(f"run {run!r} has no record yet; it has not opened")
    async with opened_storage(settings, display.note) as storage:
        entries = await Record(storage.blobs, view.run.scope).entries(view.head)
    if display.as_json:
        display.document(entries)
        return OK
    for entry in entries:
        display.out.print(Text(f"{entry.at:%Y-%m-%d %H:%M:%S} {printable(what(entry))}"), soft_wrap=True)
    return OK


async def _launched(display: Display, runs: PipelineRuns, launched: Launched, *, watch_it: bool) -> int:
    if display.as_json:
        display.document({"kind": "started", **launched.model_dump()} if watch_it else launched, indent=None)
    else:
        display.note(launched.note)
        display.out.print(f"{'attached to' if launched.attached else 'started'} {launched.id}")
    if watch_it:
        return await _watch(display, runs, launched.id)
    if not display.as_json:
        display.note(f"  python starter.py pipeline watch {launched.id}")
    return OK


async def _watch(display: Display, runs: PipelineRuns, run: str) -> int:
    """Look again and again, through restarts of worker and server; tell each line once."""
    display.on_interrupt = f"interrupted; the run goes on: python starter.py pipeline watch {run}"
    told, asked, trouble, pause = 0, set[tuple[str, str]](), "", POLL
    while True:
        try:
            ended = await runs.ended(run)
            view = await runs.view(run)
            trouble, pause = "", POLL
        except (NoWorker, ServerUnavailable) as error:
            if str(error) != trouble:
                display.note(str(error))
            trouble, pause = str(error), min(2 * pause, LONGEST_POLL)
            await asyncio.sleep(pause.total_seconds())
            continue
        new = (
            view.recent[len(view.recent) - min(view.entries - told, len(view.recent)) :] if view.entries > told else ()
        )
        told = view.entries
        _tell(display, run, new, view, asked)
        if ended is not None:
            return _ended(display, view, *ended)
        await asyncio.sleep(pause.total_seconds())


def _tell(display: Display, run: str, new: Sequence[str], view: PipelineView, asked: set[tuple[str, str]]) -> None:
    for text in new:
        if display.as_json:
            display.document({"kind": "line", "text": text}, indent=None)
        else:
            display.out.print(Text(printable(text)), soft_wrap=True)
    for call in view.pending:
        if (call.id, call.digest) in asked:
            continue
        asked.add((call.id, call.digest))
        if display.as_json:
            display.document({"kind": "approval", "run": run, "call": call}, indent=None)
        else:
            show_pending(display.out, run, call)


def _ended(display: Display, view: PipelineView, info: RunInfo, result: PipelineResult | None, reason: str) -> int:
    if display.as_json:
        display.document({"kind": "ended", "run": info, "result": result, "reason": reason}, indent=None)
    else:
        display.out.print(steps_table(view))
        show_end(display.out, info, result, reason)
    if view.undo_failed:
        return UNDO_FAILED
    return exit_code_of(info.status)
