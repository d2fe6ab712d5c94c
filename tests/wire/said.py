"""What a model says, in no provider's form: each dialect puts it into its own."""

from dataclasses import dataclass
from typing import Literal

Stop = Literal["end", "tool", "length", "refusal", "unheard_of"] | None
"""Why it stopped; None is a reason that is left out."""

INPUT_TOKENS, OUTPUT_TOKENS = 1000, 100
THOUGHT = "Which city?"
SIGNATURE = "c2lnLTE="
"""What signs the thought: the provider wants it back unchanged, and nobody else may see it."""


@dataclass(frozen=True)
class Called:
    """A call of a tool; `arguments` is the text that the model wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Said:
    """One reply. Each text is one part; `thinks` puts a signed thought before all else."""

    texts: tuple[str, ...] = ()
    calls: tuple[Called, ...] = ()
    stop: Stop = "end"
    thinks: bool = False


@dataclass(frozen=True)
class Fault:
    """An error as a provider reports it; `retry_delay` is Google's RetryInfo, and `details` more of the like."""

    status: int
    code: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()
    retry_delay: str | None = None
    reason: str | None = None
    quota: str | None = None


def halves(text: str) -> list[str]:
    """Split a text into the pieces that it streams in."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
