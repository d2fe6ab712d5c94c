"""Arguments that a person gives a call instead of its own: checked where the tools are known, before they count."""

import json

from temporalio import activity

from activities.boundary import bordered
from activities.conversation import readable_preview
from activities.toolbox import Toolbox
from core.content import clean, cut
from core.errors import BlobCorrupt, BlobMissing, InputError
from core.runs import CheckInput
from core.storage import Storage
from core.tools import Call

PROBLEM_BYTES = 1000


class EditActivities:
    """The activity `check_arguments`. It changes nothing but to store what is long; safe to repeat."""

    def __init__(self, storage: Storage, toolbox: Toolbox) -> None:
        self._storage = storage
        self._toolbox = toolbox

    @activity.defn
    @bordered
    async def check_arguments(self, check: CheckInput) -> Call:
        """Return the call as it would run; its `problem` says why it can't.

        Raises:
            StoreUnavailable, StoreRefused: by their own verdict.
        """
        artifacts, call = self._storage.artifacts(check.run.scope), check.call
        try:
            arguments = clean(await artifacts.read_text(check.arguments))
        except (BlobMissing, BlobCorrupt, InputError) as error:
            return call.model_copy(update={"problem": cut(f"they can't be read: {error}", PROBLEM_BYTES)})
        problem = self._problem(call.name, arguments)
        if problem is not None:
            return call.model_copy(update={"problem": cut(problem, PROBLEM_BYTES)})
        content = await artifacts.store_text(arguments, f"{call.id}-edited-arguments.json", "application/json")
        return call.model_copy(update={"arguments": readable_preview(content, arguments), "problem": None})

    def _problem(self, name: str, arguments: str) -> str | None:
        """Say why the arguments can't be used; a tool that only other workers have checks the rest where it runs."""
        if name in self._toolbox.names:
            return self._toolbox.problem(name, arguments)
        try:
            return None if isinstance(json.loads(arguments), dict) else "they are no JSON object"
        except (ValueError, RecursionError):
            return "they are no JSON"
