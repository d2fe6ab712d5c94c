"""The base of all models that cross a border: frozen, and strict about what they do not know."""

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Frozen(BaseModel):
    """An immutable value; an unknown field is an error, so that a misspelt one never passes silently."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sparse(Frozen):
    """A value of which only what differs from the defaults is written: it is carried often, and mostly says little.

    Its kind and version are always written.
    """

    @model_serializer(mode="wrap")
    def _what_differs(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        written: dict[str, Any] = write(self)
        return {
            name: value
            for name, value in written.items()
            if name in {"kind", "v"} or getattr(self, name) != fields[name].get_default(call_default_factory=True)
        }
