"""What a session's first turn freezes, as this worker sees it."""

from collections.abc import Mapping
from pathlib import Path

from roundturn.agent import AgentDefinition, Snapshot
from roundturn.errors import ConfigurationError
from roundturn.face import freeze
from roundturn.registry import ToolRegistry
from roundturn.rules import Rule
from roundturn.settings import WORK, Settings


class Freezer:
    """Makes the snapshot of an agent that a session's first turn keeps. `rules`: an embedder's own."""

    def __init__(
        self,
        agents: Mapping[str, AgentDefinition],
        registry: ToolRegistry,
        settings: Settings,
        rules: tuple[Rule, ...] = (),
    ) -> None:
        self._agents = agents
        self._registry = registry
        self._settings = settings
        self._rules = rules

    def __call__(self, name: str, action_dir: str) -> Snapshot:
        """Raises `ConfigurationError` for an agent that is not there and a directory outside the work roots (X-12)."""
        agent = self._agents.get(name)
        if agent is None:
            known = ", ".join(sorted(self._agents))
            raise ConfigurationError(f"there is no agent named {name} on this worker; it knows: {known}")
        roots = self._settings.work_roots
        own = self._settings.home.resolve() / WORK
        if roots and not any(Path(action_dir).resolve().is_relative_to(root) for root in (*roots, own)):
            allowed = ", ".join(map(str, roots))
            raise ConfigurationError(f"{action_dir} is outside of the work roots ({allowed}) of this worker")
        return freeze(agent, self._registry, self._settings, self._agents, self._rules)
