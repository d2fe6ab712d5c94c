"""The tree of runs below a run: read from their journals, so that closed ones need the blob store only."""

from rich.text import Text

from core.audit import play
from core.chat import Usage
from core.content import one_line
from core.entries import Closed, Compacted, Delegated, Entry, Replied, ToolFinished
from core.errors import PerdureError
from core.frozen import Frozen
from core.prompt import configuration_of
from core.storage import Storage
from infra.display import STYLES, Display, printable, usage_text
from infra.exits import OK
from infra.journals import entries_of, find_journal
from infra.process import client_settings
from infra.settings import Settings
from infra.store import opened_storage

DEPTH = 12
"""So many levels are looked into: more than there can be."""


class Branch(Frozen):
    """A run, and those below it. `phase` is how it ended, or what it does; `why` says what could not be read."""

    run: str
    agent: str
    task: str
    phase: str
    turns: int = 0
    usage: Usage = Usage()
    """Its own and that of those below that have ended."""
    below: tuple["Branch", ...] = ()
    why: str = ""


async def show_tree(display: Display, run: str) -> int:
    """Draw a run and all below it.

    Raises:
        PerdureError: the run's own journal can't be found or read.
    """
    settings = client_settings()
    async with opened_storage(settings, display.note) as storage:
        tree = await branch(settings, storage, run, DEPTH)
    if display.as_json:
        display.document(tree)
    else:
        _draw(display, tree, "", "")
    return OK


async def branch(settings: Settings, storage: Storage, run: str, depth: int) -> Branch:
    """Read a run and those below it; one of those that can't be read is shown as such.

    Raises:
        PerdureError: the run's own journal can't be found or read.
    """
    found = await find_journal(settings, storage, run)
    entries = await entries_of(storage, found)
    started = configuration_of(entries)
    last = list(play(entries))[-1].state
    closed = next((entry for entry in reversed(entries) if isinstance(entry, Closed)), None)
    below = [await _below(settings, storage, entry, depth - 1) for entry in entries if isinstance(entry, Delegated)]
    return Branch(
        run=run,
        agent=started.agent.name,
        task=one_line(started.task.shown(), 100),
        phase=closed.outcome if closed is not None else last.phase,
        turns=last.turn,
        usage=usage_of(entries),
        below=tuple(below),
    )


async def _below(settings: Settings, storage: Storage, child: Delegated, depth: int) -> Branch:
    unread = Branch(run=child.to, agent=child.agent, task=child.task, phase="unknown")
    if depth == 0:
        return unread.model_copy(update={"why": "too deep"})
    try:
        return await branch(settings, storage, child.to, depth)
    except PerdureError as error:
        return unread.model_copy(update={"why": one_line(str(error), 200)})


def usage_of(entries: list[Entry]) -> Usage:
    """Sum what a journal says was used: by its model, its summaries, and the sub-agents that have ended."""
    used = (entry.usage for entry in entries if isinstance(entry, Replied | Compacted | ToolFinished))
    return sum(used, Usage())


def _draw(display: Display, one: Branch, before: str, under: str) -> None:
    facts = one.why or f"{one.turns} turns, {usage_text(one.usage)}"
    phase = (one.phase.replace("_", " "), STYLES.get(one.phase, ""))
    about = f"  {one.agent}: {one.task}  ({facts})"
    display.out.print(Text.assemble(before, printable(one.run), "  ", phase, printable(about)))
    for number, child in enumerate(one.below, 1):
        is_last = number == len(one.below)
        _draw(display, child, under + ("└── " if is_last else "├── "), under + ("    " if is_last else "│   "))
