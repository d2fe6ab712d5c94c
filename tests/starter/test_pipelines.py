"""Pipelines from the command line: start, look, decide, run again, and what the exit codes say."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.piping import lines
from tests.running import FakeModel, Running, worker_for
from tests.starter.commands import Starter

FILE = """\
name: tested
description: Writes lines into a book.
on_failure: compensate
inputs:
  book: {}
  last: {default: c}
steps:
- id: a
  kind: tool
  tool: put_line
  arguments: {line: a}
  select: {book: inputs.book}
  undo: {tool: put_line, arguments: {line: undo a}, select: {book: inputs.book}}
- {id: ok, kind: gate, ask: 'Go on?'}
- {id: c, kind: tool, tool: put_line, select: {book: inputs.book, line: inputs.last}}
"""


@pytest.fixture
async def working(client: Client, settings: Settings, blobs: S3BlobStore, tmp_path: Path) -> AsyncIterator[Running]:
    """A worker with the tools of the tests."""
    own = settings.model_copy(update={"tools": ("tests.tools",), "data_dir": tmp_path / "worker"})
    async with worker_for(client, own, blobs, FakeModel([])) as running:
        yield running


@pytest.fixture
def typed(starter: Starter, working: Running) -> Starter:
    """The starter on that worker's task queue."""
    return starter.having(PERDURE_TASK_QUEUE=working.settings.task_queue)


async def test_a_run_is_started_decided_and_watched_to_its_end(typed: Starter, tmp_path: Path) -> None:
    """Editing the file while it runs changes nothing."""
    file, book = tmp_path / "tested.yaml", tmp_path / "book"
    file.write_text(FILE)
    run = f"cli-{tmp_path.name}"
    started = await typed("pipeline", "start", str(file), "-i", f"book={book}", "--id", run, "--json")
    assert (started.code, started.json()["id"]) == (0, run)
    file.write_text(FILE.replace("inputs.last", "inputs.book"))
    again = await typed("pipeline", "start", str(file), "-i", f"book={book}", "--id", run, "--json")
    assert again.json()["attached"]
    watching = await typed.begin("pipeline", "watch", run, "--json")
    assert watching.stdout is not None
    async for line in watching.stdout:
        if b'"approval"' in line:
            break
    inbox = await typed("inbox", "--json")
    assert (run, "ok") in [(each["run"], each["call"]["id"]) for each in inbox.json()["waiting"] if each["call"]]
    approved = await typed("approve", run, "ok", "--by", "Ann", "--reason", "fine")
    assert (approved.code, approved.out) == (0, "approved ok\n")
    await watching.communicate()
    assert (watching.returncode, lines(book)) == (0, ["a", "c"])
    state = (await typed("pipeline", "state", run, "--json")).json()["state"]
    assert [step["status"] for step in state["steps"]] == ["done", "done", "done"]
    journal = await typed("pipeline", "journal", run)
    assert "ok done by Ann: fine" in journal.out
    assert any(each["id"] == run for each in (await typed("pipeline", "list", "--json")).json())


async def test_a_failure_says_what_could_not_be_undone_and_a_rerun_mends_it(typed: Starter, tmp_path: Path) -> None:
    """Exit code 6; the rerun goes on with what was there."""
    file, book = tmp_path / "tested.yaml", tmp_path / "book"
    file.write_text(FILE)
    (tmp_path / "undo a.fails").touch()
    run = f"cli-{tmp_path.name}"
    await typed("pipeline", "start", str(file), "-i", f"book={book}", "--id", run)
    watching = await typed.begin("pipeline", "watch", run)
    assert watching.stdout is not None
    async for line in watching.stdout:
        if b"waits for approval" in line:
            break
    rejected = await typed("pipeline", "reject", run, "--reason", "no", "--json")
    assert rejected.json()["said"] == "rejected ok"
    out, _ = await watching.communicate()
    assert watching.returncode == 6
    assert b"a could NOT be undone, it is still there: undo a can't be written" in out
    refused = await typed("pipeline", "rerun", run, "--from", "ok", "--json")
    assert (refused.code, refused.error()["message"]) == (2, "a comes before ok and is undo failed: rerun from a")
    again = await typed("pipeline", "rerun", run, "--from", "a", "--json")
    assert again.json()["id"] == f"{run}-from-a"
    await typed("pipeline", "cancel", f"{run}-from-a")


async def test_wrong_inputs_and_files_start_nothing(typed: Starter, tmp_path: Path) -> None:
    """Each with what to do."""
    file = tmp_path / "tested.yaml"
    file.write_text(FILE)
    for arguments, said in (
        ((str(file),), "input book is missing; give it with --input book=VALUE"),
        ((str(file), "-i", "bok=x"), "--input 'bok=x' names no input; write NAME=VALUE; inputs: book, last"),
        ((str(file), "-i", "book=@nothing"), "--input book: there is no file 'nothing'; check the path"),
        (("nothing",), "there is no pipeline 'nothing'"),
    ):
        refused = await typed("pipeline", "start", *arguments, "--json")
        assert refused.code == 2
        assert said in refused.error()["message"]
    assert (await typed("pipeline", "state", "nobody", "--json")).code == 4
    shown = await typed("pipeline", "show", str(file), "--mermaid")
    assert shown.out.startswith("flowchart TD\n")


async def test_the_report_that_ships_can_be_tried_with_scripts(typed: Starter, tmp_path: Path) -> None:
    """As its page says; each step has its own."""
    models = [f"--model={step}=script:{Path('pipelines/report').resolve()}/{step}.yaml" for step in ("plan", "look")]
    models += [
        f"--model={step}=script:{Path('pipelines/report').resolve()}/{step}.yaml" for step in ("analyze", "write")
    ]
    agents = typed.having(PERDURE_AGENTS_DIR=str(Path("agents").resolve()))
    refused = await agents.having()("pipeline", "start", "report", "-i", "topic=Bees", "--model", "publish=x", "--json")
    assert "'publish' is no step of an agent; there are: plan, look, analyze, write" in refused.error()["message"]
    started = await agents("pipeline", "start", "report", "-i", "topic=Bees", *models, "--id", f"cli-{tmp_path.name}")
    assert (started.code, started.err.count("Traceback")) == (0, 0)
    await agents("pipeline", "cancel", f"cli-{tmp_path.name}")
