"""What a session's first turn freezes: the agent's prompt, tools and rules as this worker sees them."""

from collections.abc import Iterable, Mapping
from typing import Any

from roundturn.agent import AgentDefinition, Snapshot
from roundturn.errors import ConfigurationError
from roundturn.registry import ToolRegistry
from roundturn.rules import RuleContext, decide
from roundturn.settings import Settings
from roundturn.tools import DELEGATION
from roundturn.tools.delegation import SpawnSubagent


class Freezer:
    """Makes the snapshot of an agent that a session's first turn keeps."""

    def __init__(
        self, agents: Mapping[str, AgentDefinition], registry: ToolRegistry, settings: Settings
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
            tools=tuple(self._wire_shape(schema, agent) for schema in self._registry.to_api_schema(visible)),
            visible=visible,
            operator=self._settings.policy,
        )

    def _visible(self, agent: AgentDefinition) -> Iterable[str]:
        """What every call would be denied is not shown; the same function decides again at each call (R-01)."""
        for spec in self._registry.specs():
            rules = RuleContext(agent.name, agent.tools, self._settings.policy, read_only=False)
            delegates = spec.name not in DELEGATION or bool(agent.delegates)
            if delegates and decide(spec, {}, rules).listed:
                yield spec.name

    def _wire_shape(self, schema: dict[str, Any], agent: AgentDefinition) -> dict[str, Any]:
        description = schema["description"]
        if schema["name"] == SpawnSubagent.name:
            known = (self._agents[name] for name in agent.delegates if name in self._agents)
            description += "".join(f"\n- {child.name}: {child.description}" for child in known)
        function = {
            "name": schema["name"],
            "description": description,
            "parameters": schema["input_schema"],
        }
        return {"type": "function", "function": function}
