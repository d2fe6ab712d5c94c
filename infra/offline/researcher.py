"""The rules of the researcher: search the documents for the task's words, read around the best lines, quote them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.offline.conversation import Conversation, File, Wanted, wanted
from infra.offline.study import Ask, Section, Study, ask_for
from infra.offline.tables import counted, join_words

MAX_TERMS: Final = 6
MAX_PASSAGES: Final = 4
MAX_QUOTES: Final = 5
_AROUND_LINES: Final = 3
_DOCUMENT_EXTENSIONS: Final = frozenset(
    re.findall(
        r"\w+",
        "adoc c cfg cpp eml go h htm html ini java js log markdown md org "
        "py rs rst sh sql tex toml ts txt xml yaml yml",
    )
)
_HIT: Final = re.compile(r"^(?P<name>.+?):(?P<line>\d+): ?(?P<text>.*)$")


@dataclass(frozen=True)
class Hit:
    """One line of a document, and which of the terms stand in it."""

    name: str
    line: int
    text: str
    terms: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it stands, as `file:line`."""
        return f"{self.name}:{self.line}"


def is_document(file: File) -> bool:
    """Say whether a file is text to read."""
    return file.extension in _DOCUMENT_EXTENSIONS or file.media_type.startswith("text/")


def terms_of(seen: Conversation) -> tuple[str, ...]:
    """Return the words to search for, in the task's order."""
    return tuple(word for word in seen.words if len(word) >= 3 and not word.isdigit())[:MAX_TERMS]


def research(seen: Conversation, files: Sequence[File]) -> Ask | Study:
    """Return the searches and readings that are still wanted, or what they found. Pure."""
    terms = terms_of(seen)
    searches = {term: wanted("search_files", pattern=_pattern(term), files="*") for term in terms}
    why = f"I search the documents for {join_words([f'“{term}”' for term in terms])}."
    if ask := ask_for(seen, why, list(searches.values())):
        return ask
    hits = _hits(seen, searches, {file.name for file in files})
    passages = _passages(hits)
    readings = [_reading(hit) for hit in passages]
    if not hits:
        readings = [wanted("read_file", name=file.name, first_line=1, lines=20) for file in files[:MAX_PASSAGES]]
    if "read_file" in seen.tools and (ask := ask_for(seen, "I read around the best lines.", readings)):
        return ask
    return _study(seen, searches, hits, readings)


def _pattern(term: str) -> str:
    """Match a term in singular and plural, in any case."""
    return f"(?i){re.escape(term.removesuffix('y') if len(term) > 4 else term)}"


def _hits(seen: Conversation, searches: dict[str, Wanted], names: set[str]) -> tuple[Hit, ...]:
    """Merge the searches line by line; lines with more of the terms come first, then in the order they were found."""
    lines: dict[tuple[str, int], tuple[str, list[str]]] = {}
    for term, search in searches.items():
        result = seen.results[search]
        for row in () if result.failed else result.text.splitlines():
            match = _HIT.match(row)
            if match and match["name"].strip() in names:
                key = (match["name"].strip(), int(match["line"]))
                lines.setdefault(key, (match["text"].strip(), []))[1].append(term)
    hits = [Hit(name, line, text, tuple(found)) for (name, line), (text, found) in lines.items() if text]
    return tuple(sorted(hits, key=lambda hit: -len(hit.terms)))


def _passages(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the best hits that do not stand next to a better one."""
    chosen: list[Hit] = []
    for hit in hits:
        near = (other.name == hit.name and abs(other.line - hit.line) <= 2 * _AROUND_LINES for other in chosen)
        if not any(near):
            chosen.append(hit)
    return tuple(chosen[:MAX_PASSAGES])


def _reading(hit: Hit) -> Wanted:
    first_line = max(1, hit.line - _AROUND_LINES)
    return wanted("read_file", name=hit.name, first_line=first_line, lines=2 * _AROUND_LINES + 1)


def _study(seen: Conversation, searches: dict[str, Wanted], hits: Sequence[Hit], readings: Sequence[Wanted]) -> Study:
    found = Study()
    for term, search in searches.items():
        found += _about(term, [hit for hit in hits if term in hit.terms], seen, search)
    read = [seen.results[call].text for call in readings if call in seen.results and not seen.results[call].failed]
    failed = [f"read_file: {seen.results[call].reason}" for call in readings if _has_failed(seen, call)]
    heading = "Passages" if hits else "No line has the task's words; the documents begin so"
    quoted = "\n\n".join(_quote(text) for text in read)
    sections = (Section(heading, quoted),) if quoted else ()
    return found + Study(sections=sections, problems=tuple(failed))


def _about(term: str, hits: Sequence[Hit], seen: Conversation, search: Wanted) -> Study:
    """Answer one sub-question: the lines about a term, each with its place."""
    result = seen.results[search]
    if result.failed:
        return Study(problems=(f"search for “{term}”: {result.reason}",))
    heading = f"What do the documents say about “{term}”?"
    method = (f"search_files {search.arguments}",)
    if not hits:
        return Study(sections=(Section(heading, "Nothing: no line has the word."),), method=method)
    documents = sorted({hit.name for hit in hits})
    quotes = "\n".join(f"- “{_short(hit.text)}” ({hit.place})" for hit in hits[:MAX_QUOTES])
    body = f"{counted(len(hits), 'line')} in {join_words(documents)}, best first:\n\n{quotes}"
    finding = f"“{term}”: “{_short(hits[0].text)}” ({hits[0].place})"
    return Study(findings=(finding,), sections=(Section(heading, body),), method=method)


def _has_failed(seen: Conversation, call: Wanted) -> bool:
    return call in seen.results and seen.results[call].failed


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text[:1500].splitlines())


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
