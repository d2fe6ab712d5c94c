"""What a run tells the one above it, and passes on to those below, by signals between workflows."""

import asyncio
import json
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from core.acts import ACT_NAMES
    from core.below import gone, heard, told, waits
    from core.content import one_line
    from core.entries import Entry, Forwarded, Refused
    from core.pending import WaitingRun
    from core.runs import RunSpec
    from workflows.held import HeldState
    from workflows.inbox import Inbox

WAITS_BELOW = "waits_below"
"""The signal by which a run tells the one above what it waits for."""


def listen(held: HeldState, raw: RawValue | None) -> Refused | None:
    """Take in what a run below tells; what can't be read is refused."""
    try:
        run = WaitingRun.model_validate_json(raw.payload.data if raw is not None else b"")
    except ValidationError:
        why = "it is not what a run below tells; people send other signals"
        return Refused(at=workflow.now(), turn=held.state.turn, act=WAITS_BELOW, why=why)
    held.become(heard(held.state, run))
    return None


def hear(held: HeldState, inbox: Inbox[Entry], name: str, sent: Sequence[RawValue]) -> None:
    """Take a signal that is no act: what a run below tells, or one that nobody knows."""
    unread = listen(held, sent[0] if sent else None) if name == WAITS_BELOW else None
    if name != WAITS_BELOW:
        why = f"there is no such signal; known: {', '.join(ACT_NAMES)}"
        unread = Refused(at=workflow.now(), turn=held.state.turn, act=one_line(name, 60), why=why)
    if unread is not None:
        refused = unread
        inbox.put(lambda: refused)


class Below:
    """Signals to the run above and to those below. `held` is the run's own state."""

    def __init__(self, held: HeldState, *, anew: bool) -> None:
        """`anew`: an earlier Temporal run may have told of something that waits no more."""
        self._held = held
        self._anew = anew
        self._told: WaitingRun | None = None
        self._telling: asyncio.Task[None] | None = None
        self._passing: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Say whether an act is on its way to a run below."""
        return bool(self._passing)

    def pass_on(self, entry: Forwarded) -> None:
        """Send an act to the run below that it is for; when that has ended, the journal says so."""
        task = asyncio.create_task(self._pass_on(entry))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    def tell(self, spec: RunSpec) -> None:
        """Tell the run above what waits here, at each change, until this one has ended or that one is not there."""
        if spec.above is not None and self._telling is None:
            self._telling = asyncio.create_task(self._tell(spec, spec.above.workflow_id))

    async def _tell(self, spec: RunSpec, above: str) -> None:
        while self._told is None or not self._told.ended:
            await workflow.wait_condition(lambda: self._is_news(spec))
            self._told = told(spec, self._held.state)
            try:
                await workflow.get_external_workflow_handle(above).signal(WAITS_BELOW, self._told)
            except FailureError as error:
                workflow.logger.warning("the run above can not be told what waits here: %s", one_line(str(error), 200))
                return

    def _is_news(self, spec: RunSpec) -> bool:
        now = told(spec, self._held.state)
        return now != self._told and (self._told is not None or self._anew or waits(now))

    async def _pass_on(self, entry: Forwarded) -> None:
        try:
            await workflow.get_external_workflow_handle(entry.to).signal(entry.act, json.loads(entry.said.text or "{}"))
        except FailureError as error:
            why = f"{entry.to} can not be reached: {one_line(str(error), 200)}"
            self._held.become(gone(self._held.state, entry.to))
            self._held.apply(Refused(at=workflow.now(), turn=self._held.state.turn, act=entry.act, why=why))
