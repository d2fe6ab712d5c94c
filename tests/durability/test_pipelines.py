"""The pipelines that ship, on real local work, with a worker that is killed in the middle."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from core.agents import PinnedAgent
from core.content import inline
from core.pipelines.file import PipelineFile
from core.pipelines.runs import PipelineResult
from infra.pipeline_files import agents_of, read_pipeline
from infra.stack import LocalStack
from tests.durability.scripts import script
from tests.durability.workers import worker_process
from tests.piping import entries, result, start, state, statuses, until
from tests.running import Running
from tests.waiting import wait_until

PATIENCE = timedelta(seconds=90)
MACHINE = Path("pipelines/deploy/machine.py").resolve()
SERVICES = ["web", "api", "mail", "search", "billing"]


def shipped(name: str) -> tuple[PipelineFile, dict[str, PinnedAgent]]:
    """A pipeline that ships, with its agents."""
    path = Path(f"pipelines/{name}.yaml")
    pipeline = read_pipeline(path)
    agents = {
        name: PinnedAgent.model_validate(
            {**agent.model_dump(exclude={"instructions"}), "instructions": inline(agent.instructions)}
        )
        for name, agent in agents_of(pipeline, path, Path("agents")).items()
    }
    return pipeline, agents


def scripted(agents: Mapping[str, PinnedAgent], model: str) -> dict[str, PinnedAgent]:
    """The agents, with this model."""
    return {name: agent.model_copy(update={"model": model}) for name, agent in agents.items()}


async def killed(worker: asyncio.subprocess.Process) -> None:
    """Kill -9."""
    worker.send_signal(signal.SIGKILL)
    await worker.wait()


async def test_a_report_is_researched_in_parallel_and_published_when_a_person_says_so(
    stack: LocalStack, running: Running, tmp_path: Path
) -> None:
    """The worker dies while three agents research: each question is answered once all the same."""
    pipeline, agents = shipped("report")
    model = script(tmp_path, {"text": '{"questions": ["one", "two", "three"]}', "delay_seconds": 1})
    handle = await start(running, pipeline, {"topic": "bees"}, agents=scripted(agents, model))
    queue = running.settings.task_queue
    async with worker_process(stack, queue, tmp_path) as first:
        await until(handle, lambda view: statuses(view).get("look.2") == "running", "three agents are at work")
        await killed(first)
    async with worker_process(stack, queue, tmp_path):
        await until(handle, lambda view: view.phase == "awaiting_approval", "the report waits")
        await handle.signal("approve", {"by": "ann"})
        ended = await result(handle)
        record = await entries(running, await state(handle))
    assert ended.outcome == "completed"
    assert [step.artifacts[0].name for key, step in ended.steps.items() if key == "publish"] == ["bees.md"]
    assert {key for key in ended.steps if key.startswith("look")} == {"look.0", "look.1", "look.2"}
    assert sum(entry.kind == "began" and entry.step == "look.1" for entry in record) == 1


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Path]:
    """A machine in miniature, with version v1 of all services in production."""
    folder = tmp_path / "machine"
    keeper = await asyncio.create_subprocess_exec(sys.executable, str(MACHINE), "serve", str(folder))
    await wait_until((folder / "keeper").exists, PATIENCE, "the keeper is there")
    for service in SERVICES:
        _run("build", folder, service, "v1")
        _run("push", folder, service, "v1")
        _run("deploy", folder, "production", service, "v1")
    yield folder
    keeper.terminate()
    await keeper.wait()


def _run(command: str, folder: Path, *words: str) -> str:
    words = (sys.executable, str(MACHINE), command, str(folder), *words)
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def in_use(folder: Path) -> dict[str, str]:
    """Which version of what is in use where."""
    return {place: found["version"] for place, found in json.loads(_run("list", folder)).items()}


def deploys(folder: Path) -> dict[str, object]:
    """The inputs of a deployment of v2."""
    commands = {name: [sys.executable, str(MACHINE), name] for name in ("build", "push", "deploy", "rollback", "check")}
    return {"version": "v2", "machine": str(folder), **commands}


async def test_a_deployment_goes_through_although_its_worker_dies_in_production(
    stack: LocalStack, running: Running, tmp_path: Path, machine: Path
) -> None:
    """The command whose end nobody saw is put to a person; nothing else runs again."""
    pipeline, _ = shipped("deploy")
    handle = await start(running, pipeline, deploys(machine))
    queue = running.settings.task_queue
    async with worker_process(stack, queue, tmp_path) as first:
        await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
        assert in_use(machine) == {
            **{f"production/{name}": "v1" for name in SERVICES},
            **{f"test/{name}": "v2" for name in SERVICES},
        }
        (machine / "hold-deploy-api").touch()
        await handle.signal("approve", {"by": "ann"})
        await wait_until((machine / "held-deploy-api").exists, PATIENCE, "the second service is deployed")
        await killed(first)
    (machine / "hold-deploy-api").unlink()
    async with worker_process(stack, queue, tmp_path):
        asked = await until(handle, lambda view: bool(view.pending), "a person is asked")
        assert (asked.pending[0].id, "worker died" in asked.pending[0].doubt) == ("to_production.1", True)
        await handle.signal("settle", {"settlement": "run_again", "by": "ann"})
        ended = await result(handle)
    assert ended.outcome == "completed"
    assert ended.output == inline("5 services answer in production as v2")
    assert set(in_use(machine).values()) == {"v2"}


async def test_a_failed_deployment_is_rolled_back_although_its_worker_dies_in_the_rollback(
    stack: LocalStack, running: Running, tmp_path: Path, machine: Path
) -> None:
    """A port is taken in production: what was switched over is switched back, the last first."""
    pipeline, _ = shipped("deploy")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (machine / "port-production-mail").write_text(str(taken.getsockname()[1]))
        handle = await start(running, pipeline, deploys(machine))
        queue = running.settings.task_queue
        (machine / "hold-rollback-api").touch()
        async with worker_process(stack, queue, tmp_path) as first:
            await until(handle, lambda view: view.phase == "awaiting_approval", "the gate is asked")
            await handle.signal("approve", {"by": "ann"})
            await wait_until((machine / "held-rollback-api").exists, PATIENCE, "it is rolled back")
            assert in_use(machine)["production/web"] == "v2"
            await killed(first)
        (machine / "hold-rollback-api").unlink()
        async with worker_process(stack, queue, tmp_path):
            asked = await until(handle, lambda view: bool(view.pending), "a person is asked")
            assert asked.pending[0].id == "to_production.1-undo"
            await handle.signal("settle", {"settlement": "run_again", "by": "ann"})
            with pytest.raises(WorkflowFailureError) as caught:
                await result(handle)
    assert isinstance(caught.value.cause, ApplicationError)
    ended = PipelineResult.model_validate(caught.value.cause.details[0])
    assert "is taken by another process" in ended.reason
    assert ended.undo_failed == ()
    assert in_use(machine) == {f"production/{name}": "v1" for name in SERVICES}


async def test_a_service_that_never_becomes_healthy_is_stopped_and_all_is_rolled_back(
    stack: LocalStack, running: Running, tmp_path: Path, machine: Path
) -> None:
    """Production never hears of it."""
    pipeline, _ = shipped("deploy")
    (machine / "broken-api-v2").touch()
    handle = await start(running, pipeline, deploys(machine))
    async with worker_process(stack, running.settings.task_queue, tmp_path):
        with pytest.raises(WorkflowFailureError) as caught:
            await result(handle)
        assert statuses(await state(handle))["to_test.0"] == "undone"
    assert "api v2 in test did not become healthy within 5 s; stopped it" in str(caught.value.cause)
    assert in_use(machine) == {f"production/{name}": "v1" for name in SERVICES}


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    return subprocess.run(["git", *identity, *words], check=True, cwd=folder, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with three branches, each with a file of its own."""
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("hello\n")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "begin")
    _git(folder, "config", "user.name", "Ann")
    _git(folder, "config", "user.email", "ann@example.org")
    for branch in ("one", "two", "three"):
        _git(folder, "checkout", "-q", "-b", branch, "main")
        (folder / branch).write_text(f"{branch}\n")
        _git(folder, "add", ".")
        _git(folder, "commit", "-q", "-m", f"add {branch}")
    _git(folder, "checkout", "-q", "main")
    return folder


async def test_changes_are_reviewed_decided_one_by_one_and_the_accepted_ones_merged(
    stack: LocalStack, running: Running, tmp_path: Path, repository: Path
) -> None:
    """The worker dies between the decisions; what was decided stays decided."""
    pipeline, agents = shipped("review")
    model = script(tmp_path, {"text": "merge\nIt adds a file."})
    inputs = {"repository": str(repository), "branches": ["one", "two", "three"]}
    handle = await start(running, pipeline, inputs, agents=scripted(agents, model))
    queue = running.settings.task_queue
    async with worker_process(stack, queue, tmp_path) as first:
        asked = await until(handle, lambda view: len(view.pending) == 3, "all three wait")
        shown = json.loads(next(call.arguments.text or "" for call in asked.pending if call.id == "decide.1"))
        assert shown["branch"] == "two"
        assert "+two" in shown["diff"]
        await handle.signal("reject", {"id": "decide.1", "by": "ann", "reason": "not needed"})
        await until(handle, lambda view: statuses(view)["decide.1"] == "rejected", "one is rejected")
        await killed(first)
    async with worker_process(stack, queue, tmp_path):
        for number in (0, 2):
            await handle.signal("approve", {"id": f"decide.{number}", "by": "ann"})
        ended = await result(handle)
    assert ended.outcome == "completed"
    assert sorted(path.name for path in repository.iterdir() if path.name != ".git") == ["README", "one", "three"]
