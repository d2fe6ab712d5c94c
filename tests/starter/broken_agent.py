"""A workflow with a bug: its first task fails again and again."""

from temporalio import workflow
from temporalio.common import RawValue


@workflow.defn(name="Agent")
class BrokenAgent:
    """Stands in for an agent whose code is wrong."""

    @workflow.run
    async def run(self, _raw: RawValue) -> None:
        """Raise what no workflow code should."""
        raise RuntimeError("the tail is longer than the dog")
