"""`python -m tests.house`: sizes, places, what the starter may import, and that no path of a machine is in the tree."""

import ast
import subprocess
import sys
from pathlib import Path

LINES = {"tests": 500, "core": 300, "infra": 300}
OTHER_LINES = 250
TOP = {
    ".ci", ".gitignore", "CHANGELOG.md", "Makefile", "README.md", "activities", "agents", "core", "infra",
    "pipelines", "pyproject.toml", "starter.py", "tests", "worker.py", "workflows",
}  # fmt: skip

# import-linter knows packages of ours and whole ones of others; this is what it can't say: who may not import what.
FORBIDDEN = {
    "starter.py": {"activities", "worker", "boto3", "botocore", "duckdb", "pydantic_ai"},
    "activities": {"temporalio.client", "temporalio.worker", "temporalio.workflow"},
    "workflows": {"structlog", "temporalio.client", "temporalio.worker"},
}


def tracked() -> list[Path]:
    """Return the files that belong to the project, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [path for line in listed.splitlines() if (path := Path(line)).is_file()]


def imported(path: Path) -> set[str]:
    """Return the dotted names of all modules that a module imports, with their parents."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    parts = [name.split(".") for name in names]
    return {".".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1)}


def complaints(files: list[Path]) -> list[str]:
    """Return what is wrong, one line each."""
    found = [f"{path.parts[0]}: does not belong at the top" for path in files if path.parts[0] not in TOP]
    for path in (file for file in files if file.suffix == ".py"):
        strangers = imported(path) & FORBIDDEN.get(path.parts[0], set())
        found += [f"{path}: imports {name}, which is not for {path.parts[0]}" for name in sorted(strangers)]
    here = str(Path.cwd())
    for path in (file for file in files if file.suffix in {".py", ".md", ".toml", ".yaml", ".json", ""}):
        text = path.read_text(errors="replace")
        if here != "/" and here in text:
            found.append(f"{path}: names a path of this machine ({here})")
        limit = LINES.get(path.parts[0], OTHER_LINES)
        if path.suffix == ".py" and (lines := text.count("\n")) > limit:
            found.append(f"{path}: {lines} lines, at most {limit}: split it")
    return sorted(set(found))


if __name__ == "__main__":
    problems = complaints(tracked())
    print("\n".join(problems) or "sizes and places: fine")  # noqa: T201 - this is a command
    sys.exit(bool(problems))
