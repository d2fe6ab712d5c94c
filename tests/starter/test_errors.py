"""What goes wrong before a run: each fault has its exit code and a message that names the thing and the cure."""

from pathlib import Path

import pytest

from infra.settings import Settings
from infra.stack import LocalStack
from tests.starter.commands import Starter

NOWHERE = "127.0.0.1:9"


@pytest.fixture
def alone(agents_dir: Path, tmp_path: Path) -> Starter:
    """A starter without any server."""
    return Starter(
        {
            "PERDURE_AGENTS_DIR": str(agents_dir),
            "PERDURE_DATA_DIR": str(tmp_path),
            "TEMPORAL_ADDRESS": NOWHERE,
        }
    )


def s3_variables(settings: Settings, **other: str) -> dict[str, str]:
    """Return the variables of the stack's S3, some of them replaced."""
    key, secret = settings.s3_access_key_id, settings.s3_secret_access_key
    assert key is not None
    assert secret is not None
    return {
        "PERDURE_S3_ENDPOINT_URL": str(settings.s3_endpoint_url),
        "PERDURE_S3_BUCKET": settings.s3_bucket,
        "PERDURE_S3_ACCESS_KEY_ID": key.get_secret_value(),
        "PERDURE_S3_SECRET_ACCESS_KEY": secret.get_secret_value(),
        **other,
    }


@pytest.mark.parametrize("command", [["start", "publisher", "Do it."], ["watch", "one"]])
async def test_a_temporal_that_is_down_is_named_with_its_address_and_the_cure(
    alone: Starter, command: list[str]
) -> None:
    """Exit code 3, which address, how to start one."""
    ended = await alone(*command)
    assert ended.code == 3
    assert f"Temporal does not answer at {NOWHERE}" in ended.err
    assert "make up" in ended.err


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"PERDURE_S3_SECRET_ACCESS_KEY": "wrong"}, 2, "PERDURE_S3_SECRET_ACCESS_KEY"),
        ({"PERDURE_S3_BUCKET": "not-there"}, 2, "the bucket does not exist"),
        ({"PERDURE_S3_ENDPOINT_URL": f"http://{NOWHERE}"}, 3, NOWHERE),
    ],
)
async def test_a_store_that_refuses_or_is_down_stops_a_start(
    starter: Starter, stack: LocalStack, settings: Settings, variables: dict[str, str], code: int, said: str
) -> None:
    """Nothing is started when what the run needs could not be stored."""
    run = f"unstored-{code}-{len(said)}"
    there = starter.having(**s3_variables(settings, **variables))
    ended = await there("start", "publisher", "Do it.", "--id", run, "--json")
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.error()["message"]
    assert (await starter("state", run)).code == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], ""),
        (["dance"], "No such command"),
        (["state"], "Missing argument 'RUN'"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--phase", "asleep"], "--phase"),
        (["reject", "one"], "--reason"),
        (["start", "publischer", "Do it."], "did you mean publisher?"),
        (["start", "publisher", " "], "the task is empty"),
        (["start", "publisher", "Do it.", "--attach", "/none", "--attach", "/"], "'/none' is missing"),
        (["start", "publisher", "Do it.", "--id", ""], "the id of the run is empty"),
        (["start", "publisher", "Do it.", "--model", "script:none.yaml"], "names no file"),
        (["start", "publisher", "Do it.", "--model", "bogus:foo"], "there is no model 'bogus:foo'; known: offline"),
        (["start", "publisher", "Do it.", "--id", "-x"], "begins with -"),
    ],
)
async def test_wrong_use_is_told_before_any_server_is_asked(alone: Starter, arguments: list[str], said: str) -> None:
    """Exit code 2, and nothing on stdout that a script could take for an answer."""
    ended = await alone(*arguments, "--json") if arguments else await alone()
    assert ended.code == 2
    if arguments:
        assert ended.out == ""
        assert (ended.error()["exit_code"], said in ended.error()["message"]) == (2, True)
    else:
        assert "Exit codes" in ended.out


async def test_a_malformed_setting_is_named(alone: Starter) -> None:
    """The variable, its value and the cure."""
    ended = await alone.having(PERDURE_HEARTBEAT_TIMEOUT_SECONDS="soon")("agents")
    assert ended.code == 2
    assert "PERDURE_HEARTBEAT_TIMEOUT_SECONDS='soon'" in ended.err


async def test_agents_lists_the_good_and_tells_of_the_bad(alone: Starter, agents_dir: Path) -> None:
    """The list is complete, and exit code 2 says that a file wants mending."""
    assert (await alone("agents")).code == 0
    (agents_dir / "two.md").write_text("nothing", encoding="utf-8")
    ended = await alone("agents", "--json")
    assert ended.code == 2
    assert [agent["name"] for agent in ended.json()["agents"]] == ["publisher"]
    assert "two.md:1: the front matter is missing" in ended.error()["message"]


async def test_config_shows_what_is_in_force_without_secrets(starter: Starter, settings: Settings) -> None:
    """Every setting with its origin; no secret in plain."""
    ended = await starter("config", "--json")
    values = {row["setting"]: row["value"] for row in ended.json()}
    assert values["TEMPORAL_ADDRESS"] == settings.temporal.address
    assert not any(secret in ended.out for secret in settings.secrets())


async def test_an_unknown_run_is_exit_code_4(starter: Starter) -> None:
    """Whether it is looked at, watched or decided on."""
    for command in ("state", "watch", "approve"):
        ended = await starter(command, "nobody", "--json")
        assert (ended.code, ended.error()["kind"]) == (4, "RunNotFound")
