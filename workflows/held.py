"""The state of a run as its workflow holds it: changed in one place, and shown in the Temporal UI after each change."""

import asyncio

from temporalio import workflow
from temporalio.common import SearchAttributeKey

with workflow.unsafe.imports_passed_through():
    from core import fold
    from core.content import one_line
    from core.details import details
    from core.entries import Entry, Paused
    from core.failures import Failure
    from core.journal import Head
    from core.runs import Continued, RunSpec
    from core.state import RunState

WHY_CHARACTERS = 4000
"""Longest reason of a pause."""

PHASE = SearchAttributeKey.for_keyword("AgentPhase")


class HeldState:
    """What one Temporal run knows of its run of an agent. `before` is what an earlier one handed on."""

    def __init__(self, before: Continued | None) -> None:
        self.spec: RunSpec | None = before.spec if before else None
        self.state = before.state if before else RunState()
        self.changes = 0
        """How often the state has changed: who waits for a change compares it."""
        self.search_attributes = before is not None and before.spec.search_attributes
        self._shown_phase = "" if before else "running"
        self._is_shown = True

    @property
    def head(self) -> Head:
        """Where the journal is; a run that has opened has one."""
        if self.state.head is None:
            raise RuntimeError("the run has no journal yet")
        return self.state.head

    def apply(self, entry: Entry) -> None:
        """Take in an entry."""
        self.become(fold.apply(self.state, entry))

    def pause(self, failure: Failure) -> None:
        """Pause with the reason, until a person lets the run go on."""
        why = one_line(failure.text, WHY_CHARACTERS)
        self.apply(Paused(at=workflow.now(), turn=self.state.turn, cause="failure", why=why))

    def become(self, state: RunState) -> None:
        """Take the new state, and show it in the Temporal UI: once for all changes of a moment."""
        self.state = state
        self.changes += 1
        if self._is_shown:
            self._is_shown = False
            asyncio.get_running_loop().call_soon(self._show)
        phase = "running" if state.phase in {"opening", "thinking", "acting"} else state.phase
        if self.search_attributes and phase != self._shown_phase:
            self._shown_phase = phase
            workflow.upsert_search_attributes([PHASE.value_set(phase)])

    def _show(self) -> None:
        """Write the text for people: thousands of acts in one workflow task must not write it thousands of times."""
        self._is_shown = True
        workflow.set_current_details(details(self.spec, self.state, workflow.info().workflow_id))
