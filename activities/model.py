"""The model call: load the journal, build the prompt, ask, and record the reply by the content rule.

Asking is not repeatable for free: a worker that dies between the reply and its record asks again, and only the second
reply enters the journal.
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from temporalio import activity

from activities.boundary import bordered
from activities.conversation import committed, read_messages, read_texts, readable_preview
from activities.rules import verdict
from activities.streaming import StreamedText
from activities.structured import judged
from activities.toolbox import Toolbox
from core.answers import begun
from core.artifacts import Artifacts
from core.chat import ChatReply, ChatRequest, ProposedCall
from core.content import ArtifactRef, Content, clean, one_line
from core.entries import Entry, Replied
from core.known import KnownPrompts
from core.outline import Outline
from core.ports import ChatModel, OutputSchemas
from core.prompt import configuration_of, full_texts, instructions, learnt, prompt, tool_tokens
from core.runs import Asked, AskInput
from core.state import TOKEN_BYTES
from core.storage import Storage
from core.tools import Call

log = structlog.get_logger(__name__)

CALLS = 200
"""Most calls of one reply that are recorded."""

ARGUMENTS_BYTES = 32 * 1024
"""Arguments of one reply that travel inline, in sum; further ones are artifacts."""

PROVIDER_ID_CHARACTERS = 64


class ModelActivities:
    """The activity `ask_model` over the port `ChatModel`."""

    def __init__(self, storage: Storage, toolbox: Toolbox, model: ChatModel, schemas: OutputSchemas) -> None:
        self._storage = storage
        self._toolbox = toolbox
        self._model = model
        self._schemas = schemas
        self._known = KnownPrompts()

    @activity.defn
    @bordered
    async def ask_model(self, ask: AskInput) -> Asked:
        """Ask the model for its next reply; commit the tail when it has grown past its bound.

        Raises:
            ModelUnavailable: retried, after the provider's own delay where it named one.
            ModelRefused, ContextTooLong: not retried; the run pauses with the reason.
            StorageError: by its own verdict.
        """
        scope = ask.run.scope
        artifacts = self._storage.artifacts(scope)
        entries = [*await self._storage.journal(scope).entries(ask.head), *ask.tail]
        outline = self._known.get(ask.run.run_id).outline.of(entries)
        request = await self._request(entries, artifacts, ask.run.run_id)
        began = time.monotonic()
        reply = await self._model.reply(request, StreamedText())
        seconds = time.monotonic() - began
        replied = await self._recorded(reply, ask.turn, request.model, artifacts, outline)
        if not reply.calls:
            schema = configuration_of(entries, outline).agent.output
            replied = await self._answered(replied, reply.text, begun(entries), schema, artifacts)
        prompt_tokens = reply.usage.input_tokens or len(request.model_dump_json()) // TOKEN_BYTES
        prompt_tokens = max(0, prompt_tokens - tool_tokens(configuration_of(entries, outline)))
        replied = replied.model_copy(update={"seconds": round(seconds, 3), "prompt_tokens": prompt_tokens})
        log.info(
            "model replied",
            model=request.model,
            calls=[call.name for call in replied.calls],
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            seconds=round(seconds, 3),
        )
        head = await committed(self._storage, ask.run, ask.head, (*ask.tail, replied))
        return Asked(reply=replied, head=head)

    async def _request(self, entries: Sequence[Entry], artifacts: Artifacts, run_id: str) -> ChatRequest:
        known = self._known.get(run_id)
        started = configuration_of(entries, known.outline)
        model, context = started.model, started.agent.context
        wanted = {ref.sha256: ref for ref in full_texts(entries, model, context, known)}
        texts = await read_messages(artifacts, entries, wanted)
        texts |= await read_texts(artifacts, (ref for sha256, ref in wanted.items() if sha256 not in texts))
        known = learnt(entries, texts, model, context, known)
        self._known.put(run_id, known)
        # Made without checks: its parts were checked, and there are many.
        return ChatRequest.model_construct(
            model=model,
            instructions=instructions(started, texts),
            messages=prompt(entries, texts, model, context, known),
            tools=tuple(tool.definition for tool in started.tools),
            max_output_tokens=started.agent.limits.output_tokens,
            replies=known.outline.replies,
        )

    async def _recorded(
        self, reply: ChatReply, turn: int, model: str, artifacts: Artifacts, outline: Outline
    ) -> Replied:
        text = reply.text
        if len(reply.calls) > CALLS:
            text += f"\n({len(reply.calls) - CALLS} calls left out: at most {CALLS} in one reply)"
        proposed = reply.calls[:CALLS]
        own_ids = not _provider_ids_can_stay(reply.calls, outline)
        asking = outline.opening.agent.approval if outline.opening else {}
        calls: list[Call] = []
        inline_bytes = 0
        for number, call in enumerate(proposed, start=1):
            recorded = await self._call(
                call, f"t{turn}c{number}", reply, artifacts, inline=inline_bytes < ARGUMENTS_BYTES
            )
            inline_bytes += len(recorded.arguments.text or "")
            rule = verdict(asking.get(recorded.name), self._toolbox.parsed(recorded.name, call.arguments))
            provider_id = recorded.id if own_ids else recorded.provider_id
            calls.append(recorded.model_copy(update={"provider_id": provider_id, "rule": rule}))
        keep_native = reply.native is not None and not own_ids and len(reply.calls) <= CALLS
        return Replied(
            at=datetime.now(UTC),
            turn=turn,
            text=await artifacts.store_text(text, f"reply-{turn}.md", "text/markdown"),
            calls=tuple(calls),
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            model=model,
            native=await artifacts.store_text(reply.native or "", f"reply-{turn}.json") if keep_native else None,
            original=await _original(reply, turn, artifacts),
        )

    async def _answered(
        self,
        replied: Replied,
        text: str,
        earlier: Content | None,
        schema: Mapping[str, Any] | None,
        artifacts: Artifacts,
    ) -> Replied:
        """Join what may be the answer with its earlier part, and hold it against its schema where there is one."""
        changes: dict[str, object] = {}
        if earlier is not None:
            text = await artifacts.read_text(earlier) + clean(text)
            changes["answer"] = await artifacts.store_text(text, f"answer-{replied.turn}.md", "text/markdown")
        if schema is not None and replied.stop_reason in {"end", "tool_calls"} and text.strip():
            found = await judged(clean(text), schema, self._schemas)
            changes["misfit"] = found.problem
            if not found.problem:
                name = f"output-{replied.turn}.json"
                changes["output"] = await artifacts.store_text(found.json_text, name, "application/json")
        return replied.model_copy(update=changes)

    async def _call(
        self, call: ProposedCall, call_id: str, reply: ChatReply, artifacts: Artifacts, *, inline: bool
    ) -> Call:
        name = one_line(clean(call.name), 80)
        arguments = clean(call.arguments)
        media_type = "application/json"
        content = await artifacts.store_text(arguments, f"{call_id}-arguments.json", media_type) if inline else None
        if content is None:
            content = Content(
                artifact=await artifacts.store_bytes(arguments.encode(), f"{call_id}-arguments.json", media_type)
            )
        return Call(
            id=call_id,
            provider_id=call.id,
            name=name,
            arguments=readable_preview(content, arguments),
            problem=self._problem(name, arguments, is_cut=reply.stop_reason == "length"),
        )

    def _problem(self, name: str, arguments: str, *, is_cut: bool) -> str | None:
        """Say why a call can't run; a tool that only other workers have is checked where it runs."""
        if is_cut:
            return "your reply was cut at the output limit, so the arguments may be incomplete; call again, shorter"
        return self._toolbox.problem(name, arguments) if name in self._toolbox.names else None


async def _original(reply: ChatReply, turn: int, artifacts: Artifacts) -> ArtifactRef | None:
    """Keep what came as it was, when a text of it can't be kept as it is; None when all can."""
    texts = [reply.text, *(part for call in reply.calls for part in (call.name, call.arguments))]
    original = reply.original
    if original is None and all(clean(text) == text for text in texts):
        return None
    if original is None:
        original = json.dumps({"text": reply.text, "calls": [call.model_dump() for call in reply.calls]})
    return await artifacts.store_bytes(original.encode(), f"reply-{turn}-original.json", "application/json")


def _provider_ids_can_stay(calls: Sequence[ProposedCall], outline: Outline) -> bool:
    """Say whether the provider's call ids are usable: there, short, and new in this conversation."""
    ids = [call.id for call in calls]
    if not all(0 < len(call_id) <= PROVIDER_ID_CHARACTERS and call_id.isascii() for call_id in ids):
        return False
    return len(set(ids)) == len(ids) and outline.provider_ids.isdisjoint(ids)
