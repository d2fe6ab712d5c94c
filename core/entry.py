"""What every entry of a journal has."""

from typing import Literal

from pydantic import AwareDatetime

from core.frozen import Frozen


class EntryBase(Frozen):
    """What every entry has: the version of its form, when it happened, and in which turn (0: before the first)."""

    v: Literal[1] = 1
    at: AwareDatetime
    turn: int = 0
