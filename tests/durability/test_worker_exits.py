"""How a worker process that can't begin ends: a message that names the thing and the cure, and an exit code."""

from pathlib import Path

import pytest

from infra.stack import LocalStack
from tests.durability.workers import worker_process

NOWHERE = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("variables", "code", "told"),
    [
        ({"PERDURE_LOG_FORMAT": "xml"}, 2, "PERDURE_LOG_FORMAT='xml'"),
        ({"PERDURE_TOOLS": "no.such.tools"}, 2, "tool module no.such.tools can't be imported"),
        ({"PERDURE_S3_SECRET_ACCESS_KEY": "wrong"}, 2, "check PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET"),
        ({"PERDURE_S3_BUCKET": "not-there"}, 2, "the bucket does not exist; create it"),
        ({"PERDURE_S3_ENDPOINT_URL": f"http://{NOWHERE}"}, 3, "the store failed or can't be reached"),
        ({"TEMPORAL_ADDRESS": NOWHERE}, 3, f"Temporal does not answer at {NOWHERE}"),
        ({"TEMPORAL_NAMESPACE": "elsewhere"}, 2, "has no namespace 'elsewhere'"),
    ],
)
async def test_a_worker_that_cannot_begin_says_why_and_how_it_may_be_mended(
    stack: LocalStack, tmp_path: Path, variables: dict[str, str], code: int, told: str
) -> None:
    """Exit code 2 for what a person must correct, 3 for a server that may come back; no traceback."""
    async with worker_process(stack, "exits", tmp_path, variables) as process:
        assert await process.wait() == code
    said = (tmp_path / "worker.log").read_text()
    assert told in said
    assert "Traceback" not in said
