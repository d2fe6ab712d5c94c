"""One attempt of one tool call, as an activity of the tool's own name.

What the model did wrong comes back as a failed result, which it reads; what the world did wrong is raised, and retried
by the tool's effect. Whatever a tool does (raise anything, exit, return megabytes) ends in one of the two.

| raised by the tool or its surroundings | becomes |
|---|---|
| wrong arguments, `InputError`, `Failed` | a failed result with the text |
| `NotDone`, `StoreUnavailable` | raised; retried by Temporal |
| `StoreRefused`, `BlobMissing`, `BlobCorrupt`, `SecretMissing` | raised; not retried: the run pauses |
| any of the store's, in or after a `write` that has begun | never a reason to run it again: see `_run`, `_stored` |
| anything else, `SystemExit` and `KeyboardInterrupt` too | raised; retried within the attempts of the effect |
"""

import asyncio
import contextlib
import contextvars
import inspect
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from temporalio import activity

from activities.boundary import bordered, error_text, tell
from activities.contact import CONTACT, Contact
from activities.containment import ToolCrashed, run_in_thread
from activities.downloads import Downloads
from activities.outputs import Prepared, prepare, store
from activities.printing import prints_told
from activities.secrets import hide, read_secrets
from activities.signatures import CONTEXT
from activities.time_limits import in_time
from activities.tool_context import ToolContext
from activities.tool_loop import ToolLoop
from activities.toolbox import AnyTool, Toolbox
from activities.workspace import UNUSED_DAYS, Workspace, WorkspaceFolders, sweep
from core.artifacts import Artifacts
from core.content import inline
from core.errors import Failed, InputError, NotDone, SecretMissing, StorageError
from core.ports import SecretSource
from core.runs import ToolInput
from core.storage import Storage
from core.tools import ToolOutcome, Verified, verify_activity

log = structlog.get_logger(__name__)


class ToolCalls:
    """The activities of all tools.

    Sync tools run in `threads`. Below `data_dir` are the workspaces, the cache of downloaded artifacts (at most
    `cache_bytes`) and the folders of running attempts; all of it can be made again.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        storage: Storage,
        data_dir: Path,
        threads: Executor,
        cache_bytes: int,
        *,
        secrets: SecretSource,
    ) -> None:
        self._toolbox = toolbox
        self._storage = storage
        self._secrets = secrets
        self._threads = threads
        self._loop = ToolLoop()
        self._downloads = Downloads(data_dir / "cache" / "artifacts", cache_bytes)
        self._workspaces = data_dir / "workspaces"
        self._attempts = data_dir / "attempts"
        sweep(self._workspaces, unused_days=UNUSED_DAYS)
        sweep(self._attempts, unused_days=1)

    def activities(self) -> list[Callable[[ToolInput], Awaitable[ToolOutcome]]]:
        """Return one activity per tool, named like it."""
        return [self._activity(self._toolbox.tool(name)) for name in self._toolbox.names]

    def verifying(self) -> list[Callable[[ToolInput], Awaitable[Verified]]]:
        """Return one activity per tool that can find out whether a call took effect."""
        tools = [self._toolbox.tool(name) for name in self._toolbox.names]
        return [self._verify_activity(tool, tool.verify) for tool in tools if tool.verify is not None]

    def _activity(self, tool: AnyTool) -> Callable[[ToolInput], Awaitable[ToolOutcome]]:
        async def call_tool(call: ToolInput) -> ToolOutcome:
            """Run one attempt of a tool call; safe to repeat as far as the tool's effect says."""
            return await self._call(tool, call)

        return activity.defn(name=tool.name)(bordered(call_tool))

    def _verify_activity(
        self, tool: AnyTool, verify: Callable[..., object]
    ) -> Callable[[ToolInput], Awaitable[Verified]]:
        async def verify_call(call: ToolInput) -> Verified:
            """Find out whether a call took effect; reads only, so it is safe to repeat."""
            artifacts = self._storage.artifacts(call.run.scope)
            arguments = tool.signature.parse(await artifacts.read_text(call.call.arguments))
            try:
                async with self._context(tool, call) as context:
                    prepared = await in_time(tool.policy, self._called(verify, arguments, context, keep_late=False))
                    content, made = await store(prepared, context.artifacts)
            except NotDone as error:
                return Verified(verdict="not_done", why=error_text(error))
            except (InputError, Failed) as error:
                return Verified(verdict="unclear", why=error_text(error))
            return Verified(verdict="done", content=content, artifacts=made)

        return activity.defn(name=verify_activity(tool.name))(bordered(verify_call))

    async def _call(self, tool: AnyTool, call: ToolInput) -> ToolOutcome:
        lines = log.bind(tool=tool.name, call_id=call.call.id)
        lines.info("tool started")
        began = time.monotonic()
        try:
            outcome = await self._outcome(tool, call)
        except BaseException as error:
            lines.warning("tool stopped", kind=type(error).__name__, where=_where(error), seconds=_since(began))
            raise
        lines.info("tool finished", failed=outcome.failed, seconds=_since(began))
        return outcome.model_copy(update={"attempt": activity.info().attempt, "seconds": _since(began)})

    async def _outcome(self, tool: AnyTool, call: ToolInput) -> ToolOutcome:
        artifacts = self._storage.artifacts(call.run.scope)
        try:
            arguments = await artifacts.read_text(call.call.arguments)
            problem = call.call.problem or self._toolbox.problem(tool.name, arguments)
            if problem is not None:
                return _failed(problem)
            async with self._context(tool, call) as context:
                prepared = await self._run(tool, tool.signature.parse(arguments), context)
                return await self._stored(tool, prepared, context.artifacts)
        except (InputError, Failed) as error:
            return _failed(error_text(error))

    async def _stored(self, tool: AnyTool, prepared: Prepared, artifacts: Artifacts) -> ToolOutcome:
        """Store what the tool returned. What runs at most once is not run again for that: the model is told instead."""
        try:
            content, made = await store(prepared, artifacts)
        except StorageError as error:
            if tool.effect != "write":
                raise
            return _failed(f"{tool.name} ran to its end, but what it returned could not be stored: {error_text(error)}")
        return ToolOutcome(content=content, artifacts=made)

    @asynccontextmanager
    async def _context(self, tool: AnyTool, call: ToolInput) -> AsyncIterator[ToolContext]:
        journal = self._storage.journal(call.run.scope)
        references = (await journal.configuration(call.opening)).agent.secrets if tool.secrets else {}
        secrets = await read_secrets(self._secrets, tool.secrets, references)
        redaction = hide(secrets)
        scope, own = call.run.scope, self._attempts / uuid.uuid4().hex
        artifacts = self._storage.artifacts(scope, redaction)
        folders = WorkspaceFolders(self._workspaces, scope, own / "artifacts")
        context = ToolContext(
            run=call.run,
            call_id=call.call.id,
            attempt=activity.info().attempt,
            artifacts=artifacts,
            workspace=Workspace(artifacts, journal, call.opening, self._downloads, folders),
            own_folder=own,
            loop=asyncio.get_running_loop(),
            beat=_in_this_context(tell),
            contact=CONTACT.get(Contact()),
            secrets=secrets,
            redaction=redaction,
        )
        try:
            with prints_told():
                yield context
        finally:
            context.stopped.set()
            if own.exists():
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, own, ignore_errors=True))

    async def _run(self, tool: AnyTool, arguments: Mapping[str, Any], context: ToolContext) -> Prepared:
        """Run the tool. What a write did before storage failed in it is not known: no reason to run it again."""
        try:
            keep_late = tool.effect == "write"
            return await in_time(tool.policy, self._called(tool.function, arguments, context, keep_late=keep_late))
        except (StorageError, SecretMissing) as error:
            if tool.effect != "write":
                raise
            raise ToolCrashed(f"storage failed while the tool ran: {error_text(error)}") from error

    async def _called(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], context: ToolContext, *, keep_late: bool
    ) -> Prepared:
        """Call a tool's function, or its `verify`, and make what it returned ready to be stored."""
        takes_context = CONTEXT in inspect.signature(function).parameters
        given = {**arguments, CONTEXT: context} if takes_context else dict(arguments)
        name = f"{function.__name__}-{context.call_id}"
        if not inspect.iscoroutinefunction(function):
            work = lambda: prepare(function(**given), name, context.own_folder)  # noqa: E731 - one of two
        else:
            value = await self._loop.run(lambda: function(**given), name, context.stopped, keep_late=keep_late)
            work = lambda: prepare(value, name, context.own_folder)  # noqa: E731 - the other
        return await run_in_thread(self._threads, work, context.stopped, keep_late=keep_late)


def _in_this_context(function: Callable[[str], None]) -> Callable[[str], None]:
    """Bind a function of Temporal's to the activity that runs now, for calls from elsewhere on the loop."""
    here = contextvars.copy_context()

    def call(text: str) -> None:
        # A tool left behind may tell of its progress when its activity is long over.
        with contextlib.suppress(RuntimeError):
            here.copy().run(function, text)

    return call


def _failed(text: str) -> ToolOutcome:
    return ToolOutcome(content=inline(text), failed=True)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def _where(error: BaseException) -> str:
    """Return the file and line where an error was raised: enough to find it, and no data."""
    place = ""
    step = error.__traceback__
    while step is not None:
        place = f"{Path(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno}"
        step = step.tb_next
    return place
