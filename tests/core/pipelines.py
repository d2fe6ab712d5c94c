"""Random pipelines, and a simulated world that runs them: what the rules want is done, well or badly, by a seed."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from core.agents import Limits
from core.call_entries import Decided, Settled
from core.content import inline
from core.entries import RunRef, ToolFinished
from core.failures import Failure
from core.journal import Head
from core.pipelines import calls, fold, given, steps
from core.pipelines.entries import Began, Ended, Opened, PipelineEntry, Undone
from core.pipelines.file import PipelineFile
from core.pipelines.plan import Plan
from core.pipelines.runs import PipelineSpec, Selected
from core.pipelines.state import AGENT, GATE, PipelineState
from core.runs import RunSpec
from core.settlement import unsettled
from core.tools import Call, Effect, ToolPolicy

RUN = RunRef(scope="s", workflow_id="w", run_id="r")
START = datetime(2026, 1, 1, tzinfo=UTC)


def tool_policy(name: str, effect: Effect = "write") -> ToolPolicy:
    """A tool's policy."""
    return ToolPolicy(name=name, effect=effect, timeout=timedelta(seconds=5), approval="auto")


SPEC = RunSpec(
    run=RUN,
    agent="pipeline",
    model="offline",
    limits=Limits(),
    tools=(tool_policy("push"), tool_policy("pull")),
    opening=Head(number=1, sha256="0" * 64),
    heartbeat_timeout=timedelta(seconds=5),
)


def made(*listed: dict[str, Any], **more: Any) -> PipelineFile:
    """A pipeline of these steps."""
    return PipelineFile.model_validate({"name": "tested", "description": "Tested.", "steps": listed, **more})


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"id": name, "kind": "tool", "tool": "push", **more}


def random_pipeline(seed: int) -> PipelineFile:
    """A pipeline of any shape."""
    random, names = Random(seed), iter(f"s{number}" for number in range(1000))
    listed = [_random_step(random, names, 0) for _ in range(random.randint(1, 5))]
    for number, step in enumerate(listed):
        if random.random() < 0.4:
            step["needs"] = [each["id"] for each in listed[:number] if random.random() < 0.5]
    policy = random.choice(["stop", "continue", "compensate"])
    return made(*listed, on_failure=policy)


def _random_step(random: Random, names: Any, depth: int) -> dict[str, Any]:
    kind = random.choice(["agent", "tool", "tool", "gate"] + (["for_each", "parallel"] if depth < 2 else []))
    step: dict[str, Any] = {"id": next(names), "kind": kind}
    if random.random() < 0.3:
        step["on_failure"] = random.choice(["stop", "continue", "compensate"])
    if kind == "agent":
        step |= {"agent": "analyst", "task": "look"}
    if kind == "tool":
        step |= {"tool": "push"}
    if kind in {"agent", "tool"} and random.random() < 0.5:
        step["undo"] = {"tool": "pull", "retry": {"attempts": random.randint(1, 2)}}
    if kind in {"agent", "tool"} and random.random() < 0.3:
        step["retry"] = {"attempts": random.randint(2, 3), "wait": random.randint(0, 60)}
    if kind == "gate":
        step |= {"ask": "well?", "approval": {"expires": 3600} if random.random() < 0.3 else {}}
    if kind in {"for_each", "parallel"}:
        step["at_once"] = random.randint(1, 3)
        step["steps"] = [_random_step(random, names, depth + 1) for _ in range(random.randint(1, 3))]
    if kind == "for_each":
        step["items"] = "inputs.items"
    return step


@dataclass
class World:
    """Runs one pipeline. `bad` is how likely each thing goes wrong."""

    pipeline: PipelineFile
    seed: int
    bad: float = 0.15
    state: PipelineState = field(default_factory=PipelineState)
    now: datetime = START
    entries: list[PipelineEntry] = field(default_factory=list)
    begun: Counter[str] = field(default_factory=Counter)
    undone: list[str] = field(default_factory=list)
    under_way: dict[str, str] = field(default_factory=dict)
    most_at_once: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Open it."""
        self.random = Random(self.seed)
        self.plan = Plan(self.pipeline)
        self.spec = PipelineSpec(run=RUN, pipeline=self.pipeline, inputs=inline("{}"), tools=SPEC)
        self.apply(Opened(at=self.now, run=RUN, pipeline=self.pipeline, inputs=inline("{}")))

    def apply(self, entry: PipelineEntry) -> None:
        """Take in an entry, and what follows from it."""
        self.entries.append(entry)
        self.state = fold.apply(self.state, entry)
        if isinstance(entry, Ended) and (ending := steps.after(self.plan, self.state, entry)) is not None:
            self.apply(ending)

    def run(self, most: int = 5000) -> steps.Finish:
        """Run it to its end."""
        for _ in range(most):
            for do in steps.next_steps(self.plan, SPEC, self.state, self.now):
                if isinstance(do, steps.Finish):
                    return do
                self.carry_out(do)
            for group in self.pipeline.steps:
                self.most_at_once[group.id] = max(
                    self.most_at_once[group.id], sum(key.startswith(f"{group.id}") for key in self.under_way)
                )
        raise AssertionError(f"no end after {most} rounds: {self.state.recent}")

    def carry_out(self, do: steps.Do) -> None:
        """Do what the rules want."""
        match do:
            case calls.Record(entry=entry):
                self.apply(entry)
            case steps.Prepare(key=key, undo=undo):
                self.prepare(key, undo=undo)
            case calls.Begin(key=key, undo=undo):
                run = self.state.runs[key]
                assert run.open is not None
                assert run.open.call.name != GATE
                if undo:
                    self.undone.append(key)
                else:
                    assert self.state.ending is None, "nothing begins after the end was decided on"
                self.begun[run.open.call.id] += 1
                self.under_way[key] = run.open.call.id
                self.apply(calls.begun(run, key, "", self.now))
            case calls.Verify(key=key):
                raise AssertionError(f"{key} can't be verified")
            case steps.Stop(key=key):
                self.state = fold.stopping(self.state, key)
            case steps.Commit():
                head = Head(number=1, sha256="0" * 64)
                self.state = fold.committed(self.state, head, len(self.state.tail), {})
            case steps.Wait(until=until):
                self.wait(until)

    def prepare(self, key: str, *, undo: bool) -> None:
        """Find out what a step is given."""
        self.state = fold.preparing(self.state, key, self.now, undo=undo)
        given.question(self.plan, self.spec, self.state, key, undo=undo)
        step = self.plan.step(key)
        found = Selected(given=inline("[]"), items=self.random.randint(0, 3) if step.kind == "for_each" else None)
        if step.kind == "tool" or undo:
            name = "pull" if undo else "push"
            found = Selected(call=Call(id=key, provider_id="", name=name, arguments=inline("{}")))
        if not undo and self.random.random() < self.bad / 2:
            found = self.random.choice([Selected(skipped=True), Selected(problem="finds nothing")])
        self.apply(given.prepared(self.plan, key, found, self.now, undo=undo))

    def wait(self, until: datetime | None) -> None:
        """Let something end, somebody decide, or time pass."""
        waiting = list(self.state.pending)
        if self.under_way and (not waiting or self.random.random() < 0.7):
            self.end(self.random.choice(list(self.under_way)))
        elif waiting and (until is None or self.random.random() < 0.8):
            self.decide(self.random.choice(waiting).call)
        else:
            assert until is not None, f"nothing goes on, and nothing ever will: {self.state.runs}"
            self.now = max(self.now, until)

    def end(self, key: str) -> None:
        """Let what runs end."""
        call_id = self.under_way.pop(key)
        run = self.state.runs[key]
        assert run.open is not None
        failed = run.stopping or self.random.random() < self.bad
        if failed and run.open.call.name != AGENT and self.random.random() < 0.3:
            failure = Failure(kind="TimedOut", text="gone")
            self.apply(unsettled(run.open.call, tool_policy(run.open.call.name), failure, self.now, 0))
            return
        result = ToolFinished(
            at=self.now, call_id=call_id, tool=run.open.call.name, content=inline("it is so"), failed=failed
        )
        self.apply(calls.finished(self.plan, self.state, key, result))

    def decide(self, call: Call) -> None:
        """Let a person decide."""
        opened = next(each for each in self.state.pending if each.call.id == call.id)
        if opened.status == "awaiting_settlement":
            settlement = self.random.choice(["done", "run_again", "give_up"])
            self.apply(Settled.model_validate({"at": self.now, "call_id": call.id, "settlement": settlement}))
        else:
            approved = self.random.random() > self.bad
            digest = opened.request.digest if opened.request else ""
            self.apply(Decided(at=self.now, call_id=call.id, approved=approved, by="ann", digest=digest))


def order_of_undo(world: World) -> list[tuple[str, int]]:
    """Return what was undone, in order, with when it had ended."""
    undone = [entry.step for entry in world.entries if isinstance(entry, Undone)]
    return [(key, world.state.runs[key].order) for key in undone]


def starts(world: World) -> list[str]:
    """Return what began, in order."""
    return [entry.step for entry in world.entries if isinstance(entry, Began) and not entry.undo]
