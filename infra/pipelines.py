"""What the commands of `starter.py pipeline` do. Each returns its exit code, and raises only `PerdureError`s."""

from rich.text import Text

from core.pipelines.graph import mermaid, tree
from infra.display import Display, printable
from infra.exits import OK
from infra.pipeline_files import agents_of, find_pipeline, read_pipeline
from infra.process import client_settings


async def show_file(display: Display, file: str, *, as_mermaid: bool) -> int:
    """Check a pipeline's file and draw it."""
    path = find_pipeline(file)
    pipeline = read_pipeline(path)
    agents_of(pipeline, path, client_settings().agents_dir)
    drawn = mermaid(pipeline).splitlines() if as_mermaid else tree(pipeline)
    if display.as_json:
        display.document({"pipeline": pipeline, "drawn": drawn})
    else:
        for line in drawn:
            display.out.print(Text(printable(line)), soft_wrap=True)
    return OK
