"""Making room in a conversation."""

from temporalio import activity

from activities.boundary import bordered
from core.errors import ModelRefused
from core.ports import ChatModel
from core.runs import CompactedResult, CompactInput
from core.storage import Storage


class CompactionActivities:
    """The activity `compact` over the port `ChatModel`."""

    def __init__(self, storage: Storage, model: ChatModel) -> None:
        self._storage = storage
        self._model = model

    @activity.defn
    @bordered
    async def compact(self, request: CompactInput) -> CompactedResult:
        """Being written."""
        raise ModelRefused(f"{request.turn}")
