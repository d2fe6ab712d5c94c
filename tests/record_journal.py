"""Write a journal with every kind of entry, its manifest and a workflow state, as the current version stores them.

`python -m tests.record_journal` writes `tests/data/journal-vN-VERSION`: once for each version, before it is released.
What an earlier version wrote stays as it is, and every later one must read it.
"""

import asyncio
import tomllib
from datetime import timedelta
from functools import reduce
from pathlib import Path

from core.chat import Usage
from core.content import Content, inline
from core.entries import (
    Answered,
    ApprovalRequested,
    Closed,
    Compacted,
    Decided,
    Delegated,
    Edited,
    Entry,
    Expired,
    Forked,
    Forwarded,
    Messaged,
    Paused,
    Raised,
    Refused,
    Reminded,
    Replied,
    Resumed,
    Revoked,
    RunRef,
    Settled,
    Switched,
    Told,
    Unsettled,
)
from core.fold import apply
from core.journal import Head, Journal, JournalCache
from core.migrations import CURRENT
from core.runs import Manifest, RunResult
from core.state import RunState
from tests.entries import NOW, RUN, artifact, call, finished, started
from tests.fakes import MemoryBlobStore

DATA = Path(__file__).parent / "data"
WAITS = 2
"""The commit after which a call waits for a person: the state of then is recorded."""
USAGE = Usage(input_tokens=1200, output_tokens=34, cost_usd=0.0125)


def commits() -> list[list[Entry]]:
    """Return entries of every kind with all their fields, in commits."""
    origin = RunRef(scope="run-1", workflow_id="origin", run_id="0196")
    asks = Replied(
        at=NOW + timedelta(seconds=3),
        turn=1,
        text=inline("I look and publish."),
        calls=(call("t1c1", "look", '{"at": "Größe"}'), call("t1c2", "publish", "{", problem="no JSON")),
        usage=USAGE,
        stop_reason="tool_calls",
        model="script:test.yaml",
        native=inline('{"parts": []}'),
        seconds=2.5,
        prompt_tokens=1200,
    )
    forked = Forked(
        **started("Count the birds.", (artifact(1),)).model_dump(exclude={"kind", "turn"}),
        turn=2,
        origin=origin,
        origin_turn=2,
    )
    made = finished("t1c1").model_copy(update={"content": Content(artifact=artifact(2)), "artifacts": (artifact(2),)})
    return [
        [started("Count the birds.", (artifact(1),))],
        [asks, ApprovalRequested(at=NOW, turn=1, call_id="t1c1", tool="look")],
        [
            Reminded(at=NOW, turn=1, call_id="t1c1", tool="look", remind_at=NOW + timedelta(hours=1)),
            Expired(at=NOW, turn=1, call_id="t1c1", tool="look", escalate_to=("eve",)),
            Answered(at=NOW, turn=1, call_id="t1c9", text=inline("blue"), by="ana"),
            ApprovalRequested(
                at=NOW,
                turn=1,
                call_id="t1c1",
                tool="look",
                digest="d" * 64,
                reason="it is far",
                risk="low",
                approvers=("eve",),
                excluded=("ben",),
                needed=1,
                expires_at=NOW + timedelta(hours=2),
                remind_at=NOW + timedelta(hours=1),
                escalated=True,
            ),
        ],
        [
            Delegated(
                at=NOW,
                turn=1,
                call_id="t1c2",
                agent="researcher",
                to="run-1.t1c2",
                task="Look.",
                tokens=500,
                cost_usd=0.5,
            ),
            Forwarded(
                at=NOW, turn=1, act="approve", to="below", target="t1c1", by="ana", said=inline('{"id": "t1c1"}')
            ),
            Edited(at=NOW, turn=1, call_id="t1c1", arguments=inline("{}"), by="eve", reason="so", digest="d" * 64),
            Decided(
                at=NOW,
                turn=1,
                call_id="t1c1",
                approved=True,
                by="eve",
                digest="e" * 64,
                call=call("t1c1", "look", "{}"),
                signature="c2ln",
            ),
            Revoked(at=NOW, turn=1, call_id="t1c1", by="eve", reason="wait"),
            Decided(at=NOW, turn=1, call_id="t1c1", approved=True, by="eve", scope="run", only={"at": "G*"}),
            Refused(at=NOW, turn=1, act="approve", why="they do not fit", call_id="t1c1"),
        ],
        [Decided(at=NOW, turn=1, call_id="t1c1", approved=True, by="eve", reason="fine", scope="run", digest="d" * 64)],
        [made, finished("t1c2", "Not run: no JSON", failed=True, tool="publish")],
        [
            Unsettled(at=NOW, turn=1, call_id="t1c2", tool="publish", why="its worker died", asks=True),
            Settled(
                at=NOW,
                turn=1,
                call_id="t1c2",
                settlement="done",
                by="ana",
                reason="it is online",
                content=inline("published"),
                artifacts=(artifact(3),),
            ),
        ],
        [Refused(at=NOW, turn=1, act="approve", why="nothing waits"), Told(at=NOW, turn=1, text="Answer the task.")],
        [Paused(at=NOW, turn=1, cause="limit", why="limit of 1 turns reached"), Resumed(at=NOW, turn=1, by="ana")],
        [
            Switched(at=NOW, turn=1, model="script:other.yaml", failed="script:test.yaml", why="no key"),
            Resumed(at=NOW, turn=1, by="ana", model="script:test.yaml"),
        ],
        [Raised(at=NOW, turn=1, by="ana", turns=5, tokens=1000, cost_usd=0.5)],
        [Compacted(at=NOW, turn=1, summary=inline("Seen."), keep_from=3, usage=USAGE, prompt_tokens=300)],
        [asks.model_copy(update={"turn": 2, "calls": (), "text": inline("Ten."), "stop_reason": "end"})],
        [forked, Messaged(at=NOW, turn=2, by="ana", text=inline("Count again."))],
        [Closed(at=NOW + timedelta(minutes=1), turn=2, outcome="completed", reason="")],
    ]


async def record(folder: Path) -> None:
    """Write the nodes under their hashes, `manifest.json` and `state.json`."""
    blobs, head = MemoryBlobStore(), None
    journal = Journal(blobs, RUN.scope, JournalCache(0))
    state = RunState()
    for commit in commits():
        head = await journal.append(head, commit)
        if head.number <= WAITS:
            state = reduce(apply, commit, state.model_copy(update={"head": head}))
    assert isinstance(head, Head)
    folder.mkdir(parents=True, exist_ok=True)
    for key, blob in blobs.blobs.items():
        (folder / f"{key.rsplit('/', 1)[-1]}.json").write_bytes(blob.body)
    result = RunResult(outcome="completed", text=inline("Ten."), turns=2, calls={"look": 1}, usage=USAGE, head=head)
    manifest = Manifest(run=RUN, agent="analyst", head=head, result=result, closed_at=NOW + timedelta(minutes=1))
    (folder / "manifest.json").write_text(manifest.model_dump_json(), encoding="utf-8")
    (folder / "state.json").write_text(state.model_dump_json(), encoding="utf-8")


if __name__ == "__main__":
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    asyncio.run(record(DATA / f"journal-v{CURRENT['node']}-{version}"))
