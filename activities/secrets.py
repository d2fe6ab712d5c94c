"""The secrets of a call: known to its tool, and in nothing that leaves the activity.

They are read before the tool is started, so that a missing one is known before anything has happened. From then on
each text on its way out (result, error, heartbeat, name, preview) goes through the call's redaction.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar

from core.agents import REFERENCE
from core.errors import SecretMissing
from core.ports import SecretSource
from core.redaction import NO_SECRETS, SHORTEST_CHARACTERS, Redaction, too_short

_hidden: ContextVar[Redaction] = ContextVar("hidden", default=NO_SECRETS)
"""What the running activity must not tell; its threads and the loop of async tools have it, too."""


async def read_secrets(source: SecretSource, names: Sequence[str], references: Mapping[str, str]) -> dict[str, str]:
    """Return the values of secrets by the names that a tool knows.

    Args:
        source: where they are.
        names: what the tool declares.
        references: which secret (`secret:NAME`) the agent's file gives for a name; else it is the one of that name.

    Raises:
        SecretMissing: one is not there, or too short to be hidden; not retried, the run pauses.
    """
    values: dict[str, str] = {}
    for name in names:
        secret = references.get(name, name).removeprefix(REFERENCE)
        values[name] = await asyncio.to_thread(source.secret, secret)
        if too_short(values[name]):
            raise SecretMissing(
                f"secret {secret} has fewer than {SHORTEST_CHARACTERS} characters: too few to be found and hidden in a "
                "text; give it a longer value, then resume"
            )
    return values


def hide(secrets: Mapping[str, str]) -> Redaction:
    """Keep these values out of all texts of the running activity, to its end; return what does so."""
    redaction = Redaction.of(secrets)
    _hidden.set(redaction)
    return redaction


def redacted(text: str) -> str:
    """Return a text as it may leave the running activity. Do it before the text is cut: half a secret is not found."""
    return _hidden.get().apply(text)
