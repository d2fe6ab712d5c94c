"""Facts about the offline model: it works on real data, says what it is, and always ends."""

import fnmatch
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from core.chat import AssistantMessage, ChatReply, ChatRequest, Message, ToolMessage, ToolSchema, UserMessage
from infra.models import Models

STRIKES = """incident_date,species,state,cost,height,remarks
2023-01-03,Gull,TX,1200.50,100,"hit | on final"
2023-02-11,Goose,NY,90000,300,
2023-02-19,Gull,CA,800,50,
2023-03-07,Hawk,TX,,20,none
2023-05-23,Goose,NY,41000,1200,engine
2023-06-30,Gull,TX,100,10,
2023-07-01,Owl,WA,0,15,
2023-08-15,Gull,CA,250,30,
"""
GUIDE = """# Operating guide

The pump runs at 40 bar.
Never open the valve while the pump runs.

## Maintenance
Replace the filter every 200 hours.
"""


@dataclass
class Workspace:
    """Tools over a real folder and a real DuckDB, with the texts that the model is promised."""

    folder: Path
    reject: str | None = None
    broken: frozenset[str] = frozenset()
    reports: list[str] = field(default_factory=list)

    @property
    def files(self) -> dict[str, Path]:
        """Handle by number, in the order of the names."""
        return {f"a:{number:012x}": path for number, path in enumerate(sorted(self.folder.iterdir()), start=1)}

    def listing(self) -> str:
        """The files as `list_files` shows them."""
        types = {".csv": "text/csv", ".md": "text/markdown", ".png": "image/png"}
        rows = [
            f"{path.name} | {types.get(path.suffix, 'text/plain')} | {path.stat().st_size} bytes | {handle}"
            for handle, path in self.files.items()
        ]
        return "\n".join(["NAME | MEDIA TYPE | SIZE | HANDLE", *rows])

    def list_files(self, pattern: str) -> str:
        """List the files; the model only ever asks for all of them."""
        assert pattern == "*"
        return self.listing()

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool."""
        tools: dict[str, Callable[..., str]] = {
            "list_files": self.list_files,
            "query_artifact": self.query,
            "search_files": self.search,
            "read_file": self.read,
            "write_report": self.publish,
        }
        if name in self.broken:
            raise OSError(f"{name} is out of order")
        return tools[name](**arguments)

    def query(self, sql: str, artifacts: list[str]) -> str:
        """Run SQL over the named artifacts."""
        with duckdb.connect() as connection:
            for number, handle in enumerate(artifacts, start=1):
                path = str(self.files[handle])
                connection.execute(f"CREATE VIEW t{number} AS SELECT * FROM read_csv('{path}')")
            cursor = connection.execute(f"SELECT * FROM ({sql})")
            rows = cursor.fetchall()
            lines = [[item[0] for item in cursor.description], ["---"] * len(cursor.description), *rows]
            return "\n".join([*(markdown(line) for line in lines), f"({len(rows)} rows)"])

    def search(self, pattern: str, files: str = "*") -> str:
        """Find lines in the text files."""
        return "\n".join(
            f"{path.name}:{number}: {line}"
            for path in sorted(self.folder.iterdir())
            if fnmatch.fnmatch(path.name, files) and path.suffix in {".md", ".txt"}
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if re.search(pattern, line)
        )

    def read(self, name: str, first_line: int = 1, lines: int = 200) -> str:
        """Return some lines of a file."""
        return "\n".join((self.folder / name).read_text().splitlines()[first_line - 1 : first_line - 1 + lines])

    def publish(self, title: str, markdown: str) -> str:
        """Keep the report, or be the person who rejects it."""
        if self.reject is not None:
            raise PermissionError(f"rejected: {self.reject}")
        self.reports.append(f"# {title}\n\n{markdown}")
        return "Report stored as a:00000000beef"


def markdown(cells: Any) -> str:
    """Write one line of a Markdown table."""
    texts = ("" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |"


async def run(workspace: Workspace, task: str, *tools: str, limit: int = 12) -> tuple[ChatReply, list[Message]]:
    """Drive the model through the tools until it ends; fail when it does not."""
    schemas = tuple(ToolSchema(name=name, description=name, parameters={"type": "object"}) for name in tools)
    messages: list[Message] = [UserMessage(text=task)]
    for _ in range(limit):
        request = ChatRequest(model="offline", instructions="Do it.", messages=tuple(messages), tools=schemas)
        reply = await Models().reply(request)
        if not reply.calls:
            return reply, messages
        messages.append(AssistantMessage(text=reply.text, calls=reply.calls))
        for call in reply.calls:
            text, failed = answer(workspace, call.name, json.loads(call.arguments))
            messages.append(ToolMessage(call_id=call.id, name=call.name, text=text, failed=failed))
    pytest.fail(f"no end after {limit} replies")


def answer(workspace: Workspace, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Run a tool as the activities do: an error is a text that the model reads."""
    try:
        return workspace.call(name, arguments), False
    except (OSError, duckdb.Error) as error:
        return str(error), True


ANALYST = ("list_files", "read_artifact", "query_artifact", "write_report")
RESEARCHER = ("list_files", "read_file", "search_files", "write_report")


@pytest.fixture
def strikes(tmp_path: Path) -> Workspace:
    """A workspace with one table."""
    (tmp_path / "wildlife strikes.csv").write_text(STRIKES)
    return Workspace(tmp_path)


async def test_the_analyst_reports_what_duckdb_says(strikes: Workspace) -> None:
    """The numbers of the report are those of the data, for the columns that the task names."""
    task = f"Which species cost most?\n\nAttached files:\n{strikes.listing()}"
    reply, messages = await run(strikes, task, *ANALYST)
    (report,) = strikes.reports
    table = f"read_csv('{next(iter(strikes.files.values()))}')"
    with duckdb.connect() as connection:
        best = connection.execute(
            f"SELECT species, count(*), sum(cost), avg(cost) FROM {table} GROUP BY 1 ORDER BY 3 DESC NULLS LAST"
        ).fetchall()
        ((share,),) = connection.execute(f"SELECT round(100 * 131000.0 / sum(cost), 2) FROM {table}").fetchall()
    assert best[0] == ("Goose", 2, 131000.0, 65500.0)
    assert f"**Goose** has the highest total of `cost`: 131,000 ({share} % of the total)" in report
    for species, rows, total, mean in best:
        figures = ["" if figure is None else round(figure, 3) for figure in (total, mean)]
        assert f"| {species} | {rows} | {figures[0]} | {figures[1]} |" in report
    assert "`cost` adds up to 133,350.50 over 7 filled rows" in report
    assert "`remarks` is empty in 5 of 8 rows (62.5 %)" in report
    assert "Over time (`incident_date`)" in report
    assert 'SELECT coalesce(CAST("species" AS VARCHAR)' in report
    assert "**Goose**" in reply.text
    assert "a:00000000beef" in reply.text
    assert reply.stop_reason == "end"
    first = messages[1]
    assert isinstance(first, AssistantMessage)
    assert [call.name for call in first.calls] == ["list_files"]
    assert "My plan" in first.text


async def test_it_says_everywhere_that_it_is_no_language_model(strikes: Workspace) -> None:
    """First text, report and last text say it; the usage costs nothing."""
    reply, messages = await run(strikes, f"Which state?\n{strikes.listing()}", *ANALYST)
    for text in (messages[1].text, strikes.reports[0], reply.text):
        assert "no language model" in text
    assert reply.usage.cost_usd == 0.0
    assert reply.usage.input_tokens > 0


async def test_the_same_conversation_gives_the_same_reply(strikes: Workspace) -> None:
    """There is no state: a new process goes on where the old one was, and ids differ from turn to turn."""
    _, once = await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST)
    _, again = await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST)
    assert once == again
    ids = [call.id for message in once if isinstance(message, AssistantMessage) for call in message.calls]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("Which species is most common?", "**Gull** has the highest number of rows"),
        ("Which species has the lowest average cost?", "**Owl** has the lowest mean of `cost`: 0"),
        ("What is the height by state?", "By `state`, **NY** has the highest total of `height`: 1,500"),
    ],
)
async def test_the_words_of_the_task_choose_columns_and_order(strikes: Workspace, task: str, says: str) -> None:
    """Means, counts and least are understood, and columns are found by their names."""
    reply, _ = await run(strikes, f"{task}\n{strikes.listing()}", *ANALYST)
    assert says in reply.text


async def test_all_the_dimensions_that_the_task_names_are_looked_at(tmp_path: Path) -> None:
    """The total stands for its parts, and a column named by a word itself leaves those of synonyms behind."""
    (tmp_path / "costs.csv").write_text(
        "Species,Phase,State,Effect Amount,Cost Other,Cost Total\n"
        "Gull,Climb,TX,none,1,10\nGull,Descent,TX,some,2,20\nOwl,Climb,NY,none,3,5\nOwl,Climb,NY,some,3,5\n"
    )
    workspace = Workspace(tmp_path)
    task = "Which species cost most, in which phase and which state?"
    await run(workspace, f"{task}\n{workspace.listing()}", *ANALYST)
    headings = re.findall(r"^## (.*) \(costs.csv\)$", workspace.reports[0], re.MULTILINE)
    groups = ("Species", "Phase", "State")
    assert headings == ["Total of Cost Total", *(f"Cost Total by {group}" for group in groups), "Missing values"]


async def test_a_rejected_report_is_told_with_its_reason(strikes: Workspace) -> None:
    """Nobody is made to believe that it was published; the findings come inline."""
    strikes.reject = "not before Monday"
    reply, _ = await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST)
    assert "The report was not published: rejected: not before Monday" in reply.text
    assert "## Method" in reply.text
    assert strikes.reports == []


async def test_without_a_tool_for_reports_the_report_is_the_answer(strikes: Workspace) -> None:
    """What can't be published is said."""
    reply, _ = await run(strikes, f"Which species cost most?\n{strikes.listing()}", "query_artifact")
    assert "no tool to publish" in reply.text
    assert "**Goose**" in reply.text


async def test_a_file_that_cannot_be_read_does_not_stop_the_others(strikes: Workspace) -> None:
    """The report names it with the reason and goes on."""
    (strikes.folder / "broken.csv").write_bytes(b"\xff\xfe\x00\x01a,b\n\x80\x81,2\n")
    reply, _ = await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST)
    assert "## What did not work" in strikes.reports[0]
    assert "broken.csv could not be read as data" in strikes.reports[0]
    assert "**Goose**" in reply.text


@pytest.mark.parametrize("broken", [*ANALYST, *RESEARCHER])
async def test_it_ends_whatever_tool_fails(strikes: Workspace, broken: str) -> None:
    """A tool that always fails leads to another end, not to a loop."""
    (strikes.folder / "guide.md").write_text(GUIDE)
    strikes.broken = frozenset({broken})
    reply, _ = await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST, *RESEARCHER)
    assert "no language model" in reply.text


async def test_odd_names_and_values_do_no_harm(tmp_path: Path) -> None:
    """Columns with quotes, pipes and spaces, and a table with one text column only."""
    (tmp_path / "odd.csv").write_text('"a ""b"" | c\'s","x;y"\n"p|q",1\n"p|q",2\n"r",3\n')
    (tmp_path / "names.csv").write_text("name\nAda\nAda\nBob\n")
    workspace = Workspace(tmp_path)
    await run(workspace, f"Look.\n{workspace.listing()}", *ANALYST)
    assert "What did not work" not in workspace.reports[0]
    assert "**p|q** has the highest total" in workspace.reports[0]
    assert "The most frequent `name` is **Ada**: 2 rows (66.7 %)" in workspace.reports[0]


async def test_numbers_that_cannot_be_read_as_such_are_told(tmp_path: Path) -> None:
    """A column of German numbers is no measure for DuckDB: nobody shall take a count of rows for its sum."""
    (tmp_path / "umsatz.csv").write_text(
        "Stadt;Betrag;Anteil;PLZ-Code;Datum;Rest\n"
        "Ulm;1.234,50;1,5 %;A1;31.12.2024;n/a\nBonn;99,90;20 %;22;01.01.2025;-1.000,00\nUlm;7;3 %;33;02.01.2025;5\n"
    )
    workspace = Workspace(tmp_path)
    reply, _ = await run(workspace, f"Betrag nach Stadt?\n{workspace.listing()}", *ANALYST)
    for column in ("Betrag", "Anteil", "Rest"):
        assert f"The column `{column}` of `umsatz.csv` could not be read as numbers" in reply.text
    for column in ("Stadt", "PLZ-Code", "Datum"):
        assert f"The column `{column}`" not in reply.text
    assert "most frequent `Betrag`" not in reply.text


async def test_one_row_is_one_row(tmp_path: Path) -> None:
    """Not `1 rows`."""
    (tmp_path / "one.csv").write_text("name\nAda\n")
    workspace = Workspace(tmp_path)
    reply, _ = await run(workspace, f"Look.\n{workspace.listing()}", *ANALYST)
    assert "`one.csv` has 1 row and 1 column." in reply.text


async def test_the_researcher_cites_file_and_line(tmp_path: Path) -> None:
    """Every finding stands where it says it stands."""
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / "notes: old.txt").write_text("The valve leaks.\n")
    workspace = Workspace(tmp_path)
    reply, _ = await run(workspace, f"When may the valve be opened?\n{workspace.listing()}", *RESEARCHER)
    assert "“Never open the valve while the pump runs.” (guide.md:4)" in reply.text
    assert "(notes: old.txt:1)" in workspace.reports[0]
    assert "What do the documents say about “valve”?" in workspace.reports[0]
    assert "> The pump runs at 40 bar." in workspace.reports[0]


async def test_words_that_stand_nowhere_are_said_to_be_missing(tmp_path: Path) -> None:
    """Nothing found is a finding; the documents' beginnings are shown instead."""
    (tmp_path / "guide.md").write_text(GUIDE)
    workspace = Workspace(tmp_path)
    reply, _ = await run(workspace, f"Dragons?\n{workspace.listing()}", *RESEARCHER)
    assert "Nothing: no line has the word." in workspace.reports[0]
    assert "> # Operating guide" in workspace.reports[0]
    assert "no language model" in reply.text


async def test_data_and_documents_come_into_one_report(strikes: Workspace) -> None:
    """With both kinds of files and tools, both are worked on."""
    (strikes.folder / "guide.md").write_text("Geese are the species that cost most.\n")
    await run(strikes, f"Which species cost most?\n{strikes.listing()}", *ANALYST, *RESEARCHER)
    (report,) = strikes.reports
    assert "**Goose** has the highest total" in report
    assert "(guide.md:1)" in report


@pytest.mark.parametrize(
    ("files", "tools", "says"),
    [
        ((), ANALYST, "Attach some"),
        ((), ("query_artifact",), "Attach some"),
        (("a.csv",), (), "given no tools"),
        (("a.csv",), ("write_report",), "I can't do that for a.csv"),
        (("a.png",), ANALYST, "I can't do that for a.png"),
    ],
)
async def test_it_says_what_it_cannot_do(
    tmp_path: Path, files: tuple[str, ...], tools: tuple[str, ...], says: str
) -> None:
    """No files, no tools, or none that fit: an honest answer and the end."""
    for name in files:
        (tmp_path / name).write_text("x\n1\n")
    workspace = Workspace(tmp_path)
    reply, _ = await run(workspace, f"Do something.\n{workspace.listing()}", *tools)
    assert says in reply.text
    assert "no language model" in reply.text
