"""How a sub-agent's run starts: looked up where the run's configuration is, so that no input repeats it."""

from temporalio import activity

from activities.boundary import bordered
from activities.toolbox import Toolbox
from core.agents import DELEGATE, PinnedAgent
from core.artifacts import Artifacts
from core.budgets import narrowed
from core.content import ArtifactRef, clean, cut
from core.entries import Configuration
from core.errors import InputError
from core.runs import Above, AgentInput, Child, DelegateInput
from core.storage import Storage

PROBLEM_BYTES = 1000


class DelegationActivities:
    """The activity `prepare_child`. It changes nothing but to store what is long; safe to repeat."""

    def __init__(self, storage: Storage, toolbox: Toolbox) -> None:
        self._storage = storage
        self._toolbox = toolbox

    @activity.defn
    @bordered
    async def prepare_child(self, wanted: DelegateInput) -> Child:
        """Return how the run starts that a call of `delegate` asks for; what the model got wrong is its `problem`.

        Raises:
            StorageError: by its own verdict.
        """
        spec = wanted.spec
        artifacts = self._storage.artifacts(spec.run.scope)
        configuration = await self._storage.journal(spec.run.scope).configuration(spec.opening)
        try:
            raw = clean(await artifacts.read_text(wanted.call.arguments))
            arguments = self._toolbox.tool(DELEGATE).signature.parse(raw)
            agent = _member(configuration, str(arguments["agent"]))
            named = [str(name) for name in arguments["attachments"] or ()]
            attachments = tuple([await _reference(artifacts, configuration, name) for name in named])
            task = _task(str(arguments["task"]))
        except (InputError, ValueError) as error:
            return Child(problem=cut(str(error), PROBLEM_BYTES))
        path = (*(spec.above.path if spec.above else ()), spec.run.workflow_id)
        pinned = {"limits": narrowed(agent.limits, wanted.limits), "model": agent.model or spec.model}
        start = AgentInput(
            agent=agent.model_copy(update=pinned),
            task=await artifacts.store_text(task, f"{wanted.call.id}-task.txt"),
            attachments=attachments,
            model=spec.override,
            by=spec.by,
            heartbeat_timeout=spec.heartbeat_timeout,
            team=_team_of(configuration, agent),
            above=Above(workflow_id=spec.run.workflow_id, path=path),
            scope=spec.run.scope,
            events_per_generation=spec.events_per_generation,
            search_attributes=spec.search_attributes,
        )
        return Child(start=start)


def _task(task: str) -> str:
    if not task.strip():
        raise InputError("the task is empty; say what the agent shall do, with all that it must know")
    return task


def _member(configuration: Configuration, name: str) -> PinnedAgent:
    allowed = configuration.agent.agents
    if name not in allowed or name not in configuration.team:
        raise InputError(f"there is no agent {cut(name, 100)!r} to hand a task to; there are: {', '.join(allowed)}")
    return configuration.team[name]


async def _reference(artifacts: Artifacts, configuration: Configuration, name: str) -> ArtifactRef:
    for ref in configuration.attachments:
        if ref.name == name:
            return ref
    return await artifacts.find(name)


def _team_of(configuration: Configuration, agent: PinnedAgent) -> dict[str, PinnedAgent]:
    """Return the agents that can be reached from one."""
    found: dict[str, PinnedAgent] = {}
    names = list(agent.agents)
    while names:
        name = names.pop()
        if name not in found and name in configuration.team:
            found[name] = configuration.team[name]
            names += found[name].agents
    return found
