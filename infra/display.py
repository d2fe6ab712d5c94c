"""What a person sees of runs in a terminal, and what a script reads: Rich for one, JSON for the other.

With `--json`, stdout has one JSON document (or, while following, one JSON object a line) and nothing else. What models,
tools and files say is shown as data: control characters and those that turn the direction of writing are made
visible, and it stands behind a bar, so that it can't pass for a line of ours.
"""

import json
import shlex
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from core.agents import AgentFile
from core.chat import Usage
from core.content import Content, clean, one_line
from core.pending import PendingCall
from core.runs import RunResult
from core.shapes import counted
from core.view import StateView
from core.waiting import conditions
from infra.inbox import Inbox
from infra.runs import Ending, RunInfo

PIPE_COLUMNS = 10_000
"""Width where no terminal says how wide it is: a row stays on its line."""

STYLES = {
    "running": "cyan",
    "awaiting_approval": "bold yellow",
    "paused": "bold yellow",
    "completed": "green",
    "failed": "bold red",
    "terminated": "bold red",
    "timed_out": "bold red",
    "cancelled": "magenta",
}
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}


class Display:
    """Where a command writes: results to `out`, everything else to `err`."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)
        self.on_interrupt = "interrupted; nothing was started"

    def document(self, value: Any, *, indent: int | None = 2) -> None:
        """Write a value as JSON: models, or mappings and lists of them."""
        sys.stdout.write(to_json(value, indent=indent, inf_nan_mode="null").decode() + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Tell the person something that is no result."""
        if not text:
            return
        with suppress(OSError):  # what stderr can't take must not cost the result
            if self.as_json:
                _print_error({"note": clean(text)})
            else:
                self.err.print(Text(printable(text), style="dim"))

    def error(self, kind: str, message: str, code: int) -> None:
        """Tell what went wrong."""
        with suppress(OSError):  # the exit code says it, too
            if self.as_json:
                _print_error({"error": {"kind": kind, "message": clean(message), "exit_code": code}})
            else:
                self.err.print(Text.assemble(("error: ", "bold red"), printable(message)))


def show_run(console: Console, info: RunInfo, state: StateView | None, ending: Ending | None) -> None:
    """Write all that is known of a run."""
    rows = Table.grid(padding=(0, 2))
    phase = state.phase if state is not None and ending is None else info.status
    for name, text in _facts(info, state, ending):
        rows.add_row(Text(name, style="dim"), Text(printable(text)))
    console.print(Text.assemble((printable(info.id), "bold"), "  ", (phase.replace("_", " "), STYLES.get(phase, ""))))
    console.print(rows)
    if info.trouble:
        console.print(Text(printable(info.trouble), style="bold red"))
    if state is None:
        return
    for call in state.pending:
        show_pending(console, info.id, call)
    if state.paused and ending is None:
        console.print(Text.assemble(("paused: ", "bold yellow"), printable(state.paused)))
        console.print(_command("resume", info.id))
        if "--model" in state.paused:
            console.print(_command("resume", info.id, "--model", "OTHER"))
    for text in state.recent:
        console.print(history_line(text))


def show_waiting(console: Console, inbox: Inbox) -> None:
    """Write what waits in each run, with what to type."""
    for waiting in inbox.waiting:
        console.print(Text(f"{printable(waiting.run)} ({printable(waiting.agent)})", style="bold"))
        if waiting.call is not None:
            show_pending(console, waiting.run, waiting.call)
        else:
            console.print(Text.assemble(("paused: ", "bold yellow"), printable(waiting.paused)))
            console.print(_command("resume", waiting.run))
    if not inbox.waiting:
        console.print(Text("nothing waits for people", style="dim"))


def show_pending(console: Console, run: str, call: PendingCall) -> None:
    """Write a call that waits for a person: what would run, exactly, and what to type."""
    since = f" since {call.asked_at:%Y-%m-%d %H:%M:%S} UTC" if call.asked_at else ""
    waits = "waits to be settled" if call.doubt else "waits for an answer" if call.question else "waits for approval"
    console.print(Text(f"{waits}: {printable(call.tool)} ({call.id}){since}", style="bold yellow"))
    for text in arguments_lines(call.arguments):
        console.print(Text(text))
    if call.arguments.artifact is not None:
        console.print(_command("artifact", "get", run, call.arguments.artifact.handle))
    for condition in conditions(call):
        console.print(Text(f"  {printable(condition)}", style="yellow"))
    if call.doubt:
        console.print(Text(f"It may or may not have taken effect: {printable(one_line(call.doubt, 600))}"))
        for way in ("--done", "--run-again", "--give-up"):
            console.print(_command("settle", run, call.id, way))
        return
    if call.question:
        console.print(Text.assemble(_command("answer", run), " '...'", f" {call.id}" if call.of else ""))
        return
    console.print(_command("approve", run, call.id))
    console.print(Text.assemble(_command("reject", run, call.id), " --reason '...'"))


def arguments_lines(arguments: Content) -> list[str]:
    """Write arguments for reading: each by its name, its value in full behind a bar."""
    text = arguments.shown()
    try:
        values = json.loads(text) if arguments.artifact is None else None
        if not isinstance(values, dict):
            return _barred(text)
        texts = {name: it if isinstance(it, str) else json.dumps(it, ensure_ascii=False) for name, it in values.items()}
    except (ValueError, RecursionError):
        return _barred(text)
    lines: list[str] = []
    for name, shown in texts.items():
        lines += [f"  {one_line(printable(name))}:", *_barred(shown)]
    return lines


def show_runs(console: Console, runs: Sequence[RunInfo]) -> None:
    """Write a list of runs."""
    table = _table("run", "phase", "agent", "started", "task")
    for info in runs:
        phase = Text(info.phase.replace("_", " "), style=STYLES.get(info.phase, ""))
        started = f"{info.started_at:%Y-%m-%d %H:%M}"
        run, agent, task = Text(printable(info.id), overflow="fold"), _cell(info.agent or "-"), _cell(info.task or "-")
        table.add_row(run, phase, agent, started, task)
    console.print(table if runs else Text("no runs", style="dim"))


def show_agents(console: Console, agents: Sequence[AgentFile]) -> None:
    """Write a list of agents."""
    table = _table("agent", "description", "model", "tools (* asks first)")
    for agent in agents:
        asked = {tool for tool, asking in agent.approval.items() if asking.mode == "ask"}
        tools = (f"{tool}*" if tool in asked else tool for tool in agent.tools)
        table.add_row(
            agent.name, _cell(agent.description), ", ".join(agent.models) or "default", Text(", ".join(tools))
        )
    console.print(table if agents else Text("no agents", style="dim"))


def show_settings(console: Console, rows: Sequence[tuple[str, str, str]]) -> None:
    """Write the settings in force and where each comes from."""
    table = _table("setting", "value", "from")
    for name, value, origin in rows:
        table.add_row(name, Text(printable(value), overflow="fold"), Text(printable(origin), overflow="fold"))
    console.print(table)


def show_ending(console: Console, ending: Ending) -> None:
    """Write how a run ended, what it made and what it cost; its text is written by who has all of it."""
    status = ending.run.status
    console.print(Text(printable(ending.said()), style=STYLES.get(status, "")))
    if ending.result is not None:
        for ref in ending.result.artifacts:
            console.print(Text(printable(ref.described())))
        console.print(Text(cost_line(ending.result), style="dim"))


def cost_line(result: RunResult) -> str:
    """Say in one line what a run took."""
    calls = sum(result.calls.values())
    waited = f", {duration(result.waited_seconds)} of it waiting for people" if result.waited_seconds >= 1 else ""
    took = f"{duration(result.seconds)}{waited}"
    worked = f"{counted(result.turns, 'turn')}, {counted(calls, 'tool call')}"
    return f"{worked}, {usage_text(result.usage)}, {took}, {result.model}"


def usage_text(usage: Usage) -> str:
    """Say how many tokens, and what they cost as far as it is known."""
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd is not None else ""
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


def duration(seconds: float) -> str:
    """Write a time span as people do: `4 s`, `2:05 min`, `3:07:00 h`."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"


def history_line(text: str) -> Text:
    """Give one of a run's lines its colour."""
    head = printable(text)[:80]
    if "waits for approval" in head or ": paused:" in head:
        return Text(printable(text), style="yellow")
    return Text(printable(text), style="red" if " failed: " in head or " refused: " in head else "")


def printable(text: str) -> str:
    """Make visible what a terminal would obey or hide: escape sequences, control characters, turned writing."""
    return "".join(c if c in "\n\t" or not _obeyed(c) else _picture(c) for c in clean(text).replace("\r\n", "\n"))


def _obeyed(character: str) -> bool:
    return unicodedata.category(character) == "Cc" or ord(character) in _BIDI


def _picture(character: str) -> str:
    return chr(0x2400 + ord(character)) if ord(character) < 0x20 else f"<U+{ord(character):04X}>"


def _barred(text: str) -> list[str]:
    return [f"  │ {line}" for line in printable(text).split("\n")]


def _facts(info: RunInfo, state: StateView | None, ending: Ending | None) -> list[tuple[str, str]]:
    end = info.closed_at or datetime.now(UTC)
    elapsed = duration((end - info.started_at).total_seconds())
    agent = info.agent or (state.agent if state is not None else "") or "-"
    facts = [
        ("agent", f"{agent} with {state.model}" if state is not None and state.model else agent),
        ("task", info.task or "-"),
        ("started", f"{info.started_at:%Y-%m-%d %H:%M:%S} UTC, {elapsed} {'long' if ending else 'ago'}"),
    ]
    if state is not None:
        calls = ", ".join(f"{name} {count}" for name, count in state.calls.items())
        facts += [("turn", str(state.turn)), ("usage", usage_text(state.usage)), ("calls", calls or "none")]
        facts += [("running", text) for text in state.running]
        facts += [("approved", f"{call.id} {call.tool}, not begun; revoke takes it back") for call in state.approved]
        facts += [("allowed", f"{text} for the rest of the run; revoke takes it back") for text in state.allowed]
        facts += [("artifact", ref.described().removeprefix("artifact ")) for ref in state.artifacts[-10:]]
    if ending is not None:
        facts.append(("ended", ending.said()))
    return facts


def command_text(*words: str) -> str:
    """Write a command of the starter as it is typed."""
    return f"python starter.py {shlex.join(words)}"


def _command(*words: str) -> Text:
    return Text(f"  {command_text(*words)}", style="bold")


def _cell(text: str) -> Text:
    return Text(one_line(printable(text), 300), overflow="ellipsis")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(escape(column), overflow="fold")
    return table


def _print_error(document: dict[str, Any]) -> None:
    print(json.dumps(document), file=sys.stderr, flush=True)  # noqa: T201 - this is the output


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console
