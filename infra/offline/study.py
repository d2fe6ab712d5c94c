"""What a part of the work says: either the calls it still wants, or what it found."""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.offline.conversation import Conversation, Wanted


@dataclass(frozen=True)
class Ask:
    """Calls to make next, and why."""

    why: str
    calls: tuple[Wanted, ...]


@dataclass(frozen=True)
class Section:
    """A chapter of the report; `body` is Markdown."""

    heading: str
    body: str


@dataclass(frozen=True)
class Study:
    """What a part of the work found: `findings` are sentences, `method` the calls behind them, `problems` failures."""

    findings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    method: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Study") -> "Study":
        """Put two studies one after the other."""
        return Study(
            self.findings + other.findings,
            self.sections + other.sections,
            self.method + other.method,
            self.problems + other.problems,
        )


def ask_for(seen: Conversation, why: str, calls: Sequence[Wanted]) -> Ask | None:
    """Return what has not been asked for yet; None when all of it has."""
    missing = tuple(call for call in dict.fromkeys(calls) if call not in seen.results)
    return Ask(why, missing) if missing else None
