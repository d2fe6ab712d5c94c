"""The base of all models that cross a border: frozen, and strict about what they do not know."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value; an unknown field is an error, so that a misspelt one never passes silently."""

    model_config = ConfigDict(frozen=True, extra="forbid")
