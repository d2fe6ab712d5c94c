"""Searching text files for a regular expression, in bounded time.

The `regex` package stops a match that backtracks without end, and lets other threads run meanwhile; the standard `re`
does neither.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import regex

from activities.text_files import Line, Page, TextFile
from core.content import cut, one_line
from core.errors import Failed
from core.shapes import counted

SEARCH_SECONDS = 20.0
"""Longest search, over all files of one call."""

PATTERN_CHARACTERS = 1000
CONTEXT_LINES = 10
BATCH_CHARACTERS = 16 * 1024
LOOK_SECONDS = 0.2
_NOT_SIMPLE = regex.compile(r"\(\?|\(\*|\\[AZzGKRmM]|[*+?}]\+|\{[^\d,}]")
SHOWN_CHARACTERS = 300
"""Longest part of a matching line that is shown: the match, and what is around it."""


@dataclass(frozen=True)
class Search:
    """A pattern that files are searched for. `check` is called now and then, and raises to stop the search.

    After `seconds` it ends with what it found so far.

    Raises:
        Failed: the pattern is no regular expression, or takes too long on a single line.
    """

    pattern: str
    context_lines: int = 0
    seconds: float = SEARCH_SECONDS
    check: Callable[[], None] = lambda: None

    def over(self, files: Iterable[TextFile], skipped: Sequence[str] = ()) -> str:
        """Return the matching lines as `NAME:LINE: text`, as many as fit, and how many there are in all.

        `skipped` names the files that are not searched, because they are no text.
        """
        if not 0 <= self.context_lines <= CONTEXT_LINES:
            raise Failed(f"context_lines is from 0 to {CONTEXT_LINES}")
        page = Page()
        tally = _Tally(compiled(self.pattern), time.monotonic() + self.seconds, self.seconds, self.check)
        stopped = ""
        try:
            for file in files:
                self._search(file, page, tally)
        except _Over:
            stopped = f"; stopped after {self.seconds:g} seconds in {tally.place}: search fewer files"
        note = f"; {counted(len(skipped), 'file')} without text left out: {', '.join(skipped)}" if skipped else ""
        return page.text(f"({cut(_summary(tally) + stopped + note, 350)})")

    def _search(self, file: TextFile, page: Page, tally: "_Tally") -> None:
        before: deque[Line] = deque(maxlen=self.context_lines)
        after, last = 0, 0
        for lines in _batches(file.pieces()):
            tally.place = f"{file.name} at line {lines[0][0]:,}"
            if after == 0 and not tally.may_match(lines):
                before.extend(lines[-self.context_lines :] if self.context_lines else ())
                continue
            for number, text in lines:
                place = tally.match(text)
                if place is not None:
                    tally.files.add(file.name)
                    for earlier in before:
                        page.add(f"{file.name}-{earlier[0]}- {cut(earlier[1], SHOWN_CHARACTERS)}")
                    before.clear()
                    tally.shown += page.add(f"{file.name}:{number}: {_around(text, *place)}")
                    after = self.context_lines
                elif number != last and after > 0:
                    after -= 1
                    page.add(f"{file.name}-{number}- {cut(text, SHOWN_CHARACTERS)}")
                elif number != last:
                    before.append((number, text))
                last = number


class _Over(Exception):
    """The time of a search is over, by the amount of text: what was found so far holds."""


@dataclass
class _Tally:
    """How far a search is, and when it must end."""

    pattern: "regex.Pattern[str]"
    deadline: float
    seconds: float
    check: Callable[[], None]
    place: str = ""
    matches: int = 0
    shown: int = 0
    files: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Compile what looks at many lines at once, where that can't miss a match."""
        self.many = regex.compile(self.pattern.pattern, regex.MULTILINE) if is_simple(self.pattern.pattern) else None

    def may_match(self, lines: Sequence[Line]) -> bool:
        """Say whether one of the lines may match: one look at all of them is many times faster than one at each.

        Raises:
            _Over: the time is over.
        """
        self.check()
        if time.monotonic() >= self.deadline:
            raise _Over
        if self.many is None:
            return True
        try:
            text = "\n".join(text for _, text in lines)
            return self.many.search(text, timeout=LOOK_SECONDS, concurrent=True) is not None
        except TimeoutError:  # what is quick on a line may not be on many
            self.many = None
            return True

    def match(self, text: str) -> tuple[int, int] | None:
        """Return where the text matches, or None.

        Raises:
            Failed: this one match takes too long.
            _Over: the time is over.
        """
        began = time.monotonic()
        if began >= self.deadline:
            raise _Over
        try:
            found = self.pattern.search(text, timeout=self.deadline - began, concurrent=True)
        except TimeoutError:
            if time.monotonic() - began < self.seconds / 4:
                raise _Over from None
            raise Failed(
                f"the search took longer than {self.seconds:g} seconds and was stopped; use a simpler pattern "
                "(no nested repetitions such as (a+)+)"
            ) from None
        if found is None:
            return None
        self.matches += 1
        return found.span()


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Group lines up to some length together."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line[1]) + 1
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def is_simple(pattern: str) -> bool:
    """Say whether a pattern that matches a line also matches, line by line, the text that the line is in.

    It does when it can't look around, give up alternatives or ask where the text begins and ends.
    """
    plain = pattern.removeprefix("(?i)").replace("(?:", "(").replace("(?P<", "(")
    return _NOT_SIMPLE.search(plain) is None


def compiled(pattern: str) -> "regex.Pattern[str]":
    """Compile a regular expression that a model wrote.

    Raises:
        Failed: it is none, or far too long.
    """
    if not pattern:
        raise Failed("the pattern is empty; give a regular expression")
    if len(pattern) > PATTERN_CHARACTERS:
        raise Failed(f"the pattern has {len(pattern):,} characters; at most {PATTERN_CHARACTERS:,}")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise Failed(
            f"{one_line(pattern, 100)!r} is no regular expression: {one_line(str(error), 200)}; "
            "put a backslash before characters that are meant literally"
        ) from None


def _around(text: str, start: int, end: int) -> str:
    """Return the line, or of a long one the part around the match."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    room = max(SHOWN_CHARACTERS - (end - start), 80)
    first = max(start - room // 2, 0)
    last = min(first + SHOWN_CHARACTERS, len(text))
    return ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")


def _summary(tally: _Tally) -> str:
    if tally.matches == 0:
        return "no match"
    total = f"{tally.matches:,} {'match' if tally.matches == 1 else 'matches'} in {counted(len(tally.files), 'file')}"
    if tally.shown == tally.matches:
        return total
    return f"{total}, the first {tally.shown:,} shown; narrow the pattern or the files to see others"
