"""Agent definitions are read at start, ours and the operator's; a broken one is refused by name before work begins."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from roundturn.agent import AgentDefinition, Snapshot, parse_definition
from roundturn.errors import ConfigurationError
from roundturn.registry import ToolRegistry
from roundturn.rules import RuleContext, decide
from roundturn.settings import Settings


def load_agents(folder: Path | None) -> dict[str, AgentDefinition]:
    """By name; the operator's folder may replace one of ours. Raises `ConfigurationError`."""
    found = {agent.name: agent for agent in _parsed(_ours())}
    if folder is not None:
        if not folder.is_dir():
            raise ConfigurationError(
                f"agents_dir {folder} is not a folder", "create it or unset ROUNDTURN_AGENTS_DIR"
            )
        texts = [(str(path), path.read_text()) for path in sorted(folder.glob("*.md"))]
        theirs = _parsed(texts)
        names = [agent.name for agent in theirs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(
                f"{folder}: the name {sorted(twice)[0]} is used by two agents", "rename one"
            )
        found |= {agent.name: agent for agent in theirs}
    return found


def _ours() -> list[tuple[str, str]]:
    folder = files("roundturn.agents")
    return [(item.name, item.read_text()) for item in folder.iterdir() if item.name.endswith(".md")]


def _parsed(texts: Iterable[tuple[str, str]]) -> list[AgentDefinition]:
    return [parse_definition(text, source) for source, text in texts]


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
