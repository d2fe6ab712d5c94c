"""Making room in a conversation: a model's summary, or a digest, stands for its older exchanges.

The journal keeps everything; only the prompt begins later. Like a model call it is not repeatable for free: a worker
that dies between the summary and its record asks for another one, and only that one enters the journal.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.boundary import bordered
from activities.conversation import committed
from core.chat import Usage
from core.compaction import Plan, digested, plan, summed_up, unusable
from core.content import clean, inline, one_line
from core.entries import Compacted, Entry
from core.errors import ContentRefused, ContextTooLong, ModelRefused, ModelUnavailable, ReplyMalformed
from core.exchanges import NOTHING, exchange_of, last_compaction
from core.frozen import Frozen
from core.ports import ChatModel
from core.prompt import configuration_of, prompt_tokens
from core.runs import CompactedResult, CompactInput
from core.storage import Storage
from core.summaries import summary_request

log = structlog.get_logger(__name__)

TRIES = 3
"""Attempts of the activity that insist on a model's summary; a model that is down after that gets none asked of it."""

WHY_CHARACTERS = 300


class _Summed(Frozen):
    """What stands for the entries that are left out; `fallback` says why it is no model's summary."""

    text: str
    fallback: str = ""
    usage: Usage = Usage()


class CompactionActivities:
    """The activity `compact` over the port `ChatModel`."""

    def __init__(self, storage: Storage, model: ChatModel) -> None:
        self._storage = storage
        self._model = model

    @activity.defn
    @bordered
    async def compact(self, request: CompactInput) -> CompactedResult:
        """Sum up the older exchanges; commit the tail when it has grown past its bound.

        Whatever the model does, something comes back: without a usable summary a digest, which says so, and when only
        one exchange is left, an entry that says that there was nothing to compact. With `drop` no model is asked.

        Raises:
            ModelUnavailable: retried; after a few attempts a digest is taken instead.
            StorageError: by its own verdict.
        """
        scope = request.run.scope
        entries = [*await self._storage.journal(scope).entries(request.head), *request.tail]
        planned = plan(entries, drop=request.drop)
        entry = _unchanged(entries, request.turn)
        if planned is not None:
            artifacts = self._storage.artifacts(scope)
            previous = await artifacts.read_text(planned.previous) if planned.previous else ""
            summed = await self._summed(planned, entries, previous, drop=request.drop)
            entry = Compacted(
                at=datetime.now(UTC),
                turn=request.turn,
                summary=await artifacts.store_text(summed.text, f"summary-{request.turn}.md", "text/markdown"),
                keep_from=planned.keep_from,
                fallback=one_line(clean(summed.fallback), WHY_CHARACTERS),
                usage=summed.usage,
            )
        agent, model = configuration_of(entries).agent, configuration_of(entries).model
        size_tokens = prompt_tokens([*entries, entry], model, agent.context)
        entry = entry.model_copy(update={"prompt_tokens": size_tokens})
        log.info("conversation compacted", kept_from=entry.keep_from, tokens=size_tokens, fallback=entry.fallback)
        head = await committed(self._storage, request.run, request.head, (*request.tail, entry))
        return CompactedResult(entry=entry, head=head)

    async def _summed(self, planned: Plan, entries: Sequence[Entry], previous: str, *, drop: bool) -> _Summed:
        """Ask the model for a summary, and take a digest when none can be had."""
        usage = Usage()
        if drop:
            why = "the compacted conversation was still too long"
        else:
            left_out = entries[planned.since : planned.keep_from]
            asking = summary_request(left_out, previous, configuration_of(entries), planned.summary_tokens)
            try:
                reply = await self._model.reply(asking)
            except (ModelRefused, ContentRefused, ContextTooLong, ReplyMalformed) as error:
                why = f"{type(error).__name__}: {error}"
            except ModelUnavailable as error:
                if activity.info().attempt <= TRIES:
                    raise
                why = f"{type(error).__name__}, {activity.info().attempt} times: {error}"
            else:
                usage, text = reply.usage, clean(reply.text)
                why = unusable(text, planned, entries, previous)
                if not why:
                    return _Summed(text=summed_up(text, planned, entries), usage=usage)
        return _Summed(text=digested(planned, entries, previous), fallback=why, usage=usage)


def _unchanged(entries: Sequence[Entry], turn: int) -> Compacted:
    """Return an entry that leaves the prompt as it is: the run's attempts are bounded, so it pauses with the reason."""
    last = last_compaction(entries)
    return Compacted(
        at=datetime.now(UTC),
        turn=turn,
        summary=last.summary if last else inline(""),
        keep_from=exchange_of(entries, last.keep_from) if last else 0,
        fallback=f"{NOTHING}: the task and the last exchange alone are too long",
    )
