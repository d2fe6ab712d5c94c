"""The command of `starter.py` by which people get a key to sign their decisions with."""

import json
from pathlib import Path
from typing import Annotated

import typer

from infra.display import Display
from infra.exits import OK
from infra.launch import user_name
from infra.options import JsonOption
from infra.process import client_settings, finish
from infra.signing_keys import make_key

keys = typer.Typer()


@keys.command()
def keygen(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key is written: a new file.")],
    *,
    name: Annotated[str | None, typer.Option("--name", help="Whose it is; the user's name when left out.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a key to sign decisions with, and print the line for the agents' files."""
    display = Display(as_json=as_json)
    return finish(display, _make(display, path, name))


async def _make(display: Display, path: Path, name: str | None) -> int:
    made = make_key(path, user_name() if name is None else name, client_settings().key_passphrase)
    if display.as_json:
        display.document(made)
    else:
        display.out.print(f"{json.dumps(made.name, ensure_ascii=False)}: {made.public_key}")
        display.note(f"{path} is the private key: nobody else may have it. The line goes under keys: in agents' files.")
    return OK
