"""The offline model: what an agent does when no model is set up.

It is no language model and says so, in its first and in its last text. It looks at the tools and files it is given and
does what its rules know: query data, search documents, write a report. Everything it says comes from tool results. It
asks for each call at most once and for a bounded number of them, so that it always ends.
"""

from collections.abc import Sequence
from typing import Final

from core.chat import ChatReply, ChatRequest, ProposedCall, Usage
from core.ports import ChatModel, OnText
from core.summaries import is_summary_request
from infra.offline.analyst import analyse, is_data
from infra.offline.conversation import Conversation, File, Wanted, read_conversation, read_files, wanted
from infra.offline.researcher import is_document, research
from infra.offline.study import Ask, Study, ask_for
from infra.offline.summary import sum_up

MAX_CALLS: Final = 12
_WHO: Final = "I am no language model, but a set of fixed rules (model `offline`)."
_HOW_TO_GET_ONE: Final = (
    "For a language model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model in the agent's file."
)
_HONESTY: Final = (
    "Every number and quotation below was returned by the calls under “Method”; nothing is guessed. "
    "What the task means beyond its words, the rules can't tell."
)
_LIST: Final = wanted("list_files", pattern="*")


class OfflineModel(ChatModel):
    """Answers by rules alone; needs no network and no key, never fails."""

    async def reply(self, request: ChatRequest, on_text: OnText | None = None) -> ChatReply:
        """Return what the rules say to this conversation: the same for the same request, always."""
        reply = answer(request)
        if on_text is not None:
            on_text(reply.text)
        return reply


def answer(request: ChatRequest) -> ChatReply:
    """Decide the next reply. Pure."""
    seen = read_conversation(request)
    text, calls = (sum_up(request), ()) if is_summary_request(request) else _decide(seen)
    if calls and seen.turn == 0:
        text = f"{_WHO} {_plan(seen)}\n\n{text}"
    proposed = tuple(
        ProposedCall(id=f"offline-{seen.turn}-{index}", name=call.tool, arguments=call.arguments)
        for index, call in enumerate(calls)
    )
    read = len(request.instructions) + sum(len(message.text) for message in request.messages)
    written = len(text) + sum(len(call.arguments) for call in proposed)
    return ChatReply(
        text=text,
        calls=proposed,
        usage=Usage(input_tokens=read // 4, output_tokens=written // 4, cost_usd=0.0),
        stop_reason="tool_calls" if proposed else "end",
    )


def _decide(seen: Conversation) -> tuple[str, tuple[Wanted, ...]]:
    if not seen.tools:
        return f"{_WHO} I was given no tools, so I can't do anything with this task. {_HOW_TO_GET_ONE}", ()
    if "list_files" in seen.tools and (ask := ask_for(seen, "First I list the files.", [_LIST])):
        return ask.why, ask.calls
    files = _files(seen)
    if not files:
        return f"{_WHO} I work on files only, and this run has none. Attach some: `--attach FILE`.", ()
    work = _work(seen, files)
    if work is None:
        return _cannot(seen, files), ()
    if isinstance(work, Ask):
        return work.why, work.calls[:MAX_CALLS]
    return _conclude(seen, work)


def _files(seen: Conversation) -> tuple[File, ...]:
    """Return what is attached and what was listed, each name once."""
    listed = seen.results.get(_LIST)
    files = (*seen.attachments, *(read_files(listed.text) if listed and not listed.failed else ()))
    return tuple({file.name: file for file in files}.values())


def _work(seen: Conversation, files: Sequence[File]) -> Ask | Study | None:
    """Do what tools and files allow, one part after the other; None when they allow nothing."""
    can_query = "query_artifact" in seen.tools
    data = [file for file in files if can_query and is_data(file)]
    documents = [file for file in files if "search_files" in seen.tools and file not in data and _is_text(file)]
    if not data and not documents:
        return None
    found = Study()
    for part, its_files in ((analyse, data), (research, documents)):
        if its_files:
            result = part(seen, its_files)
            if isinstance(result, Ask):
                return result
            found += result
    return found


def _is_text(file: File) -> bool:
    return is_document(file) or is_data(file)


def _conclude(seen: Conversation, found: Study) -> tuple[str, tuple[Wanted, ...]]:
    """Publish the report if there is a tool for it and nobody has decided yet; else say what came out."""
    report = compose(seen, found)
    published = seen.result_of("write_report")
    if published is None and "write_report" in seen.tools:
        call = wanted("write_report", title=_title(seen), markdown=report)
        return "The work is done; I ask to publish the report.", (call,)
    findings = "\n".join(f"- {finding}" for finding in found.findings) or "- Nothing could be found out."
    if published is not None and not published.failed:
        return f"{_WHO} Key findings:\n\n{findings}\n\nThe report was published: {published.reason}", ()
    why = f"The report was not published: {published.reason}" if published else "There is no tool to publish a report."
    return f"{_WHO} Key findings:\n\n{findings}\n\n{why}\n\nSo here it is:\n\n{report}", ()


def compose(seen: Conversation, found: Study) -> str:
    """Write the report as Markdown: findings, sections, what failed, method."""
    findings = "\n".join(f"- {finding}" for finding in found.findings) or "- None."
    chapters = [
        f"{_WHO} {_HONESTY}",
        f"**Task.** {seen.task}",
        f"## Key findings\n\n{findings}",
        *(f"## {section.heading}\n\n{section.body}" for section in found.sections),
    ]
    if found.problems:
        chapters.append("## What did not work\n\n" + "\n".join(f"- {problem}" for problem in found.problems))
    if found.method:
        chapters.append("## Method\n\n```\n" + "\n\n".join(found.method) + "\n```")
    return "\n\n".join(chapters)


def _plan(seen: Conversation) -> str:
    steps = ["list the files"] if "list_files" in seen.tools else []
    if "query_artifact" in seen.tools:
        steps += ["profile the data", "query what fits the words of the task"]
    if "search_files" in seen.tools:
        steps += ["search the documents for the words of the task", "read around what is found"]
    steps += ["write a report and ask to publish it"] if "write_report" in seen.tools else ["say what came out"]
    return "My plan:\n\n" + "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def _title(seen: Conversation) -> str:
    first_line = next((line.strip() for line in seen.task.splitlines() if line.strip()), "no task")
    return f"Report: {first_line if len(first_line) <= 80 else first_line[:79] + '…'}"


def _cannot(seen: Conversation, files: Sequence[File]) -> str:
    names = ", ".join(file.name for file in files[:10])
    return (
        f"{_WHO} I can query data files (CSV, JSON, Parquet) with `query_artifact` and search text files with "
        f"`search_files`. With the tools I have ({', '.join(sorted(seen.tools))}) I can't do that for {names}. "
        f"{_HOW_TO_GET_ONE}"
    )
