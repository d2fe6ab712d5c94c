"""Facts about the demo that its own run does not show: it ends on whatever run it is given."""

from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from infra.demo.__main__ import main, scheduled
from infra.s3 import S3BlobStore
from infra.settings import Settings
from tests.running import FakeModel, Reply, calls, says, worker_for

LIST = ("list_files", "{}")


@pytest.mark.parametrize(
    ("replies", "during"),
    [
        ([], None),  # the model refuses, as with a wrong key: the run pauses
        ([says("There is nothing to query.")], None),
        ([calls(("write_report", '{"title": "T", "markdown": "M"}'))], None),  # waits for a person
        ([calls(LIST), calls(LIST), says("Done.")], "ask_model"),
        ([calls(("query_artifact", '{"sql": "SELECT 1", "artifacts": []}')), says("Done.")], "query_artifact"),
    ],
)
async def test_the_moment_of_the_kill_is_found_or_known_not_to_come(
    client: Client, settings: Settings, tmp_path: Path, replies: list[Reply], during: str | None
) -> None:
    """A run that pauses, waits for a person or ends before it queries anything does not hang the demo."""
    own = settings.model_copy(update={"data_dir": tmp_path})
    blobs = S3BlobStore.from_settings(settings)
    async with worker_for(client, own, blobs, FakeModel(replies)) as running:
        handle = await running.start(tools=["list_files", "query_artifact", "write_report"])
        assert await scheduled(client, handle.id, "query_artifact") == during
        with suppress(RPCError):  # it may have ended by itself
            await handle.terminate()
    await blobs.close()


def test_a_file_that_is_not_there_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, before any server is started."""
    assert main(["--file", "no/such.csv"]) == 2
    assert "no/such.csv is no file: make demo FILE=" in capsys.readouterr().out
