"""How a command of the client begins and ends: settings and quiet logs, clear errors, an exit code, a safe end."""

import asyncio
import errno
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import typer

from core.errors import PerdureError
from infra.display import Display
from infra.exits import FAILED, INTERRUPTED, OK, WRONG_INPUT, exit_code
from infra.logging import configure_logging
from infra.settings import Settings, load_settings

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


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
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(list(arguments), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
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
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        said = f"the output can't be written ({error.strerror}); write it elsewhere"
        Display(as_json="--json" in arguments).error("OutputError", said, FAILED)
        return FAILED
    return code if isinstance(code, int) else OK


def leave(code: int) -> None:
    """End the process with everything written: temporalio on CPython 3.11 can abort at interpreter exit.

    What can't be written makes a success a failure, unless its reader has gone, as in `| head`.
    """
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError, AttributeError):  # the reader has gone; or there never was a stdout
        pass
    except OSError:
        code = code or FAILED
    os._exit(code)


def _open_missing_streams() -> None:
    """Put the null device where a standard stream was closed: else the next file or socket would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or _null()
    sys.stderr = sys.stderr or _null()


def _null() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")
