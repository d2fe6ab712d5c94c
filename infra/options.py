"""Arguments and options that several commands of `starter.py` take."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
CallArgument = Annotated[str, typer.Argument(metavar="[CALL]", help="Which call; not needed when only one waits.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, for scripts.")]
ByOption = Annotated[str | None, typer.Option("--by", help="Who decides; the user's name when left out.")]
SignOption = Annotated[
    Path | None,
    typer.Option(
        "--sign-with", metavar="FILE", help="Sign it with this private key, where the policy has its other half."
    ),
]
SignedForOption = Annotated[
    str, typer.Option("--signed-for", metavar="TIME", help="How long the signature counts: 90s, 10m, 2h, 3d.")
]
EditOption = Annotated[
    str | None,
    typer.Option(
        "--arguments", metavar="JSON|@FILE", help="Let it run with these arguments instead; the agent is told of it."
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="NAME=VALUE", help="With --for-run: only calls with such an argument; * stands for anything."
    ),
]
SIGNED_FOR = "10m"
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Watch the run until it ends.")]
RunIdOption = Annotated[str, typer.Option("--run-id", help="Which run, when several had the id; else the newest.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file instead.")]
AttachOption = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A file for the agent, of any size; repeat for more.")
]
NewIdOption = Annotated[
    str | None, typer.Option("--id", help="Id of the run; a second start under it attaches to the first.")
]
ModelOption = Annotated[
    str | None, typer.Option(help="Overrides the agent's model: anthropic:NAME, script:FILE, offline, ...")
]
TurnOption = Annotated[int | None, typer.Option(min=0, help="Only this turn, texts in full; long ones are artifacts.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Hash every node and artifact anew; 1 if one is bad.")]
