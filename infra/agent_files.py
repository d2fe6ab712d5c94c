"""Agents as files: `agents/NAME.md`, YAML front matter and below it the instructions.

Every error names the file, the line and the field, and the cure. Tools are not checked here: which there are is known
to the workers, and the one that opens the run refuses what it does not have.
"""

import difflib
import stat
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from core.agents import AgentFile, AgentHeader, Limits
from core.content import clean, one_line
from core.errors import InputError
from core.frozen import Frozen
from core.wording import fault
from infra.front_matter import FrontMatter, read_front_matter
from infra.model_names import check_model
from infra.schema_files import read_schema

FILE_BYTES = 256 * 1024
"""Longest agent file: instructions of more than this fit no prompt."""


NAME_RULE = "must be a-z, 0-9, - and _, a letter first, at most 63 characters"


class BrokenAgent(Frozen):
    """A file in the agents' folder that is no agent, and why."""

    path: Path
    problem: str


class AgentListing(Frozen):
    """All agents of a folder, by name, and the files that could not be read."""

    agents: tuple[AgentFile, ...]
    broken: tuple[BrokenAgent, ...] = ()


def load_agent(name: str, folder: Path) -> AgentFile:
    """Load the agent of this name.

    Raises:
        InputError: there is no such agent (the known and the near ones are named), or its file is wrong.
    """
    known = [path.stem for path in _files(folder)]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        there = f"known: {', '.join(known)}" if known else f"{folder} has no agents yet: add {folder}/NAME.md"
        raise InputError(f"there is no agent {one_line(clean(name), 80)!r} in {folder}; {hint}{there}")
    return read_agent(folder / f"{name}.md")


def load_team(agent: AgentFile, folder: Path) -> tuple[AgentFile, ...]:
    """Load the agents that one may hand tasks to, and those that they may, each once.

    Raises:
        InputError: there is none of such a name, or a file is wrong.
    """
    found: dict[str, AgentFile] = {}
    names = list(agent.agents)
    while names:
        name = names.pop(0)
        if name not in found:
            found[name] = agent if name == agent.name else load_agent(name, folder)
            names += found[name].agents
    return tuple(found.values())


def list_agents(folder: Path) -> AgentListing:
    """Load all agents of a folder; a wrong file does not hide the others.

    Raises:
        InputError: there is no such folder.
    """
    agents: list[AgentFile] = []
    broken: list[BrokenAgent] = []
    for path in _files(folder):
        try:
            agents.append(read_agent(path))
        except InputError as error:
            broken.append(BrokenAgent(path=path, problem=str(error)))
    return AgentListing(agents=tuple(agents), broken=tuple(broken))


def read_agent(path: Path) -> AgentFile:
    """Read one agent file.

    Raises:
        InputError: it can't be read, or what stands in it is no agent.
    """
    matter = read_front_matter(_text(path), str(path))
    fields = matter.fields
    if fields.get("output") is not None:
        try:
            fields = {**fields, "output": read_schema(fields["output"], path.parent)}
        except InputError as error:
            raise InputError(f"{path}:{matter.line_of(('output',))}: output: {error}") from None
    try:
        header = AgentHeader.model_validate(fields)
    except ValidationError as error:
        problems = [_explain(problem, matter, path) for problem in error.errors(include_url=False)]
        raise InputError("\n".join(problems)) from None
    if header.name != path.stem:
        raise InputError(
            f"{path}:{matter.line_of(('name',))}: name: the agent is called {header.name}, its file {path.name}; "
            f"rename one: the file of {header.name} is {header.name}.md"
        )
    header = _with_checked_models(header, matter, path)
    if not matter.body:
        raise InputError(f"{path}: the instructions are empty: write below the front matter what the agent shall do")
    return AgentFile(**header.model_dump(), instructions=clean(matter.body))


def _with_checked_models(header: AgentHeader, matter: FrontMatter, path: Path) -> AgentHeader:
    """Return the header with the full names of its models."""
    try:
        models = [check_model(model) for model in header.models]
    except InputError as error:
        raise InputError(f"{path}:{matter.line_of(('model',))}: model: {error}") from None
    if not models:
        return header
    return header.model_copy(update={"model": models[0], "fallbacks": tuple(models[1:])})


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(
            f"there is no folder of agents {str(folder)!r}: run from the project's root, or set PERDURE_AGENTS_DIR"
        )
    return sorted(path for path in folder.glob("*.md") if path.stem != "README" and not path.name.startswith("."))


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise InputError(f"{path} is no regular file; an agent is a text file")
        size_bytes = status.st_size
        if size_bytes > FILE_BYTES:
            raise InputError(f"{path} has {size_bytes:,} bytes; an agent file has at most {FILE_BYTES:,}: shorten it")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text (byte {error.start:,}); save it as UTF-8") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; an agent is a file: move the folder elsewhere") from None
    except FileNotFoundError:
        dangling = path.is_symlink()
        cure = "a link to a file that is not there; mend or remove the link" if dangling else "missing; check the path"
        raise InputError(f"{path} can't be read: it is {cure}") from None
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}); check its permissions") from error


def _explain(problem: ErrorDetails, matter: FrontMatter, path: Path) -> str:
    """Write one problem in one line: file, line, field, what is wrong, the cure."""
    where = tuple(str(part) for part in problem["loc"])
    if where[:1] == ("fallbacks",) and where[:1] not in matter.lines:
        where = ("model", str(int(where[1]) + 2)) if len(where) > 1 else ("model",)  # one of a list, counted from 1
    line = matter.line_of(where)
    field = ".".join(where) or "the front matter"
    if problem["type"] == "extra_forbidden":
        return f"{path}:{line}: {field}: there is no such field; {_near(where)}"
    if problem["type"] == "missing":
        return f"{path}:{line}: {field}: is missing; add it to the front matter"
    given = one_line(repr(problem["input"]), 60)
    reason = NAME_RULE if where == ("name",) and problem["type"] == "string_pattern_mismatch" else fault(problem)
    said = "" if problem["type"] == "value_error" else f", it is {given}"
    return f"{path}:{line}: {field}: {reason}{said}"


def _near(where: tuple[str, ...]) -> str:
    part: type[Limits | AgentHeader] = Limits if where[0] == "limits" and len(where) > 1 else AgentHeader
    known = list(part.model_fields)
    near = difflib.get_close_matches(where[-1], known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
