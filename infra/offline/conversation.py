"""What the rules know: the conversation so far, read back from its messages alone.

The offline model keeps no state. Each turn it works out again, from the results that stand in the conversation, which
calls it wants next; a call that was asked for once is never asked for again, so that a run always ends.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from core.chat import AssistantMessage, ChatRequest, ToolMessage, UserMessage

_FILE_LINE: Final = re.compile(
    r"^\s*(?:[-*]\s+)?(?P<name>\S.*?) \| (?P<media_type>[\w.+-]+/[\w.+-]+)[^|]* \| (?P<size>[\d,_]+) bytes"
    r" \| (?P<handle>a:[0-9a-f]{12})\s*$"
)
_WORD: Final = re.compile(r"[^\W_]+")
_STOP_WORDS: Final = frozenset(
    _WORD.findall(
        """
        a about above after all also an and any are as at attached be been before between both but by can could did do
        does each every few file files find for from give had has have how i if in into is it its just like list make
        many may me more most much my no not of on only or our out over please question report say says see shall
        should show so some such tell than that the their them then there these they this those through to under up us
        use very want was we were what when where which while who why will with within would write you your data
        document documents attachment attachments following name answer analyze analyse analysis research summarize
        summarise summary compare explain
        """
    )
)


@dataclass(frozen=True)
class File:
    """One file of the run's workspace, as `list_files` and the task show it."""

    name: str
    media_type: str
    size_bytes: int
    handle: str

    @property
    def extension(self) -> str:
        """The lower-case ending of the name, without the dot."""
        return self.name.rpartition(".")[2].lower() if "." in self.name else ""


@dataclass(frozen=True)
class Wanted:
    """A call that the rules want: tool and arguments as canonical JSON. Equal calls are the same call."""

    tool: str
    arguments: str


@dataclass(frozen=True)
class Result:
    """What came back from a call. A call without any result (lost, cut off) counts as failed."""

    text: str
    failed: bool

    @property
    def reason(self) -> str:
        """The first line with words in it, for sentences about a failure."""
        lines = (line.strip() for line in self.text.splitlines())
        return next((line for line in lines if _WORD.search(line)), "no reason given")[:300]


@dataclass(frozen=True)
class Conversation:
    """The conversation as the rules see it."""

    task: str
    tools: frozenset[str]
    attachments: tuple[File, ...]
    turn: int
    results: Mapping[Wanted, Result] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The task's words in order, in lower case and in the singular, each once; without those that say nothing."""
        spoken = (word.lower() for word in _WORD.findall(self.task))
        return tuple(dict.fromkeys(singular(word) for word in spoken if word not in _STOP_WORDS))

    def result_of(self, tool: str) -> Result | None:
        """Return the newest result of a tool, whatever its arguments; None when it was never asked for."""
        return next((result for wanted, result in reversed(list(self.results.items())) if wanted.tool == tool), None)


def wanted(tool: str, **arguments: Any) -> Wanted:
    """Name a call."""
    return Wanted(tool, json.dumps(arguments, ensure_ascii=False, sort_keys=True))


def read_conversation(request: ChatRequest) -> Conversation:
    """Read the conversation back from a request. Pure."""
    spoken = [message.text for message in request.messages if isinstance(message, UserMessage)]
    replies = [message for message in request.messages if isinstance(message, AssistantMessage)]
    answers = {message.call_id: message for message in request.messages if isinstance(message, ToolMessage)}
    results: dict[Wanted, Result] = {}
    for reply in replies:
        for call in reply.calls:
            answer = answers.get(call.id)
            results[Wanted(call.name, _canonical(call.arguments))] = (
                Result(answer.text, answer.failed) if answer else Result("no result came back", failed=True)
            )
    return Conversation(
        task="\n".join(_without_files(text) for text in spoken).strip(),
        tools=frozenset(tool.name for tool in request.tools),
        attachments=read_files("\n".join(spoken)),
        turn=len(replies),
        results=results,
    )


def read_files(text: str) -> tuple[File, ...]:
    """Return the files of all lines `NAME | MEDIA_TYPE | SIZE bytes | a:HANDLE`, each name once."""
    found: dict[str, File] = {}
    for line in text.splitlines():
        if match := _FILE_LINE.match(line):
            size_bytes = int(re.sub(r"\D", "", match["size"]))
            found.setdefault(match["name"], File(match["name"], match["media_type"], size_bytes, match["handle"]))
    return tuple(found.values())


def singular(word: str) -> str:
    """Return a rough singular: it only has to be the same for both forms."""
    if word in {"species", "series"}:
        return word
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _without_files(text: str) -> str:
    """Return the text without its lists of files and the lines that head them."""
    kept: list[str] = []
    in_list = False
    for line in text.splitlines():
        is_file = _FILE_LINE.match(line) is not None
        if is_file and not in_list:
            while kept and (not kept[-1].strip() or " | " in kept[-1] or kept[-1].rstrip().endswith(":")):
                kept.pop()
        if not is_file:
            kept.append(line)
        in_list = is_file
    return "\n".join(kept).strip()


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
