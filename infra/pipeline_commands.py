"""Commands of `starter.py pipeline`: show a file, start it, see where a run stands, decide, run it again."""

from typing import Annotated

import typer

from infra import pipelines
from infra.display import Display
from infra.options import JsonOption
from infra.process import finish

pipeline = typer.Typer(help="Pipelines: steps of agents, tools and people.", no_args_is_help=True)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline's file, or its name in pipelines/.")]


@pipeline.command()
def show(
    file: FileArgument,
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As Mermaid, for documents.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Check a pipeline's file and draw its steps; starts nothing."""
    display = Display(as_json=as_json)
    return finish(display, pipelines.show_file(display, file, as_mermaid=mermaid))
