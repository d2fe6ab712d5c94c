"""Facts about SQL over artifacts."""

import asyncio
import json
from pathlib import Path

import duckdb
import pytest

from activities.tables import Query, Source, markdown_table
from core.content import INLINE_BYTES
from core.errors import Failed
from tests.activities.calling import Calling
from tests.waiting import wait_until

SALES = "city,amount\nBerlin,10\nRom,20\nBerlin,5\n"


async def test_rows_come_as_a_markdown_table_with_their_number(calling: Calling) -> None:
    """The tables are t1, t2, ... in the order of the handles or names."""
    sales = await calling.attach("sales.csv", SALES)
    await calling.attach("cities.tsv", "name\tcountry\nBerlin\tDE\nRom\tIT\n")
    sql = "SELECT country, sum(amount) AS total FROM t1 JOIN t2 ON city = name GROUP BY 1 ORDER BY 1"
    text = await calling.text("query_artifact", {"sql": sql, "artifacts": [sales.handle, "cities.tsv"]})
    assert text == "| country | total |\n| --- | --- |\n| DE | 15 |\n| IT | 20 |\n(2 rows)"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT * FROM t1) SELECT count(*) FROM x",
        "FROM t1",
        "DESCRIBE t1",
        "SUMMARIZE t1",
        "SELECT column_name FROM (SUMMARIZE t1)",
        "EXPLAIN SELECT * FROM t1",
        "SHOW TABLES",
        "SELECT 1 -- a comment",
        "VALUES (1);",
    ],
)
async def test_statements_that_read_are_run(calling: Calling, sql: str) -> None:
    """Everything that only reads is allowed."""
    await calling.attach("sales.csv", SALES)
    text = await calling.text("query_artifact", {"sql": sql, "artifacts": ["sales.csv"]})
    assert text.startswith("| ")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", "n;ü\n1;ä\n2;ö\n"),
        ("latin.csv", "n;ü\n1;ä\n2;ö\n".encode("latin-1")),
        ("utf16.csv", "n;ü\n1;ä\n2;ö\n".encode("utf-16")),
        ("bom.csv", "n;ü\n1;ä\n2;ö\n".encode("utf-8-sig")),
        ("preamble.csv", "# exported by a tool\n# on a Monday\n" + "n;ü\n1;ä\n2;ö\n"),
        ("a.txt", "n\tü\n1\tä\n2\tö\n"),
        ("a.json", '[{"n": 1, "ü": "ä"}, {"n": 2, "ü": "ö"}]'),
        ("a.jsonl", '{"n": 1, "ü": "ä"}\n{"n": 2, "ü": "ö"}\n'),
    ],
)
async def test_every_kind_of_table_is_read(calling: Calling, name: str, data: bytes | str) -> None:
    """Delimiters, encodings and formats are found."""
    await calling.attach(name, data)
    text = await calling.text("query_artifact", {"sql": "SELECT * FROM t1 ORDER BY 1", "artifacts": [name]})
    assert text.splitlines()[0] == "| n | ü |"
    assert text.splitlines()[2:] == ["| 1 | ä |", "| 2 | ö |", "(2 rows)"]


async def test_parquet_is_read(calling: Calling, tmp_path: Path) -> None:
    """A Parquet file is a table as well."""
    path = tmp_path / "made.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 7 AS seven, NULL AS nothing) TO '{path}' (FORMAT parquet)")
    ref = await calling.attach("made.parquet", path.read_bytes())
    assert ref.media_type == "application/vnd.apache.parquet"
    text = await calling.text("query_artifact", {"sql": "FROM t1", "artifacts": [ref.handle]})
    assert text.splitlines()[2] == "| 7 |  |"


async def test_a_word_far_down_in_a_column_of_numbers_is_no_error(calling: Calling) -> None:
    """Types are found from the whole file when the sample misled."""
    rows = "".join(f"{number}\n" for number in range(30_000))
    await calling.attach("late.csv", f"n\n{rows}unknown\n")
    text = await calling.text("query_artifact", {"sql": "SELECT count(*) AS c FROM t1", "artifacts": ["late.csv"]})
    assert "| 30001 |" in text


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t1 VALUES ('x', 1)",
        "UPDATE t1 SET amount = 0",
        "DELETE FROM t1",
        "DROP TABLE t1",
        "CREATE TABLE x AS SELECT 1",
        "ATTACH '/tmp/other.db'",
        "COPY t1 TO '/tmp/stolen.csv'",
        "COPY t1 FROM '/etc/passwd'",
        "EXPORT DATABASE '/tmp/stolen'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '100GB'",
        "RESET memory_limit",
        "CALL pragma_version()",
        "USE memory",
        "CHECKPOINT",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE t1",
        "",
        "-- nothing",
        "SELEC 1",
        "WITH x AS (INSERT INTO t1 VALUES ('x', 1) RETURNING *) FROM x",
        "EXPLAIN ANALYZE DELETE FROM t1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/*')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x.csv')",
        "SELECT * FROM 's3://bucket/key.parquet'",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('PATH')",
        "SELECT * FROM request",
        "SELECT no_such_column FROM t1",
    ],
)
async def test_what_does_more_than_read_the_tables_fails_with_a_reason(calling: Calling, sql: str) -> None:
    """No other file, no network, no extension, no setting, no change, no second statement, no Python variable."""
    await calling.attach("sales.csv", SALES)
    text = await calling.failure("query_artifact", {"sql": sql, "artifacts": ["sales.csv"]})
    assert len(text) > 20
    assert not Path("/tmp/stolen.csv").exists()
    assert "root:" not in text


async def test_an_sql_error_names_the_columns_there_are(calling: Calling) -> None:
    """The model can mend its query without another call."""
    await calling.attach("sales.csv", SALES)
    text = await calling.failure("query_artifact", {"sql": "SELECT town FROM t1", "artifacts": ["sales.csv"]})
    assert "town" in text
    assert "t1 (sales.csv): city VARCHAR, amount BIGINT" in text
    assert str(calling.folder) not in text


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("prose.csv", "This is prose, not a table.\nIt has lines\nof several words; and, odd, commas\n", "no table"),
        ("empty.csv", "", "is empty"),
        ("binary.csv", bytes(range(256)) * 10, "can be queried"),
        ("broken.json", '{"a": [1, 2', "can't be read as JSON"),
        ("broken.parquet", b"PAR1\0\0\0\0 not really PAR1", "can't be read as PARQUET"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1", "can be queried"),
    ],
)
async def test_a_file_that_is_no_table_is_a_clear_failure(
    calling: Calling, name: str, data: bytes | str, says: str
) -> None:
    """The failure names the file and what is wrong with it."""
    await calling.attach(name, data)
    text = await calling.failure("query_artifact", {"sql": "FROM t1", "artifacts": [name]})
    assert says in text
    assert name in text
    assert str(calling.folder) not in text


async def test_a_long_result_is_cut_below_the_inline_limit_and_says_so(calling: Calling) -> None:
    """What does not fit is counted, and the model is told how to get less."""
    await calling.attach("sales.csv", SALES)
    sql = "SELECT range AS n, repeat('x', 500) AS long, 'a|b' AS pipe FROM range(250000)"
    text = await calling.text("query_artifact", {"sql": sql, "artifacts": ["sales.csv"]})
    assert len(text.encode()) < INLINE_BYTES
    assert "(more than 1" in text
    assert "LIMIT" in text
    assert "a\\|b" in text


async def test_rows_of_many_columns_and_odd_cells_stay_a_table() -> None:
    """Line ends, pipes, surrogates and NULs in a cell do not break its row."""
    text = markdown_table(["a|b"], [["x\ny|\0\ud800"]], 1)
    assert text.splitlines()[:2] == ["| a\\|b |", "| --- |"]
    assert len(text.splitlines()) == 4
    with pytest.raises(Failed, match="select fewer"):
        markdown_table([f"a_long_name_{number}" for number in range(500)], [], 0)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c",
        "SELECT sum(length(repeat('x', 100000000 + range::INT))) FROM range(1000)",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT count(*) FROM x",
    ],
)
async def test_a_runaway_query_is_ended(calling: Calling, tmp_path: Path, sql: str) -> None:
    """Its process is killed when its time or memory is over; the worker is not touched."""
    ref = await calling.store("sales.csv", SALES)
    path = tmp_path / "sales.csv"
    path.write_text(SALES)
    query = Query(sql, [Source(ref, path)], tmp_path, seconds=3)
    with pytest.raises(Failed, match=r"longer than 3 seconds|[Mm]emory"):
        await asyncio.to_thread(query.answer)


async def test_a_cancel_ends_a_running_query(calling: Calling) -> None:
    """The query's process goes at once, not when the query would have ended."""
    await calling.attach("sales.csv", SALES)
    sql = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c"
    running = asyncio.create_task(calling.call("query_artifact", {"sql": sql, "artifacts": ["sales.csv"]}))
    await wait_until(lambda: list(calling.folder.glob("attempts/*/query-*/tables.db")), description="the query runs")
    calling.environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(calling.folder.glob("attempts/*")) == []


@pytest.mark.parametrize(
    ("artifacts", "says"),
    [([], "name 1 to 10"), (["a:000000000000"], "no artifact a:000000000000"), (["x.csv"], "no file 'x.csv'")],
)
async def test_a_query_of_nothing_says_what_to_name(calling: Calling, artifacts: list[str], says: str) -> None:
    """No artifact, an unknown handle, an unknown name: a failed result."""
    text = await calling.failure("query_artifact", {"sql": "SELECT 1", "artifacts": artifacts})
    assert says in text


async def test_a_query_sees_no_secret_of_the_worker(calling: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's process gets what a Python needs to start, nothing else of the environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    await calling.attach("sales.csv", SALES)
    sql = "SELECT * FROM duckdb_settings() WHERE value LIKE '%secret%' OR name = 'home_directory'"
    outcome = await calling.call("query_artifact", {"sql": sql, "artifacts": ["sales.csv"]})
    assert "a-secret" not in json.dumps(outcome.content.shown())
