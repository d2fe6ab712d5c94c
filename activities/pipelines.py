"""The activities of pipelines: open a run, find out what a step is given, write the record. All are safe to repeat."""

import json
from typing import Any

import structlog
from temporalio import activity

from activities.boundary import bordered
from activities.conversation import readable_preview
from activities.journal import JournalActivities
from activities.pipeline_opening import as_agent, check, read_inputs, reads_of
from activities.rules import verdict
from activities.selecting import Document, found, holds
from activities.toolbox import Toolbox
from core.artifacts import Artifacts
from core.content import ArtifactRef, Content, inline, one_line
from core.errors import InputError
from core.journal import Head
from core.pipelines import fold
from core.pipelines.entries import Opened
from core.pipelines.fold import Stored
from core.pipelines.inputs import inputs_of
from core.pipelines.plan import Plan
from core.pipelines.record import Record
from core.pipelines.runs import (
    ClosePipelineInput,
    OpenedPipeline,
    OpenPipelineInput,
    PipelineManifest,
    PipelineResult,
    PipelineSpec,
    Recorded,
    RecordInput,
    Selected,
    SelectInput,
)
from core.pipelines.state import RUNS, PipelineState
from core.pipelines.tasks import told, written
from core.runs import ATTACHMENTS, OpenInput
from core.storage import Storage
from core.tools import Call

log = structlog.get_logger(__name__)
SECTION_BYTES = 64 * 1024
"""What is selected for an agent stands in its task up to this size, and is attached as a file beyond."""


class PipelineActivities:
    """Activities on runs of pipelines."""

    def __init__(self, storage: Storage, toolbox: Toolbox, journal: JournalActivities) -> None:
        self._storage = storage
        self._toolbox = toolbox
        self._journal = journal

    @activity.defn
    @bordered
    async def open_pipeline(self, opening: OpenPipelineInput) -> OpenedPipeline:
        """Check the pipeline against this worker's tools, and write the first entry of the record.

        Raises:
            InputError: the pipeline, its agents or its inputs are wrong, or it names a tool that is not here.
            StorageError: by its own verdict.
        """
        start, run = opening.start, opening.run
        pipeline = start.pipeline
        check(pipeline, start.agents, self._toolbox)
        artifacts = self._storage.artifacts(run.scope)
        inputs = inputs_of(pipeline, read_inputs(await artifacts.read_text(start.inputs)))
        content = await artifacts.store_text(json.dumps(inputs, ensure_ascii=False), "inputs.json", "application/json")
        tools = await self._journal.open_run(
            OpenInput(run=run, start=as_agent(pipeline, start.by, opening), started_at=opening.started_at)
        )
        reuse = start.reuse
        entry = Opened(
            at=opening.started_at,
            run=run,
            pipeline=pipeline,
            inputs=content,
            by=start.by,
            origin=reuse.origin if reuse else None,
            rerun_from=reuse.step if reuse else "",
        )
        head = await Record(self._storage.blobs, run.scope).append(None, [entry])
        kept = {key: step.model_copy(update={"reused": True}) for key, step in reuse.runs.items()} if reuse else {}
        state = fold.apply(PipelineState(), entry)
        state = state.model_copy(
            update={"head": head, "tail": (), "tail_bytes": 0, "runs": kept, "ended": len(kept)},
        )
        spec = PipelineSpec(
            run=run,
            pipeline=pipeline,
            inputs=content,
            agents=start.agents,
            model=start.model,
            by=start.by,
            tools=tools.spec.model_copy(update={"events_per_generation": start.events_per_generation}),
            reads=reads_of(pipeline),
            rerun_from=reuse.step if reuse else "",
        )
        log.info("pipeline opened", pipeline=pipeline.name, steps=len(Plan(pipeline).places))
        return OpenedPipeline(spec=spec, state=state)

    @activity.defn
    @bordered
    async def select_for_step(self, question: SelectInput) -> Selected:
        """Find out what a step is given; what is wrong with its selections is a result, not an error.

        Raises `StorageError`s, by their own verdict.
        """
        artifacts = self._storage.artifacts(question.run.scope)
        try:
            data = await Document(artifacts, question).load()
            if question.when and not await holds(question.when, data):
                return Selected(skipped=True)
            selected = {name: await found(name, text, data) for name, text in question.select.items()}
            match question.kind:
                case "tool":
                    return await self._for_tool(artifacts, question, selected)
                case "agent":
                    return await _for_agent(artifacts, question, selected, data)
                case "gate":
                    text = json.dumps({"ask": question.task, **selected}, ensure_ascii=False)
                    return Selected(given=readable_preview(await _json(artifacts, text, question.key), text))
                case "for_each":
                    return await _items(artifacts, question, data)
                case "parallel":
                    return Selected(given=inline(""))
        except InputError as error:
            return Selected(problem=one_line(str(error), 1000))

    @activity.defn
    @bordered
    async def write_record(self, write: RecordInput) -> Recorded:
        """Write entries behind a head, and store long texts. Raises `StorageError`s, by their own verdict."""
        artifacts = self._storage.artifacts(write.run.scope)
        texts = {
            key: Stored(
                output=await _stored(artifacts, stored.output, f"{key}-output"),
                given=await _stored(artifacts, stored.given, f"{key}-given"),
            )
            for key, stored in write.texts.items()
        }
        return Recorded(head=await self._append(write.run.scope, write), texts=texts)

    @activity.defn
    @bordered
    async def close_pipeline(self, closing: ClosePipelineInput) -> PipelineResult:
        """Write the last entries, and what the run has come to. Raises `StorageError`s, by their own verdict."""
        head = await self._append(closing.run.scope, closing)
        result = closing.result.model_copy(update={"head": head})
        closed_at = closing.tail[-1].at
        manifest = PipelineManifest(run=closing.run, head=head, result=result, closed_at=closed_at)
        await Record(self._storage.blobs, closing.run.scope).close(manifest)
        log.info("pipeline closed", outcome=result.outcome, seconds=round(result.seconds, 1))
        return result

    async def _append(self, scope: str, write: RecordInput | ClosePipelineInput) -> Head:
        return await Record(self._storage.blobs, scope).append(write.head, write.tail)

    async def _for_tool(self, artifacts: Artifacts, question: SelectInput, selected: dict[str, Any]) -> Selected:
        text = json.dumps({**question.arguments, **selected}, ensure_ascii=False)
        known = question.tool in self._toolbox.names
        call = Call(
            id=question.key,
            provider_id="",
            name=question.tool,
            arguments=readable_preview(await _json(artifacts, text, question.key), text),
            problem=self._toolbox.problem(question.tool, text) if known else None,
            rule=verdict(question.asking, self._toolbox.parsed(question.tool, text)),
        )
        return Selected(given=call.arguments, call=call)


async def _for_agent(
    artifacts: Artifacts, question: SelectInput, selected: dict[str, Any], data: dict[str, Any]
) -> Selected:
    attached = await _attachments(artifacts, await found("attach", question.attach, data)) if question.attach else []
    for name, value in selected.items():
        text = written(value)
        if len(text.encode()) > SECTION_BYTES:
            suffix, kind = ("txt", "text/plain") if isinstance(value, str) else ("json", "application/json")
            attached.append(await artifacts.store_bytes(text.encode(), f"{name}.{suffix}", kind))
            selected[name] = f"(attached as the file {name}.{suffix})"
    if len(attached) > ATTACHMENTS:
        raise InputError(f"attach selects {len(attached)} files; at most {ATTACHMENTS}")
    given = await artifacts.store_text(told(question.task, selected), f"{question.key}-task.txt")
    return Selected(given=given, attachments=tuple(attached))


async def _attachments(artifacts: Artifacts, value: Any) -> list[ArtifactRef]:
    handles = [each.get("handle") if isinstance(each, dict) else each for each in _listed(value)]
    if not all(isinstance(handle, str) for handle in handles):
        raise InputError("attach must select handles of artifacts, such as steps.build.artifacts")
    return [await artifacts.find(str(handle)) for handle in handles]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


async def _items(artifacts: Artifacts, question: SelectInput, data: dict[str, Any]) -> Selected:
    items = await found("items", question.items, data)
    if not isinstance(items, list):
        raise InputError(f"items ({one_line(question.items, 200)}) is no list, it is {one_line(written(items), 60)}")
    if len(items) > RUNS:
        raise InputError(f"items has {len(items)} of them; at most {RUNS}")
    text = json.dumps(items, ensure_ascii=False)
    return Selected(given=await _json(artifacts, text, question.key), items=len(items))


async def _json(artifacts: Artifacts, text: str, key: str) -> Content:
    return await artifacts.store_text(text, f"{key}-given.json", "application/json")


async def _stored(artifacts: Artifacts, content: Content | None, name: str) -> Content | None:
    if content is None or content.text is None:
        return content
    return Content(artifact=await artifacts.store_bytes(content.text.encode(), f"{name}.txt", "text/plain"))
