"""The README's code for deciding from another service is run as it stands there, but for addresses and names."""

import ast
import inspect
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from temporalio.client import WorkflowUpdateFailedError

from core.asking import Asking
from infra.signing_keys import public_key
from tests.running import FakeModel, Running, calls, says
from tests.waiting import wait_until

README = Path(__file__).parents[2] / "README.md"


def block(word: str) -> str:
    """The README's one Python block in which this stands."""
    (found,) = (
        each
        for each in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        if word in each
    )
    return str(found)


async def run_code(code: str, names: dict[str, Any], replaced: dict[str, str]) -> None:
    """Run a block whose `await`s stand at its top."""
    for old, new in replaced.items():
        assert old in code
        code = code.replace(old, new)
    outcome = eval(compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(outcome):
        await outcome


async def decide_on_all(running: Running, run_id: str, names: dict[str, Any]) -> None:
    """Run the README's first block for this run, as soon as Temporal's list has it."""
    query = f"AgentPhase = 'awaiting_approval' AND WorkflowId = '{run_id}'"

    async def listed() -> bool:
        return (await running.client.count_workflows(query)).count == 1

    await wait_until(listed, timeout=timedelta(seconds=60), description="the run is listed")
    here = {"127.0.0.1:7233": running.client.service_client.config.target_host}
    await run_code(block('"AgentPhase ='), names, {**here, "AgentPhase = 'awaiting_approval'": query})


async def test_another_service_decides_on_all_that_waits(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """All of it, in ten lines."""
    arguments = json.dumps({"path": str(tmp_path / "a"), "text": "hello"})
    model.replies = [calls(("note", arguments), ("note", arguments)), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": "ask"})
    await decide_on_all(running, handle.id, {})
    assert (await running.result(handle)).calls == {"note": 2}


async def test_another_service_signs_what_it_decides(running: Running, model: FakeModel, tmp_path: Path) -> None:
    """Where only signed decisions count, the unsigned one of before is refused."""
    key = Ed25519PrivateKey.generate()
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    model.replies = [calls(("note", json.dumps({"path": str(tmp_path / "a"), "text": "hello"}))), says("Done.")]
    handle = await running.start(tools=["note"], approval={"note": Asking(keys={"ana": public_key(key)})})
    names: dict[str, Any] = {}
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await decide_on_all(running, handle.id, names)
    assert "only signed decisions on t1c1 count" in str(refused.value.cause)
    await run_code(block("signed_bytes(subject"), names, {"ana.pem": str(pem)})
    assert (await running.result(handle)).calls == {"note": 1}
