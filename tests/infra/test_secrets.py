"""Where the secrets of tools are: variables, files of a folder, and what is refused without being shown."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from pydantic import SecretStr, ValidationError

from core.agents import AgentHeader
from core.errors import InputError, SecretMissing
from infra.agent_files import read_agent
from infra.logging import configure_logging
from infra.secrets import FILE_BYTES, EnvironmentSecrets
from infra.settings import Settings, describe, forget_secrets, load_settings

VALUE = "open-sesame-7719"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as Docker mounts it."""
    made = tmp_path / "secrets"
    made.mkdir()
    return made


@pytest.fixture
def restored() -> Iterator[None]:
    """The log as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def load(**environment: str) -> Settings:
    """Load settings from these variables alone."""
    return load_settings({"TEMPORAL_CONFIG_FILE": "/dev/null", "PERDURE_DATA_DIR": "/nonexistent", **environment}, None)


def missing(folder: Path | None, name: str = "token") -> str:
    """Return what is said when a secret of the folder can't be had."""
    with pytest.raises(SecretMissing) as error:
        EnvironmentSecrets({}, folder).secret(name)
    return str(error.value)


def test_a_variable_is_a_secret_under_its_name_in_any_case(folder: Path) -> None:
    """It wins over a file."""
    (folder / "github_token").write_text("of the file")
    settings = load(PERDURE_SECRET_GITHUB_TOKEN=VALUE, PERDURE_SECRETS_DIR=str(folder))
    source = EnvironmentSecrets.from_settings(settings)
    assert source.secret("github_token") == source.secret("GITHUB_TOKEN") == VALUE


def test_a_file_is_a_secret_without_its_last_line_end(folder: Path) -> None:
    """One line end, as editors and `echo` write it; it is read anew each time."""
    source = EnvironmentSecrets({}, folder)
    for written, read in ((VALUE, VALUE), (f"{VALUE}\n", VALUE), (f"{VALUE}\r\n", VALUE), (" a\nb \n\n", " a\nb \n")):
        (folder / "token").write_bytes(written.encode())
        assert source.secret("token") == read


def test_links_may_lead_about_inside_of_the_folder(folder: Path) -> None:
    """So does Kubernetes mount secrets: what changes is one link."""
    (folder / "..2026_01").mkdir()
    (folder / "..2026_01" / "token").write_text(VALUE)
    (folder / "..data").symlink_to("..2026_01")
    (folder / "token").symlink_to("..data/token")
    assert EnvironmentSecrets({}, folder).secret("token") == VALUE


def test_a_missing_secret_is_named_with_every_place_for_it(folder: Path) -> None:
    """The variable, the file, and what to do then."""
    for text in (missing(folder), missing(folder / "nowhere")):
        assert text.startswith("there is no secret token: write it into the file token of ")
        assert "PERDURE_SECRET_TOKEN where the workers start and restart them; then resume" in text
    assert "PERDURE_SECRETS_DIR" in missing(None)


@pytest.mark.parametrize("name", ["../token", "a/b", "..", "", "a-b", "a" * 65, "a\n", "/etc/passwd"])
def test_what_is_no_name_reads_no_file(folder: Path, name: str) -> None:
    """No name leads out of the folder."""
    (folder.parent / "token").write_text(VALUE)
    assert "has at most 64 letters, digits and _" in missing(folder, name)


def test_a_file_that_can_not_be_a_secret_is_refused_with_the_reason(folder: Path) -> None:
    """Links out of the folder, folders, pipes, bytes, circles, and files without end."""
    token = folder / "token"
    outside = folder.parent / "outside"
    outside.write_text(VALUE)
    token.symlink_to(outside)
    assert "it is a link that leads out of the folder" in missing(folder)
    token.unlink()
    token.symlink_to("/dev/zero")
    assert "it is a link that leads out of the folder" in missing(folder)
    token.unlink()
    token.symlink_to(token)
    assert "can't be used as secret token, " in missing(folder)
    token.unlink()
    token.mkdir()
    assert "it is no regular file" in missing(folder)
    token.rmdir()
    os.mkfifo(token)
    assert "it is no regular file" in missing(folder)
    token.unlink()
    token.write_bytes(b"\xff" + VALUE.encode())
    assert "it is no UTF-8 text" in missing(folder)
    assert VALUE not in missing(folder)
    token.write_bytes(b"x" * (FILE_BYTES + 1))
    assert "it has more than 65,536 bytes" in missing(folder)
    token.write_bytes(b"x" * FILE_BYTES)
    assert len(EnvironmentSecrets({}, folder).secret("token")) == FILE_BYTES


def test_a_variable_that_is_no_text_is_refused() -> None:
    """Bytes that are no UTF-8 can't be sent by any tool."""
    with pytest.raises(SecretMissing, match="PERDURE_SECRET_TOKEN is no UTF-8 text"):
        EnvironmentSecrets({"TOKEN": SecretStr("abc\udcff")}, None).secret("token")


def test_a_variable_of_a_secret_is_no_setting_and_never_shown() -> None:
    """Not refused as unknown, not in what `config` prints, not in what prints settings."""
    settings = load(PERDURE_SECRET_GITHUB_TOKEN=VALUE)
    shown = str(describe(settings)) + repr(settings) + str(settings.model_dump())
    assert VALUE not in shown
    assert "GITHUB_TOKEN" not in shown
    with pytest.raises(InputError) as error:
        load(PERDURE_SECRET_GITHUB_TOKEN=VALUE, PERDURE_LOG_FORMAT="xml")
    assert VALUE not in str(error.value)


def test_the_folder_of_secrets_misspelt_is_no_secret() -> None:
    """It would otherwise be a secret called DIR, and the folder be missed in silence."""
    with pytest.raises(InputError, match=r"did you mean PERDURE_SECRETS_DIR\?"):
        load(PERDURE_SECRET_DIR="/run/secrets")


def test_a_secret_may_stand_in_the_env_file(tmp_path: Path) -> None:
    """As any variable; the environment wins."""
    file = tmp_path / ".env"
    file.write_text(f"PERDURE_SECRET_A={VALUE}\nPERDURE_SECRET_B={VALUE}\n")
    environment = {"TEMPORAL_CONFIG_FILE": "/dev/null", "PERDURE_DATA_DIR": "/nonexistent", "PERDURE_SECRET_B": "mine"}
    source = EnvironmentSecrets.from_settings(load_settings(environment, file))
    assert (source.secret("a"), source.secret("b")) == (VALUE, "mine")


def test_a_worker_takes_the_secrets_out_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tools start would inherit them, declared or not."""
    monkeypatch.setenv("PERDURE_SECRET_GITHUB_TOKEN", VALUE)
    monkeypatch.setenv("PERDURE_SECRETS_DIR", "/run/secrets")
    forget_secrets()
    assert "PERDURE_SECRET_GITHUB_TOKEN" not in os.environ
    assert "PERDURE_SECRETS_DIR" in os.environ


def test_what_was_handed_out_is_in_no_log_line_from_then_on(folder: Path, restored: None) -> None:
    """Of any logger and thread, in events, values and exceptions; a variable's from the start on."""
    stream, value = io.StringIO(), "seen-by-no-reader-31"
    other = 'of"the\\environment-ü'
    configure_logging(Settings(named_secrets={"OTHER": SecretStr(other)}, secrets_dir=folder), stream)
    (folder / "token").write_text(value)
    EnvironmentSecrets({}, folder).secret("token")
    structlog.stdlib.get_logger("ours").info(f"it is {value}", key=other, more={"deep": [value]})
    try:
        raise ValueError(value, other)
    except ValueError:
        logging.getLogger("library").exception("with %s and %r", value, other)
    written = stream.getvalue()
    assert value not in written
    assert "environment-" not in written
    assert len([json.loads(line) for line in written.splitlines()]) == 2
    assert written.count("[secret token]") >= 4
    assert written.count("[secret OTHER]") >= 3


def agent_file(folder: Path, secrets: str) -> Path:
    """Write an agent's file whose front matter says this of secrets."""
    path = folder / "helper.md"
    path.write_text(f"---\nname: helper\ndescription: Helps.\n{secrets}\n---\nHelp.\n")
    return path


def test_an_agents_file_names_the_secrets_of_its_tools(tmp_path: Path) -> None:
    """With quotes or without; none by default."""
    quoted = agent_file(tmp_path, 'secrets: {api_token: "secret:GITHUB_TOKEN"}')
    assert read_agent(quoted).secrets == {"api_token": "secret:GITHUB_TOKEN"}
    assert read_agent(agent_file(tmp_path, "secrets:\n  a: secret:B")).secrets == {"a": "secret:B"}
    assert read_agent(agent_file(tmp_path, "")).secrets == {}


@pytest.mark.parametrize(
    "secrets",
    [
        "secrets: {api_token: 991177}",
        "secrets: {api_token: hush-991177}",
        "secrets: {api_token: 'secret:hush-991177'}",
        "secrets: {api_token: {secret: hush-991177}}",
        "secrets: {api_token: [hush-991177]}",
        "secrets: {hush-991177: secret:A}",
        "secrets: {991177: secret:A}",
        "secrets: hush-991177",
        "secrets: [hush-991177]",
        "secret: {api_token: hush-991177}",
    ],
)
def test_a_value_in_an_agents_file_is_refused_and_not_repeated(tmp_path: Path, secrets: str) -> None:
    """The text says where it stands and what to write; who builds the agent in code reads no value either."""
    with pytest.raises(InputError) as error:
        read_agent(agent_file(tmp_path, secrets))
    assert "991177" not in str(error.value)
    assert "helper.md:4: secret" in str(error.value)
    if "secrets" in secrets:
        assert "secret:NAME, and give its value to the workers: a secret is never written here" in str(error.value)
    with pytest.raises(ValidationError) as invalid:
        AgentHeader.model_validate({"name": "helper", "description": "Helps.", "secrets": {"a": "hush-991177"}})
    assert "991177" not in str(invalid.value)
