"""Tools: plain functions, declared once.

Name, description and schema of a tool come from its function's name, docstring and signature; the decorator adds what
the run must know: what repeating a call would do, how long one may take, whether a person is asked first.
"""

import difflib
import hashlib
import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from activities.declaring import AnyTool, Tool, place, tool
from core.asking import Asking
from core.chat import ToolSchema
from core.content import clean, cut, one_line
from core.errors import InputError
from core.tools import ToolPolicy

__all__ = ["AnyTool", "Tool", "Toolbox", "tool"]


class Toolbox:
    """The tools of a worker, by name.

    Raises:
        InputError: two tools have one name.
    """

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools: dict[str, AnyTool] = {}
        for new in tools:
            other = self._tools.get(new.name)
            if other is not None and other is not new:
                raise InputError(
                    f"two tools are called {new.name}: {place(other.function)} and {place(new.function)}; rename one"
                )
            self._tools[new.name] = new

    @classmethod
    def discover(cls, packages: Sequence[str] = ("activities.tools",)) -> "Toolbox":
        """Import every module of the packages and gather the tools that they declare.

        Raises:
            InputError: a module can't be imported, a declaration is wrong, or a package declares no tool; the text
                names it and the cause.
        """
        return cls(found for package in packages for found in _tools(package))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in alphabetical order."""
        return tuple(sorted(self._tools))

    def tool(self, name: str) -> AnyTool:
        """Return a tool.

        Raises:
            InputError: there is none of this name.
        """
        if name not in self._tools:
            raise InputError(self.unknown(name))
        return self._tools[name]

    def schema(self, name: str) -> ToolSchema:
        """Return the tool as the model sees it."""
        declared = self.tool(name)
        return ToolSchema(name=name, description=declared.signature.description, parameters=declared.signature.schema)

    def policy(self, name: str, asking: Asking | None = None) -> ToolPolicy:
        """Return what the workflow needs to decide; `asking` is what the agent's file says, None when nothing."""
        declared = self.tool(name).policy
        asking = asking or Asking(mode=declared.approval)
        digest = hashlib.sha256(self.schema(name).model_dump_json().encode()).hexdigest()
        return declared.model_copy(update={"approval": asking.mode, "asking": asking, "definition_digest": digest})

    def parsed(self, name: str, arguments: str) -> dict[str, Any] | None:
        """Return raw arguments as the tool would get them, defaults filled in; None when they can't be used."""
        try:
            return self._tools[name].signature.parse(clean(arguments)) if name in self._tools else None
        except ValueError:
            return None

    def problem(self, name: str, arguments: str) -> str | None:
        """Say why raw arguments can't be used, as a text for the model; None when they can."""
        try:
            self.tool(name).signature.parse(arguments)
        except ValueError as error:
            return f"{name} was not run, its arguments can't be used:\n{error}"
        return None

    def unknown(self, name: str) -> str:
        """Say to whoever wrote the agent that there is no such tool, and which there are."""
        near = difflib.get_close_matches(name[:100], self.names, n=2)
        guess = f" (did you mean {' or '.join(near)}?)" if near else ""
        known = ", ".join(self.names) or "none"
        cure = "correct its name, or restart the workers if the tool is new"
        return cut(f"unknown tool {one_line(clean(name), 80)!r}{guess}: {cure}; known: {known}", 2000)


def _tools(package: str) -> list[AnyTool]:
    tools = [
        value
        for module in _modules(package)
        for value in vars(module).values()
        if isinstance(value, Tool) and value.function.__module__ == module.__name__
    ]
    if not tools:
        raise InputError(
            f"tool package {package} has no tool: declare one with @tool in a file of its folder, or correct its name "
            "in PERDURE_TOOLS"
        )
    return tools


def _modules(package: str) -> list[ModuleType]:
    root = _imported(package)
    return [_imported(f"{package}.{module.name}") for module in pkgutil.iter_modules(getattr(root, "__path__", []))]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"tool module {name} can't be imported: {type(error).__name__}: {one_line(str(error), 300)}; mend it or "
            "take it out of the folder"
        ) from error
