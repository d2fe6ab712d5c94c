"""Scripts for the models of workers that are processes of their own."""

from pathlib import Path

import yaml


def script(folder: Path, *replies: object) -> str:
    """Write a script and return the model's name."""
    folder.mkdir(exist_ok=True)
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump({"replies": list(replies)}))
    return f"script:{path}"


def calling(name: str, **arguments: object) -> dict[str, object]:
    """A scripted reply with one call."""
    return {"calls": [{"id": name, "name": name, "arguments": arguments}]}
