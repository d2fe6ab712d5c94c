"""How a command of the client begins and ends: settings and quiet logs, clear errors, an exit code, a safe end."""

import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import typer

from core.errors import PerdureError
from infra.display import Display
from infra.exits import INTERRUPTED, OK, WRONG_INPUT, exit_code
from infra.logging import configure_logging
from infra.settings import Settings, load_settings


def client_settings() -> Settings:
    """Read the settings and set up logs on stderr: errors only, unless a level was asked for.

    Raises:
        InputError: a setting is malformed.
    """
    settings = load_settings()
    quiet = {} if "PERDURE_LOG_LEVEL" in settings.origins else {"log_level": "ERROR"}
    configure_logging(settings.model_copy(update=quiet))
    return settings


def finish(display: Display, work: Coroutine[Any, Any, int]) -> int:
    """Do a command's work and return its exit code; every expected error becomes one clear message here."""
    try:
        return asyncio.run(work)
    except PerdureError as error:
        code = exit_code(error)
        display.error(type(error).__name__, str(error), code)
        return code
    except KeyboardInterrupt:
        display.note(display.on_interrupt)
        return INTERRUPTED


def run_command(app: typer.Typer, name: str, arguments: Sequence[str]) -> int:
    """Run one command line of an app and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(list(arguments), prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", name)
        if message := error.format_message():
            said = f"{message} See: python {command} --help"
            Display(as_json="--json" in arguments).error("UsageError", said, WRONG_INPUT)
        return WRONG_INPUT
    except typer.Abort:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader has gone, as in `| head`: it has what it wanted
        return OK
    return code if isinstance(code, int) else OK


def leave(code: int) -> None:
    """End the process with everything written: temporalio on CPython 3.11 can abort at interpreter exit."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(code)
