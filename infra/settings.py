"""The settings: the environment is read here, once, and nowhere else.

Three layers, the first that has a variable wins: the process's environment, `.env` in the working directory, and
`stack.env`, which the local stack leaves in its data directory. An empty variable counts as not set. Two groups of the
last layer are taken whole or not at all, so that half of a local stack never mixes with servers of one's own: its S3
settings give way to any `PERDURE_S3_*` elsewhere; its Temporal address and timers to a Temporal address, API key or
profile elsewhere, unless that leads to the stack's own address.
"""

import difflib
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AliasGenerator,
    BeforeValidator,
    Field,
    InstanceOf,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticUndefined
from pydantic_settings import BaseSettings, DotEnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from temporalio.envconfig import ClientConfigProfile

from core.errors import InputError
from infra.setting_kinds import Bucket, Count, Names, Packages, Port, Seconds, Url
from infra.temporal_profile import leads_elsewhere, temporal_profile

STACK_FILE = "stack.env"
MASK = "********"
DEFAULT_TEMPORAL_ADDRESS = "localhost:7233"
_PREFIX = "PERDURE_"
NAMED_PREFIX = "PERDURE_SECRET_"
"""What stands before the name of a secret of tools; they are no settings, and never shown."""
_LOGIN = re.compile(r"(://)[^/@\s]*@")
_SECRET_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL")


def _variable(field: str) -> str:
    return f"{_PREFIX}{field.upper()}" + ("_SECONDS" if field.endswith("_timeout") else "")


class Settings(BaseSettings):
    """All settings. Constructed in code it holds what it is given; only `load_settings` reads the environment."""

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=_variable),
        populate_by_name=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: object, **__: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what the constructor is given: settings made in code never depend on the machine."""
        del settings_cls
        return (init_settings,)

    # Where things lie: folders relative to the working directory, and packages with tools besides `activities.tools`.
    data_dir: Path = Path(".local")
    agents_dir: Path = Path("agents")
    tools: Packages = ()

    # Temporal: the connection comes from `temporalio.envconfig`, not from PERDURE_* variables.
    temporal: InstanceOf[ClientConfigProfile] = Field(
        default=ClientConfigProfile(), validation_alias="temporal", repr=False, exclude=True
    )
    # A worker serves `task_queue`, and of the task queues that tools have of their own those that are named.
    task_queue: str = Field(default="perdure", min_length=1)
    tool_queues: Names = ()

    # S3. No endpoint means AWS; no credentials mean boto3's own chain (profile, role, ...).
    s3_endpoint_url: Url | None = None
    s3_bucket: Bucket = "perdure"
    s3_region: str = Field(default="us-east-1", min_length=1)
    s3_access_key_id: SecretStr | None = None
    s3_secret_access_key: SecretStr | None = None
    s3_checksum_mode: Literal["when_supported", "when_required"] = "when_required"
    s3_addressing_style: Literal["auto", "path", "virtual"] = Field(
        default_factory=lambda data: "path" if data.get("s3_endpoint_url") else "auto"
    )

    # Models. Without `model` the provider is chosen by the keys that are set.
    model: str | None = None
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: Url | None = Field(default=None, validation_alias="ANTHROPIC_BASE_URL")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: Url | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    google_api_key: SecretStr | None = Field(default=None, validation_alias="GOOGLE_API_KEY")
    google_base_url: Url | None = Field(default=None, validation_alias="GOOGLE_BASE_URL")
    bedrock_base_url: Url | None = Field(default=None, validation_alias="BEDROCK_BASE_URL")
    # How long an answer may let one wait: for its first chunk, since the model reads a long prompt first; between two.
    model_first_chunk_timeout: Seconds = timedelta(seconds=300)
    model_chunk_timeout: Seconds = timedelta(seconds=180)
    # Whether providers that cache a prompt only when they are told to (Anthropic, Bedrock) are told to.
    prompt_cache: bool = True

    # What tools read by `context.secret(...)`: PERDURE_SECRET_NAME by its name in upper case, and a folder of files.
    named_secrets: Mapping[str, SecretStr] = Field(
        default={}, validation_alias="named_secrets", repr=False, exclude=True
    )
    secrets_dir: Path | None = None

    # Of the starter: the passphrase of the private keys that people sign their decisions with.
    key_passphrase: SecretStr | None = None

    # How fast a dead worker is noticed: in a tool, between steps, and on its own queue.
    heartbeat_timeout: Seconds = timedelta(seconds=10)
    workflow_task_timeout: Seconds = timedelta(seconds=10)
    sticky_timeout: Seconds = timedelta(seconds=5)
    graceful_shutdown_timeout: Seconds = timedelta(seconds=30)

    # Bounds and logs of one worker; "auto" is console on a terminal, JSON lines otherwise.
    max_concurrent_activities: Count = 50
    max_concurrent_workflow_tasks: Count = 50
    journal_cache_bytes: Count = 64 * 1024**2
    artifact_cache_bytes: Count = 2 * 1024**3
    log_format: Literal["auto", "console", "json"] = "auto"
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(str.upper)] = "INFO"

    # The local stack's ports; None takes a free one and keeps it.
    local_temporal_port: Port | None = None
    local_ui_port: Port | None = None
    local_s3_port: Port | None = None

    # Which layer each variable came from, by the variable's name; what is missing is a default.
    origins: Mapping[str, str] = Field(default={}, validation_alias="origins", repr=False, exclude=True)

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.heartbeat_timeout >= self.graceful_shutdown_timeout:
            raise ValueError(
                f"PERDURE_HEARTBEAT_TIMEOUT_SECONDS ({_show(self.heartbeat_timeout)}) must be less than "
                f"PERDURE_GRACEFUL_SHUTDOWN_TIMEOUT_SECONDS ({_show(self.graceful_shutdown_timeout)}): change one"
            )
        if self.workflow_task_timeout > timedelta(seconds=120):
            raise ValueError("PERDURE_WORKFLOW_TASK_TIMEOUT_SECONDS must be 120 or less: the server knows no more")
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            raise ValueError("PERDURE_S3_ACCESS_KEY_ID and PERDURE_S3_SECRET_ACCESS_KEY: set both or neither")
        return self

    def secrets(self) -> tuple[str, ...]:
        """Return the plain values that must never be shown, for the logs to mask; Temporal's API key is one of them."""
        values = [getattr(self, name) for name in type(self).model_fields]
        plain = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        return (*plain, self.temporal.api_key) if self.temporal.api_key else tuple(plain)


_VARIABLES = {
    str(field.validation_alias): name
    for name, field in Settings.model_fields.items()
    if name not in {"temporal", "origins", "named_secrets"}
}


def load_settings(environment: Mapping[str, str] | None = None, env_file: Path | None = Path(".env")) -> Settings:
    """Read the settings; `environment` stands in for the process's own, `env_file` None reads no such file.

    Raises:
        InputError: a variable is unknown or malformed; names each with its value (secrets masked) and the cure.
    """
    environment = os.environ if environment is None else environment
    # A variable that is empty in the environment counts as not set and still hides the one in the file.
    filed = {} if env_file is None else _read_file(env_file)
    layers = [
        ("environment", _without_empty(environment)),
        (str(env_file), {name: value for name, value in filed.items() if name not in environment}),
    ]
    layers.append(_stack_layer(layers[1][1] | layers[0][1]))
    values = {name: value for _, variables in reversed(layers) for name, value in variables.items()}
    origins = {name: layer for layer, variables in reversed(layers) for name in variables}
    named = {name: value for name, value in values.items() if _names_a_secret(name)}
    others = {name: value for name, value in values.items() if name not in named}
    known: dict[str, object] = {
        name: it for name, it in others.items() if name.startswith(_PREFIX) or name in _VARIABLES
    }
    known["named_secrets"] = {name.removeprefix(NAMED_PREFIX).upper(): value for name, value in named.items()}
    try:
        return Settings.model_validate({**known, "temporal": temporal_profile(values), "origins": origins})
    except ValidationError as error:
        raise InputError(_explain(error.errors(), values, origins)) from None


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Return every setting in force as (variable, value, where it came from), secrets masked; Temporal's come first."""
    profile = settings.temporal
    tls = profile.tls.disabled is not True if profile.tls else bool(profile.api_key)
    temporal = [
        ("TEMPORAL_ADDRESS", profile.address or DEFAULT_TEMPORAL_ADDRESS, profile.address),
        ("TEMPORAL_NAMESPACE", profile.namespace or "default", profile.namespace),
        ("TEMPORAL_TLS", "on" if tls else "off", profile.tls),
        ("TEMPORAL_API_KEY", MASK if profile.api_key else "not set", profile.api_key),
    ]
    rows = [(name, text, _origin(name, settings, from_file=value is not None)) for name, text, value in temporal]
    return rows + [(name, _show(getattr(settings, key)), _origin(name, settings)) for name, key in _VARIABLES.items()]


def inherited_environment(*without: str) -> dict[str, str]:
    """Return the process's environment for a child, less the variables that start with one of `without`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(without)}


def forget_secrets() -> None:
    """Take the secrets of tools out of this process's environment, which what tools start would inherit."""
    for name in filter(_names_a_secret, list(os.environ)):
        del os.environ[name]


def _names_a_secret(variable: str) -> bool:
    # PERDURE_SECRET_DIR is PERDURE_SECRETS_DIR, misspelt: it is refused as such.
    return variable.startswith(NAMED_PREFIX) and variable != f"{NAMED_PREFIX}DIR"


def _without_empty(variables: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value.strip() for name, value in variables.items() if value and value.strip()}


def _read_file(path: Path) -> dict[str, str]:
    """Read a file of NAME=value lines; no file is no variables."""
    try:
        return _without_empty(DotEnvSettingsSource(Settings, env_file=path, case_sensitive=True).env_vars)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} can't be read ({error}): make it a UTF-8 text file of NAME=value lines, or correct its path"
        ) from error


def _stack_layer(above: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return what the local stack left behind, less the groups that the layers above decide."""
    path = Path(above.get("PERDURE_DATA_DIR", Settings.model_fields["data_dir"].default)) / STACK_FILE
    left = _read_file(path)
    own_s3 = any(name.startswith("PERDURE_S3_") for name in above)
    own_temporal = leads_elsewhere(above, left.get("TEMPORAL_ADDRESS"))
    variables = {
        name: value
        for name, value in left.items()
        if not (own_s3 and name.startswith("PERDURE_S3_"))
        and not (own_temporal and (name.startswith("TEMPORAL_") or name.endswith("_TIMEOUT_SECONDS")))
    }
    return f"local stack ({path})", variables


def _explain(problems: list[ErrorDetails], values: Mapping[str, str], origins: Mapping[str, str]) -> str:
    """Write one line per problem: variable, value, layer, reason, cure."""
    lines = ["the settings are wrong:"]
    for problem in problems:
        reason = problem["msg"].removeprefix("Value error, ")
        variable = str(problem["loc"][0]) if problem["loc"] else ""
        if not variable:
            lines.append(f"  {reason}")
        elif variable in origins:  # else it is a default that could not be computed: it follows from another line
            # A misspelt name may well hold a secret, so that the name decides.
            shown = MASK if _SECRET_NAMES.search(variable) else repr(_LOGIN.sub(rf"\1{MASK}@", values[variable]))
            lines.append(f"  {variable}={shown} (from {origins[variable]}): {_cure(variable, reason)}")
    return "\n".join(lines)


def _cure(variable: str, reason: str) -> str:
    if variable in _VARIABLES:
        default = Settings.model_fields[_VARIABLES[variable]].default
        return f"{reason}; correct it, or unset it (default: {_show(default)})"
    # Without the prefix, which all have in common and which would make any two of them look alike.
    known = {name.removeprefix(_PREFIX): name for name in _VARIABLES}
    near = difflib.get_close_matches(variable.removeprefix(_PREFIX), known, n=1)
    return f"there is no such setting; {f'did you mean {known[near[0]]}?' if near else 'unset it'}"


def _origin(variable: str, settings: Settings, *, from_file: bool = False) -> str:
    """Name the layer; TEMPORAL_TLS also counts as set by TEMPORAL_TLS_CLIENT_CERT_PATH and its like."""
    named = [layer for name, layer in settings.origins.items() if name == variable or name.startswith(f"{variable}_")]
    return named[0] if named else ("Temporal configuration file" if from_file else "default")


def _show(value: object) -> str:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "not set" if value is None or value is PydanticUndefined else str(value)
