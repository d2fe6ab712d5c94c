"""The settings: where they come from, what is refused, and what is never shown."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.errors import InputError
from infra.settings import MASK, Settings, describe, load_settings

STACK = """TEMPORAL_ADDRESS=127.0.0.1:17233
PERDURE_S3_ENDPOINT_URL=http://127.0.0.1:18333
PERDURE_S3_ACCESS_KEY_ID=localkey
PERDURE_S3_SECRET_ACCESS_KEY=localsecret
PERDURE_HEARTBEAT_TIMEOUT_SECONDS=2
"""


@pytest.fixture
def stack_dir(tmp_path: Path) -> str:
    """A data directory in which a local stack has run."""
    (tmp_path / "stack.env").write_text(STACK)
    return str(tmp_path)


def load(env_file: Path | None = None, /, **environment: str) -> Settings:
    """Load settings from these variables alone."""
    return load_settings(
        {"TEMPORAL_CONFIG_FILE": "/dev/null", "PERDURE_DATA_DIR": "/nonexistent", **environment}, env_file
    )


def complaint(**environment: str) -> str:
    """Return what is said about these variables."""
    with pytest.raises(InputError) as error:
        load(**environment)
    return str(error.value)


def shown(settings: Settings) -> dict[str, tuple[str, str]]:
    """Return value and origin by variable."""
    return {variable: (value, origin) for variable, value, origin in describe(settings)}


def test_without_any_variable_all_settings_have_sane_defaults() -> None:
    """Nothing set: local defaults, the timers of production, AWS's endpoint."""
    settings = load()
    assert settings.task_queue == "perdure"
    assert settings.heartbeat_timeout == timedelta(seconds=10)
    assert (settings.s3_endpoint_url, settings.s3_addressing_style) == (None, "auto")


def test_an_endpoint_of_ones_own_is_addressed_by_path() -> None:
    """A bucket in the host name needs DNS, which only AWS has for sure; a choice of one's own wins."""
    endpoint = "http://127.0.0.1:9000"
    assert load(PERDURE_S3_ENDPOINT_URL=endpoint).s3_addressing_style == "path"
    chosen = load(PERDURE_S3_ENDPOINT_URL=endpoint, PERDURE_S3_ADDRESSING_STYLE="virtual")
    assert chosen.s3_addressing_style == "virtual"


def test_variables_are_parsed_into_units_and_lists() -> None:
    """Seconds become timedeltas, commas separate packages, log levels may be written small."""
    settings = load(PERDURE_STICKY_TIMEOUT_SECONDS="2.5", PERDURE_TOOLS="a.tools, b", PERDURE_LOG_LEVEL="debug")
    assert settings.sticky_timeout == timedelta(seconds=2.5)
    assert settings.tools == ("a.tools", "b")
    assert settings.log_level == "DEBUG"


def test_the_environment_wins_over_the_env_file(tmp_path: Path) -> None:
    """First the environment, then `.env`; an empty variable is not set, yet hides the file's."""
    file = tmp_path / ".env"
    file.write_text("PERDURE_TASK_QUEUE=filed\nPERDURE_S3_BUCKET=filed\nPERDURE_MODEL=filed\nexport UNRELATED='x'\n")
    settings = load(file, PERDURE_TASK_QUEUE="given", PERDURE_MODEL="")
    assert (settings.task_queue, settings.s3_bucket, settings.model) == ("given", "filed", None)
    assert shown(settings)["PERDURE_S3_BUCKET"] == ("filed", str(file))


def test_settings_made_in_code_never_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `load_settings` reads variables."""
    monkeypatch.setenv("PERDURE_TASK_QUEUE", "from-the-machine")
    assert Settings(s3_bucket="mine").task_queue == "perdure"
    assert load_settings(env_file=None).task_queue == "from-the-machine"


def test_what_the_local_stack_left_is_the_last_resort(stack_dir: str) -> None:
    """Without other settings, commands find the stack by its file."""
    settings = load(PERDURE_DATA_DIR=stack_dir)
    assert settings.temporal.address == "127.0.0.1:17233"
    assert settings.s3_endpoint_url == "http://127.0.0.1:18333"
    assert settings.heartbeat_timeout == timedelta(seconds=2)
    assert shown(settings)["TEMPORAL_ADDRESS"][1].startswith("local stack")


def test_a_bucket_of_ones_own_never_meets_the_local_stacks_endpoint(stack_dir: str) -> None:
    """One PERDURE_S3 variable anywhere else, and none of the stack's is used; Temporal stays the stack's."""
    settings = load(PERDURE_DATA_DIR=stack_dir, PERDURE_S3_BUCKET="production")
    assert (settings.s3_endpoint_url, settings.s3_secret_access_key) == (None, None)
    assert settings.temporal.address == "127.0.0.1:17233"


@pytest.mark.parametrize("how", ["TEMPORAL_ADDRESS", "TEMPORAL_CONFIG_FILE", "TEMPORAL_PROFILE"])
def test_a_temporal_of_ones_own_wins_over_the_local_stack(how: str, stack_dir: str, tmp_path: Path) -> None:
    """Address, configuration file or profile: then neither the stack's address nor its quick timers are used."""
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.default]\naddress = "own:7233"\n[profile.other]\naddress = "own:7233"\n')
    variables = {"TEMPORAL_CONFIG_FILE": str(file)}
    if how == "TEMPORAL_ADDRESS":
        variables = {"TEMPORAL_ADDRESS": "own:7233"}
    if how == "TEMPORAL_PROFILE":
        variables |= {"TEMPORAL_PROFILE": "other"}
    settings = load(PERDURE_DATA_DIR=stack_dir, **variables)
    assert settings.temporal.address == "own:7233"
    assert settings.heartbeat_timeout == timedelta(seconds=10)


@pytest.mark.parametrize("address", ["127.0.0.1:17233", "localhost:17233"])
def test_the_stacks_own_address_written_down_changes_nothing(address: str, stack_dir: str) -> None:
    """It is exported for Temporal's own command; the stack's quick timers stay, else dead workers are noticed late."""
    settings = load(PERDURE_DATA_DIR=stack_dir, TEMPORAL_ADDRESS=address)
    assert settings.temporal.address == address
    assert settings.heartbeat_timeout == timedelta(seconds=2)


def test_temporals_variables_may_stand_in_the_env_file(tmp_path: Path) -> None:
    """Also the API key, which is shown as set and turns TLS on, but is never shown itself."""
    file = tmp_path / ".env"
    file.write_text("TEMPORAL_ADDRESS=cloud:7233\nTEMPORAL_API_KEY=topsecret\n")
    settings = load(file)
    assert shown(settings)["TEMPORAL_ADDRESS"] == ("cloud:7233", str(file))
    assert shown(settings)["TEMPORAL_API_KEY"] == (MASK, str(file))
    assert shown(settings)["TEMPORAL_TLS"][0] == "on"


@pytest.mark.parametrize(
    "variable", ["PERDURE_S3_ENDPOINT_URL", "OPENAI_BASE_URL", "GOOGLE_BASE_URL", "BEDROCK_BASE_URL"]
)
def test_an_address_with_a_password_is_refused_and_not_shown(variable: str) -> None:
    """It would be shown by `config` and stand in logs."""
    text = complaint(**{variable: "https://ana:topsecret@s3.example.com"})
    assert f"{variable}='https://{MASK}@s3.example.com'" in text
    assert "must not carry a user or password" in text
    assert "topsecret" not in text


def test_a_misspelt_variable_is_refused_with_the_right_name() -> None:
    """It would otherwise be ignored in silence."""
    text = complaint(PERDURE_S3_BUKET="mine")
    assert "PERDURE_S3_BUKET='mine'" in text
    assert "did you mean PERDURE_S3_BUCKET?" in text


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("PERDURE_BOGUS", None),
        ("PERDURE_NONSENSE", None),
        ("PERDURE_MODELS", "PERDURE_MODEL"),
        ("PERDURE_BUCKET", "PERDURE_S3_BUCKET"),
        ("PERDURE_OPENAI_API_KEY", "OPENAI_API_KEY"),
    ],
)
def test_only_a_name_that_is_near_is_proposed(variable: str, near: str | None) -> None:
    """The prefix, which all names have, makes none near."""
    cure = "unset it" if near is None else f"did you mean {near}?"
    assert f"there is no such setting; {cure}" in complaint(**{variable: "x"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PERDURE_MAX_CONCURRENT_ACTIVITIES", "many"),
        ("PERDURE_MAX_CONCURRENT_ACTIVITIES", "0"),
        ("PERDURE_HEARTBEAT_TIMEOUT_SECONDS", "soon"),
        ("PERDURE_HEARTBEAT_TIMEOUT_SECONDS", "nan"),
        ("PERDURE_HEARTBEAT_TIMEOUT_SECONDS", "-1"),
        ("PERDURE_HEARTBEAT_TIMEOUT_SECONDS", "1e300"),
        ("PERDURE_S3_ENDPOINT_URL", "localhost:9000"),
        ("PERDURE_S3_BUCKET", "ab"),
        ("PERDURE_S3_CHECKSUM_MODE", "sometimes"),
        ("PERDURE_TOOLS", "not-a-package"),
        ("PERDURE_LOG_LEVEL", "loud"),
        ("PERDURE_LOCAL_S3_PORT", "70000"),
    ],
)
def test_a_malformed_value_is_refused_with_its_variable_and_the_cure(variable: str, value: str) -> None:
    """One message: variable, value, where it was set, what is wrong, what to do."""
    text = complaint(**{variable: value})
    assert f"{variable}={value!r} (from environment)" in text
    assert "correct it, or unset it (default: " in text


def test_all_problems_are_told_at_once() -> None:
    """Nobody likes to correct one variable only to hear of the next; nothing else is reported along with them."""
    text = complaint(PERDURE_S3_ENDPOINT_URL="nowhere", PERDURE_LOG_FORMAT="xml", PERDURE_NONSENSE="1")
    assert len(text.splitlines()) == 4


def test_settings_that_contradict_each_other_are_refused() -> None:
    """A drain shorter than a heartbeat, a task timeout that no server grants, half a pair of credentials."""
    assert "PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS" in complaint(PERDURE_HEARTBEAT_TIMEOUT_SECONDS="30")
    assert "120" in complaint(PERDURE_WORKFLOW_TASK_TIMEOUT_SECONDS="121")
    assert "PERDURE_S3_ACCESS_KEY_ID" in complaint(PERDURE_S3_SECRET_ACCESS_KEY="hush-hush")


def test_temporals_configuration_is_checked_where_the_sdk_stays_silent(tmp_path: Path) -> None:
    """A missing file, an unknown profile, a word that is no boolean, a file that is no TOML."""
    broken = tmp_path / "broken.toml"
    broken.write_text("[profile.default\n")
    assert "there is no such file" in complaint(TEMPORAL_CONFIG_FILE="/nonexistent.toml")
    assert "nope" in complaint(TEMPORAL_PROFILE="nope")
    assert "TEMPORAL_TLS='perhaps'" in complaint(TEMPORAL_TLS="perhaps")
    assert "can't be read" in complaint(TEMPORAL_CONFIG_FILE=str(broken))


def test_an_unreadable_env_file_is_named(tmp_path: Path) -> None:
    """Bytes that are no text, for instance."""
    file = tmp_path / ".env"
    file.write_bytes(b"PERDURE_MODEL=\xff\xfe\n")
    with pytest.raises(InputError, match=r"\.env can't be read"):
        load(file)


def test_secrets_are_never_shown() -> None:
    """Not by describe, not by repr, not in complaints about them or about misspelt names of theirs."""
    secret = "s3cr3t-value"
    settings = load(
        PERDURE_S3_ACCESS_KEY_ID=secret,
        PERDURE_S3_SECRET_ACCESS_KEY=secret,
        OPENAI_API_KEY=secret,
        TEMPORAL_API_KEY=secret,
    )
    assert secret not in str(describe(settings)) + repr(settings) + str(settings.model_dump())
    assert shown(settings)["OPENAI_API_KEY"] == (MASK, "environment")
    assert settings.openai_api_key == SecretStr(secret)
    assert set(settings.secrets()) == {secret}
    assert secret not in complaint(PERDURE_S3_SECRET_KEY=secret)
    assert secret not in complaint(PERDURE_S3_SECRET_ACCESS_KEY=secret, PERDURE_LOG_FORMAT="xml")
