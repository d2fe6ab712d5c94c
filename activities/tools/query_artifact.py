"""Tool `query_artifact`."""

from datetime import timedelta

from activities.tables import TABLES, Query, Source
from activities.tool_context import ToolContext
from activities.toolbox import tool
from core.errors import Failed


@tool(effect="read", timeout=timedelta(minutes=5))
def query_artifact(sql: str, artifacts: list[str], *, context: ToolContext) -> str:
    """Run one SQL query (DuckDB) over CSV, TSV, JSON, JSON lines or Parquet files, and return the rows as a table.

    The files are the tables t1, t2, ... in the order given. SUMMARIZE t1 and DESCRIBE t1 show their columns.

    Args:
        sql: One statement that only reads: SELECT, WITH, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN.
        artifacts: Handles such as a:3f9c21d04b7e, or names of attached files.
    """
    if not 1 <= len(artifacts) <= TABLES:
        raise Failed(f"name 1 to {TABLES} artifacts; they are the tables t1, t2, ... in their order")
    sources = []
    for artifact in artifacts:
        ref = context.wait(context.workspace.reference(artifact))
        sources.append(Source(ref, context.wait(context.workspace.local_copy(ref))))
    return Query(sql, sources, context.folder, check=context.check).answer()
