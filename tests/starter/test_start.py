"""Starting runs from the command line: what arrives, what is stored, and that an id starts one run only."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowInput, WorkflowHandle
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from core.agents import PinnedAgent
from core.content import INLINE_BYTES, inline
from core.runs import AgentInput
from core.scopes import artifact_key
from infra.launch import Shown, start_workflow
from infra.payloads import data_converter
from infra.runs import Runs
from infra.s3 import S3BlobStore
from infra.settings import Settings
from infra.temporal import ServerUnavailable
from tests.infra.large_file import MEBIBYTE, write_file
from tests.running import FakeModel, Running, says, worker_for
from tests.starter.commands import Starter


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had so far; 0 where the system does not tell, or it has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), default=0)


class LostAnswer(Interceptor):
    """A network that delivers a start and loses the answer."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - Temporal's name
        """Stand between the client and the network."""
        return _LosesAnswers(next)


class _LosesAnswers(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002 - as above
        await super().start_workflow(input)
        raise RPCError("Timeout expired", RPCStatusCode.DEADLINE_EXCEEDED, b"")


@pytest.fixture
async def answering(client: Client, own: Settings, blobs: S3BlobStore) -> AsyncIterator[Running]:
    """A worker whose model answers at once."""
    async with worker_for(client, own, blobs, FakeModel([says("Done.")])) as running:
        yield running


@pytest.fixture
def idle(starter: Starter) -> Starter:
    """A starter whose runs nobody works on."""
    return starter.having(PERDURE_TASK_QUEUE=f"idle-{uuid4().hex[:8]}")


async def start_input(client: Client, run: str) -> AgentInput:
    """Return what a run was started with, as the workflow reads it."""
    async for event in client.get_workflow_handle(run).fetch_history_events():
        payload = event.workflow_execution_started_event_attributes.input.payloads[0]
        assert payload.metadata["encoding"] == b"json/plain"
        return AgentInput.model_validate_json(RawValue(payload).payload.data)
    raise AssertionError(f"run {run} has no history")


async def test_a_run_is_started_followed_and_its_answer_printed(answering: Running, starter: Starter) -> None:
    """One command from the task to the answer: the text on stdout, what it cost on stderr."""
    there = starter.having(PERDURE_TASK_QUEUE=answering.settings.task_queue)
    ended = await there("start", "publisher", "Say that you are done.", "--follow", "--model", "offline")
    assert ended.code == 0
    assert ended.out.splitlines()[0].startswith("started publisher-")
    assert ended.out.endswith("Done.\n")
    assert "1 turn, 0 tool calls, 10 tokens in, 2 out" in ended.err


async def test_what_is_started_is_what_was_ordered(
    idle: Starter, client: Client, blobs: S3BlobStore, settings: Settings, tmp_path: Path
) -> None:
    """Agent, task, attachments, model and timeouts arrive; texts and files lie in the run's scope."""
    first, second = tmp_path / "Größe 1.csv", tmp_path / "b" / "Größe 1.csv"
    second.parent.mkdir()
    first.write_text("a,b\n1,2\n", encoding="utf-8")
    second.write_text("a,b\n3,4\n", encoding="utf-8")
    run = f"ordered-{uuid4().hex[:8]}"
    attached = ["--attach", str(first), "--attach", str(second.parent / ".." / "b" / second.name)]
    task = f"Ä long task. {'x' * INLINE_BYTES}"
    script = tmp_path / "r.yaml"
    script.write_text("replies: []", encoding="utf-8")
    model = f"script:{script}"
    started = await idle("start", "publisher", "-", "--id", run, "--model", model, *attached, stdin=task.encode())
    assert started.code == 0
    start = await start_input(client, run)
    assert (start.agent.name, start.agent.tools, start.model) == ("publisher", ("publish",), model)
    assert start.heartbeat_timeout == settings.heartbeat_timeout
    assert start.search_attributes
    assert [ref.name for ref in start.attachments] == ["Größe 1.csv", "Größe 1-2.csv"]
    assert start.task.artifact is not None
    assert await blobs.get(artifact_key(run, start.task.artifact.sha256)) == task.encode()
    assert await blobs.get(artifact_key(run, start.attachments[1].sha256)) == second.read_bytes()
    description = await client.get_workflow_handle(run).describe()
    summary, details = await description.static_summary(), await description.static_details()
    assert summary is not None
    assert summary.startswith("publisher: Ä long task.")
    assert len(summary.encode()) <= 200
    assert f"python starter.py watch {run}" in (details or "")
    await client.get_workflow_handle(run).terminate()


async def test_the_same_id_attaches_and_stores_nothing(
    idle: Starter, client: Client, blobs: S3BlobStore, runs: Runs, tmp_path: Path
) -> None:
    """A second start under an id finds the first run, says so, and names what is different."""
    run = f"twice-{uuid4().hex[:8]}"
    first = await idle("start", "publisher", "The task.", "--id", run, "--json")
    file = tmp_path / "new.csv"
    file.write_text("a\n1\n", encoding="utf-8")
    second = await idle("start", "publisher", "Another task.", "--id", run, "--json", "--attach", str(file))
    assert (first.code, second.code) == (0, 0)
    assert second.json()["attached"]
    assert second.json()["run_id"] == first.json()["run_id"]
    assert "its task is another one (The task.)" in second.json()["note"]
    assert (first.err, second.err) == ("", "")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    assert await blobs.head(artifact_key(run, sha256)) is None
    again = await idle("start", "publisher", "The task.", "--id", run)
    assert again.err.splitlines()[0] == f"run {run} exists already (running); attached to it"
    await client.get_workflow_handle(run).terminate()
    retried = await idle("start", "publisher", "The task.", "--id", run, "--json")
    assert not retried.json()["attached"]
    assert (await runs.info(run)).run_id != first.json()["run_id"]
    await client.get_workflow_handle(run).terminate()


async def test_a_start_without_an_answer_names_the_run_that_may_have_been_started(
    client: Client, settings: Settings
) -> None:
    """Nobody knows what became of it; the id finds out, and starts nothing twice."""
    lossy = Client(client.service_client, data_converter=data_converter, interceptors=[LostAnswer()])
    idle, run = settings.model_copy(update={"task_queue": f"idle-{uuid4().hex[:8]}"}), f"lost-{uuid4().hex[:8]}"
    shown = Shown(id=run, agent="one", task="Do it.", task_sha256="", details="")
    agent = PinnedAgent(name="one", description="d", instructions=inline("Do it."))
    start = AgentInput(agent=agent, task=inline("Do it."))
    with pytest.raises(ServerUnavailable, match=rf"Run {run} may have been started.*state {run}.*--id {run}"):
        await start_workflow(Runs(lossy), idle, shown, start)
    assert (await start_workflow(Runs(client), idle, shown, start)).attached
    await client.get_workflow_handle(run).terminate()


async def test_runs_are_listed_with_agent_task_and_phase(idle: Starter, answering: Running, client: Client) -> None:
    """Runs of each phase are found under it, and only there."""
    there = idle.having(PERDURE_TASK_QUEUE=answering.settings.task_queue)
    done, waits = f"done-{uuid4().hex[:8]}", f"waits-{uuid4().hex[:8]}"
    await idle("start", "publisher", "Wait for ever.", "--id", waits)
    await there("start", "publisher", "End.", "--id", done, "--follow")

    async def listed(*options: str) -> dict[str, str]:
        found = await idle("list", "--json", "--limit", "200", *options)
        return {info["id"]: info["task"] for info in found.json()}

    everything, running, completed = (
        await listed(),
        await listed("--phase", "running"),
        await listed("--phase", "completed"),
    )
    assert everything[done] == completed[done] == "End."
    assert everything[waits] == running[waits] == "Wait for ever."
    assert done not in running
    assert waits not in completed
    table = (await idle("list", "--limit", "200")).out
    assert any(line.split()[:3] == [waits, "running", "publisher"] for line in table.splitlines())
    await client.get_workflow_handle(waits).terminate()


async def test_a_large_attachment_is_stored_in_constant_memory(idle: Starter, client: Client, tmp_path: Path) -> None:
    """200 MB take no more memory than a few parts of them, and come back as they were."""
    file = tmp_path / "large.bin"
    sha256 = write_file(file)
    run = f"large-{uuid4().hex[:8]}"
    process = await idle.begin("start", "publisher", "Look.", "--id", run, "--attach", str(file), "--json")
    ending = asyncio.create_task(process.communicate())
    peak_bytes = 0
    while not ending.done():
        peak_bytes = max(peak_bytes, peak_of(process.pid))
        await asyncio.wait([ending], timeout=0.05)
    assert process.returncode == 0
    assert peak_bytes < 300 * MEBIBYTE
    copy = tmp_path / "copy.bin"
    fetched = await idle("artifact", "get", run, f"a:{sha256[:12]}", "-o", str(copy), "--json")
    assert fetched.json()["file"] == str(copy)
    with copy.open("rb") as stored:
        assert hashlib.file_digest(stored, "sha256").hexdigest() == sha256
    await client.get_workflow_handle(run).terminate()


async def test_an_artifact_is_fetched_to_stdout_a_file_or_a_folder(
    idle: Starter, client: Client, tmp_path: Path
) -> None:
    """Its bytes come out unchanged, under its own name in a folder; an unknown handle is no crash."""
    file = tmp_path / "some data.csv"
    file.write_text("a\nä\n", encoding="utf-8")
    run = f"fetched-{uuid4().hex[:8]}"
    await idle("start", "publisher", "Look.", "--id", run, "--attach", str(file))
    handle = (await start_input(client, run)).attachments[0].handle
    assert (await idle("artifact", "get", run, handle)).out == "a\nä\n"
    folder = tmp_path / "out"
    folder.mkdir()
    assert (await idle("artifact", "get", run, handle, "-o", str(folder))).code == 0
    assert (folder / "some data.csv").read_bytes() == file.read_bytes()
    assert (await idle("artifact", "get", run, handle, "-o", str(tmp_path / "none" / "file"))).code == 2
    assert (await idle("artifact", "get", run, "a:000000000000")).code == 4
    assert (await idle("artifact", "get", run, "nonsense")).code == 2
    await client.get_workflow_handle(run).terminate()


async def test_a_result_is_written_whole(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter, tmp_path: Path
) -> None:
    """An answer that is an artifact is fetched: to stdout, into a file, into the JSON document."""
    answer = "A long answer. " * 1000
    async with worker_for(client, own, blobs, FakeModel([says(answer)])) as running:
        handle = await running.start()
        assert (await starter("result", handle.id)).out == f"{answer}\n"
        target = tmp_path / "answer.md"
        assert (await starter("result", handle.id, "-o", str(target))).out == ""
        assert target.read_text(encoding="utf-8") == answer
        document = (await starter("result", handle.id, "--json")).json()
        assert document["text"] == answer
        assert json.dumps(document["result"]["text"]["artifact"]["sha256"])
