"""Sub-agents from the command line: an agent's file names them, and the tree is drawn."""

import json
from pathlib import Path

from temporalio.client import Client

from core.chat import ChatReply, ChatRequest
from core.ports import OnText
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, calls, says, worker_for
from tests.starter.commands import Starter

LEAD = """\
---
name: lead
description: Leads.
tools: [delegate]
agents: [publisher]
---
Hand the task on.
"""


async def test_a_team_is_started_by_the_name_of_its_lead_and_drawn(
    client: Client, own: Settings, blobs: S3BlobStore, starter: Starter, agents_dir: Path
) -> None:
    """What waits below is shown with the command to type, decided there, and the tree says who used what."""
    (agents_dir / "lead.md").write_text(LEAD, encoding="utf-8")
    hand = calls(("delegate", '{"agent": "publisher", "task": "Publish."}'))

    publisher = FakeModel([calls(("publish", '{"title": "One", "text": "t"}')), says("It is out.")])
    lead = FakeModel([hand, says("Handed on.")])

    class Team(FakeModel):
        async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
            asked = lead if request.tools[0].name == "delegate" else publisher
            return await asked.reply(request, on_text)

    async with worker_for(client, own, blobs, Team([])) as running:
        env = {**starter.environment, "PERDURE_TASK_QUEUE": running.settings.task_queue}
        team = Starter(env)
        started = await team("start", "lead", "See to it.", "--id", f"lead-{running.settings.task_queue}", "--json")
        run = json.loads(started.out)["id"]
        handle = running.client.get_workflow_handle(run)
        await running.until(handle, lambda state: bool(state.pending), "it waits below")
        shown = await team("state", run)
        below = f"{run}.t1c1"
        assert f"python starter.py approve {run} {below}/t1c1" in shown.out
        assert f"asked by publisher in the run {below} below" in shown.out
        passed = await team("approve", run, f"{below}/t1c1")
        assert (passed.code, "passed on to the run below" in passed.out) == (0, True)
        assert (await team("result", run)).out == "Handed on.\n"
        drawn = (await team("tree", run)).out.splitlines()
        assert [line.split("  ")[0] for line in drawn] == [run, f"└── {below}"]
        assert "publisher: Publish.  (2 turns, 20 tokens in, 7 out" in drawn[1]
        assert "(2 turns, 40 tokens in, 14 out" in drawn[0]
        tree = (await team("tree", run, "--json")).json()
        assert (tree["phase"], tree["below"][0]["phase"]) == ("completed", "completed")
        broken = LEAD.replace("[publisher]", "[nobody]")
        (agents_dir / "lead.md").write_text(broken, encoding="utf-8")
        refused = await team("start", "lead", "See to it.")
        assert (refused.code, "there is no agent 'nobody'" in refused.err) == (2, True)
