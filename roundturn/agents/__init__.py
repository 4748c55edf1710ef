"""Agent definitions are files here and in the operator's folder; a broken one is refused by name before work begins."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from roundturn.agent import AgentDefinition, parse_definition
from roundturn.delegation import check_hierarchy
from roundturn.errors import ConfigurationError


def load_agents(folder: Path | None) -> dict[str, AgentDefinition]:
    """By name; the operator's folder may replace one of ours. Raises `ConfigurationError`."""
    found = {agent.name: agent for agent in _parsed(_ours())}
    if folder is not None:
        if not folder.is_dir():
            raise ConfigurationError(
                f"agents_dir {folder} is not a folder", "create it or unset ROUNDTURN_AGENTS_DIR"
            )
        texts = [(str(path), _text(path)) for path in sorted(folder.glob("*.md"))]
        theirs = _parsed(texts)
        names = [agent.name for agent in theirs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(
                f"{folder}: the name {sorted(twice)[0]} is used by two agents", "rename one"
            )
        found |= {agent.name: agent for agent in theirs}
    check_hierarchy(found)
    return found


def _ours() -> list[tuple[str, str]]:
    folder = files("roundturn.agents")
    return [
        (item.name, item.read_text(encoding="utf-8"))
        for item in folder.iterdir()
        if item.name.endswith(".md")
    ]


def _parsed(texts: Iterable[tuple[str, str]]) -> list[AgentDefinition]:
    return [parse_definition(text, source) for source, text in texts]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigurationError(f"{path} cannot be read: {fault}") from None
