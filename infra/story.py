"""What a person reads of a run's past: its entries, the state after each, where two runs part, what was proven."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from core.audit import Parting, Played, Reading, reading
from core.content import ArtifactRef, one_line, readable_bytes
from core.entries import Entry
from core.frozen import Frozen
from infra.display import command_text, duration, history_line, printable, usage_text
from infra.journals import Found
from infra.verification import Verification

STATE_CHARACTERS = 160


class Kept(Frozen):
    """An artifact of a run's scope, and what it is to the run."""

    handle: str
    role: str
    artifact: ArtifactRef


class Branch(Frozen):
    """What a run did after it had parted from another one."""

    run: str
    run_id: str
    entries: tuple[Entry, ...]


class Difference(Frozen):
    """Where two runs part, and what each did then."""

    common: Parting
    left: Branch
    right: Branch


def show_found(console: Console, found: Found) -> None:
    """Write whose journal follows, and which hash fixes it."""
    run = found.run
    state = found.manifest.result.outcome if found.manifest else "not closed"
    where = f", in the scope of {run.scope}" if run.scope != run.workflow_id else ""
    console.print(
        Text.assemble((printable(run.workflow_id), "bold"), printable(f"  {state}, run id {run.run_id}{where}"))
    )
    console.print(Text(f"head {found.head.number} {found.head.sha256}", style="dim"))


def show_reading(console: Console, entry: Reading, text: str | None = None) -> None:
    """Write an entry: when, in which turn, who, what, at which cost; with `text`, all of what was said."""
    when = f"{entry.number:>4}  {entry.at:%Y-%m-%d %H:%M:%S}  turn {entry.turn:<3} "
    console.print(Text.assemble((when, "dim"), (printable(entry.who), "bold"), ": ", history_line(entry.what)))
    for line in entry.details:
        console.print(Text(f"      {printable(line)}"))
    for line in printable(text).split("\n") if text is not None else ():
        console.print(Text(f"      │ {line}"))
    costs = [usage_text(entry.usage)] if entry.usage is not None else []
    costs += [f"{entry.seconds:.1f} s"] if entry.seconds else []
    if costs:
        console.print(Text(f"      {', '.join(costs)}", style="dim"))


def show_played(console: Console, step: Played) -> None:
    """Write one step of a replay: the entry in a line, and below it the state that it leads to."""
    entry, state = reading(step.number, step.entry), step.state
    console.print(Text.assemble((f"{entry.number:>4}  ", "dim"), f"{printable(entry.who)}: ", history_line(entry.what)))
    calls = ", ".join(f"{call} {status.replace('_', ' ')}" for call, status in state.open_calls.items())
    facts = [state.phase.replace("_", " "), f"turn {state.turn}", usage_text(state.usage), calls]
    facts += [_count(state.artifacts, "artifact", "artifacts") if state.artifacts else ""]
    facts += [_count(state.mistakes, "mistake", "mistakes") if state.mistakes else ""]
    facts += [f"limits granted {_count(state.grants, 'time', 'times')} more"]
    facts += [f"waited {duration(state.waited_seconds)}" if state.waited_seconds >= 1 else "", state.paused]
    shown = " · ".join(fact for fact in facts if fact and not fact.startswith("limits granted 0"))
    console.print(Text(f"      {one_line(printable(shown), STATE_CHARACTERS)}", style="dim"))


def show_difference(console: Console, difference: Difference, last: Entry | None) -> None:
    """Write where two runs part, and what each did after that."""
    common = difference.common
    if last is None:
        console.print(Text("the two have nothing in common: neither is a fork of the other, nor both of a third"))
    else:
        entries, commits = _count(common.entries, "entry", "entries"), _count(common.commits, "commit", "commits")
        console.print(Text(f"{entries} in common ({commits} by hash), up to:"))
        show_reading(console, reading(common.entries, last))
    for branch in (difference.left, difference.right):
        after = _count(len(branch.entries), "entry", "entries")
        title = f"── {printable(branch.run)} ({printable(branch.run_id)}): {after} of its own"
        console.print(Text(title, style="bold"))
        for number, entry in enumerate(branch.entries, common.entries + 1):
            show_reading(console, reading(number, entry))


def show_verification(console: Console, proof: Verification) -> None:
    """Write what was proven, and each thing that is not as it should be."""
    read = f"{_count(proof.nodes, 'node', 'nodes')}, {_count(proof.entries, 'entry', 'entries')}, "
    read += f"{_count(proof.artifacts, 'artifact', 'artifacts')}, {readable_bytes(proof.size_bytes)}"
    for fault in proof.faults:
        console.print(Text.assemble((f"{fault.kind}: ", "bold red"), printable(f"{fault.what}: {fault.why}")))
    if proof.faults:
        console.print(Text(f"{_count(len(proof.faults), 'fault', 'faults')} in {read}", style="bold red"))
        return
    console.print(Text(f"all is as it was written: {read}", style="green"))
    console.print(Text(f"head {proof.head.number} {proof.head.sha256}", style="dim"))


def show_kept(console: Console, run: str, kept: Sequence[Kept]) -> None:
    """Write a list of artifacts, and how one is fetched."""
    for each in kept:
        ref = each.artifact
        facts = [ref.media_type, readable_bytes(ref.size_bytes), *([ref.detail] if ref.detail else [])]
        line = f"{each.handle}  {each.role or '-':<10}  {printable(ref.name)}  ({', '.join(facts)})"
        console.print(Text(line, style="bold" if each.role == "result" else ""))
    if not kept:
        console.print(Text("no artifacts", style="dim"))
    else:
        console.print(Text(f"  {command_text('artifact', 'get', run, kept[0].handle)}", style="dim"))


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
