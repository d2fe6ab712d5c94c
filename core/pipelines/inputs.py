"""The inputs of a pipeline's run: with their defaults, and checked. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from core.content import one_line
from core.errors import InputError
from core.pipelines.file import PipelineFile, is_of


def inputs_of(pipeline: PipelineFile, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with their defaults.

    Raises:
        InputError: one is missing, unknown or of another type.
    """
    if strangers := sorted(set(given) - set(pipeline.inputs)):
        raise InputError(f"there is no input {', '.join(strangers)}; inputs: {', '.join(pipeline.inputs) or 'none'}")
    inputs: dict[str, Any] = {}
    for name, spec in pipeline.inputs.items():
        value = given.get(name, spec.default)
        if value is None:
            raise InputError(f"input {name} is missing; give it with --input {name}=VALUE")
        if not is_of(value, spec.type):
            raise InputError(f"input {name} must be a {spec.type}; it is {one_line(json.dumps(value), 60)}")
        inputs[name] = value
    return inputs
