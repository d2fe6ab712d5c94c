"""Following a run on the screen: lines as they come, one live status line below; without a terminal plain lines."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from core.content import one_line
from core.view import Progress as RunProgress
from infra.attachments import Attachment, Report
from infra.display import STYLES, Display, duration, history_line, printable, show_pending, usage_text
from infra.runs import Ending
from infra.watch import Asks, Ended, Event, Line, Moved, Recovered, Saying, Trouble

SAID_CHARACTERS = 76
"""So much of the end of a reply that comes is shown."""


async def show_events(display: Display, events: AsyncIterator[Event], *, quiet: bool = False) -> Ending:
    """Show all events of a run and return how it ended; `quiet` shows only what needs a person."""
    if display.as_json:
        return await _as_json_lines(display, events, quiet=quiet)
    console = display.err if quiet else display.out
    screen = _Screen(console, quiet=quiet)
    with screen.opened():
        async for event in events:
            if isinstance(event, Ended):
                return event.ending
            screen.show(event)
    raise RuntimeError("the events of a run end with how it ended")


async def _as_json_lines(display: Display, events: AsyncIterator[Event], *, quiet: bool) -> Ending:
    async for event in events:
        if not quiet:
            display.document(event, indent=None)
        if isinstance(event, Ended):
            return event.ending
    raise RuntimeError("the events of a run end with how it ended")


@contextmanager
def upload_progress(display: Display, attachments: tuple[Attachment, ...]) -> Iterator[Report]:
    """Show how far the attachments are stored; on a terminal only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    hidden = display.as_json or not display.err.is_terminal or not attachments
    stored_bytes = 0
    with Progress(*columns, console=display.err, transient=True, disable=hidden) as progress:
        task = progress.add_task("attachments", total=sum(attachment.size_bytes for attachment in attachments))

        def report(attachment: Attachment) -> None:
            nonlocal stored_bytes
            name = one_line(printable(attachment.name), 40).replace("[", "(")
            progress.update(task, completed=stored_bytes, description=f"stores {name}")
            stored_bytes += attachment.size_bytes

        yield report


class _Screen:
    """Lines above, and on a terminal a status line below that ticks by itself."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._status = _Status()
        self._running: tuple[str, ...] = ()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keep the status line on the screen meanwhile."""
        if not self._console.is_terminal:
            yield
            return
        with Live(self._status, console=self._console, transient=True, refresh_per_second=8):
            yield

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Line() if not self._quiet:
                self._console.print(history_line(event.text))
            case Asks():
                show_pending(self._console, event.run, event.call)
            case Trouble():
                self._status.trouble = event.why
                self._console.print(Text(printable(event.why), style="yellow"))
            case Recovered():
                self._status.trouble = ""
                self._console.print(Text("goes on", style="dim"))
            case Moved():
                self._status.saying = ""
                self._moved(event.progress)
            case Saying():
                self._status.saying = event.text
            case _:
                pass

    def _moved(self, progress: RunProgress) -> None:
        self._status.progress = progress
        started = [text for text in progress.running if text not in self._running]
        self._running = progress.running
        if not self._quiet and not self._console.is_terminal:
            for text in started:
                self._console.print(Text(f"turn {progress.turn}: runs {printable(text)}"))


class _Status:
    """The status line, made anew each time that it is drawn."""

    def __init__(self) -> None:
        self.progress: RunProgress | None = None
        self.trouble = ""
        self.saying = ""
        """The end of what the model writes."""
        self._spinner = Spinner("dots")

    def __rich__(self) -> Table:
        """Draw it."""
        grid = Table.grid(padding=(0, 1))
        grid.add_row(self._spinner, self._text())
        if self.saying:
            grid.add_row("", Text(printable(self.saying)[-SAID_CHARACTERS:], "dim", overflow="ellipsis", no_wrap=True))
        return grid

    def _text(self) -> Text:
        progress = self.progress
        if progress is None:
            return Text(one_line(printable(self.trouble)) or "looks for the run", style="dim")
        started = progress.started_at
        elapsed = duration((datetime.now(UTC) - started).total_seconds()) if started else ""
        parts = [f"turn {progress.turn}", *progress.running[:2], elapsed, usage_text(progress.usage)]
        facts = " · ".join(one_line(printable(part), 70) for part in parts if part)
        phase = "no contact" if self.trouble else progress.phase.replace("_", " ")
        return Text.assemble(
            (phase, STYLES.get(progress.phase, "cyan")), f" · {facts}", overflow="ellipsis", no_wrap=True
        )
