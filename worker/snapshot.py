"""What a session's first turn freezes: the agent's prompt, tools and rules as this worker sees them."""

from collections.abc import Iterable

from roundturn.agent import AgentDefinition, Snapshot
from roundturn.errors import ConfigurationError
from roundturn.registry import ToolRegistry
from roundturn.rules import RuleContext, decide
from roundturn.settings import Settings


class Freezer:
    """Makes the snapshot of an agent that a session's first turn keeps."""

    def __init__(
        self, agents: dict[str, AgentDefinition], registry: ToolRegistry, settings: Settings
    ) -> None:
        self._agents = agents
        self._registry = registry
        self._settings = settings

    def __call__(self, name: str) -> Snapshot:
        agent = self._agents.get(name)
        if agent is None:
            known = ", ".join(sorted(self._agents))
            raise ConfigurationError(f"there is no agent named {name} on this worker; it knows: {known}")
        visible = tuple(self._visible(agent))
        return Snapshot(
            agent=agent,
            model=agent.model or self._settings.model,
            max_steps=agent.max_steps or self._settings.max_steps,
            tools=tuple(_wire_shape(schema) for schema in self._registry.to_api_schema(visible)),
            visible=visible,
            operator=self._settings.policy,
        )

    def _visible(self, agent: AgentDefinition) -> Iterable[str]:
        """What every call would be denied is not shown; the same function decides again at each call (R-01)."""
        for spec in self._registry.specs():
            rules = RuleContext(agent.name, agent.tools, self._settings.policy, read_only=False)
            if decide(spec, {}, rules).listed:
                yield spec.name


def _wire_shape(schema: dict[str, object]) -> dict[str, object]:
    function = {
        "name": schema["name"],
        "description": schema["description"],
        "parameters": schema["input_schema"],
    }
    return {"type": "function", "function": function}
