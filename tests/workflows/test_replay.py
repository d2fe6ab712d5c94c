"""Histories of this and of all earlier versions replay: a run that was started before a change goes on after it."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from tests.record_histories import FOLDER, SCENARIOS
from tests.running import replayer

RECORDED = sorted(FOLDER.glob("*.json"))


def test_every_scenario_is_recorded() -> None:
    """There is something to replay for each kind of run."""
    kinds = {path.stem.split("-", 1)[1] for path in RECORDED}
    assert {scenario.__name__ for scenario in SCENARIOS} <= kinds


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    """The workflow takes the same way as when it was recorded."""
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))
