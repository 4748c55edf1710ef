"""`agents list|validate`: the agent definitions as a worker on this home would read them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import guarded
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Header, Home, Json, Quiet, Verbose, Width
from gateway.cli.screen import Screen
from roundturn.errors import UsageError

if TYPE_CHECKING:
    from roundturn.agent import AgentDefinition
    from roundturn.settings import Settings

COLUMNS = ("NAME", "MODEL", "TOOLS", "DESCRIPTION")


def list_agents(settings: "Settings", screen: Screen) -> int:
    from roundturn.agents import load_agents

    found = [_line(agent, settings) for _, agent in sorted(load_agents(settings.agents_dir).items())]
    if screen.mode == "json":
        screen.items(found)
    elif screen.quiet:
        for line in found:
            screen.data(line["agent"])
    else:
        rows = [
            (line["agent"], line["model"], " ".join(line["tools"]), line["description"]) for line in found
        ]
        screen.rows(COLUMNS, rows, cut=("DESCRIPTION", "TOOLS"), spare=("MODEL",))
    return Code.DONE


def _line(agent: "AgentDefinition", settings: "Settings") -> dict[str, Any]:
    return {
        "agent": agent.name,
        "model": agent.model or settings.model,
        "max_steps": agent.max_steps or settings.max_steps,
        "tools": list(agent.tools),
        "description": agent.description,
    }


def validate(settings: "Settings", screen: Screen, paths: list[Path]) -> int:
    """Raises `ConfigurationError` for the first definition that is wrong, as a worker's start would."""
    from roundturn.agents import load_agents
    from roundturn.delegation import check_hierarchy

    given = [_read(path) for path in paths]
    known = load_agents(settings.agents_dir)
    check_hierarchy({**known, **{agent.name: agent for agent in given}})
    agents = given or list(known.values())
    checked = [{"agent": agent.name, "unknown_tools": _unknown_tools(agent)} for agent in agents]
    if screen.mode == "json":
        screen.items(checked)
        return Code.DONE
    for one in checked:
        screen.data(f"ok\t{one['agent']}" if not screen.terminal else f"✓ {one['agent']}")
        for pattern in one["unknown_tools"]:
            screen.talk(f"  {one['agent']}: no built-in tool matches {pattern!r}", "yellow")
    return Code.DONE


def _read(path: Path) -> "AgentDefinition":
    from roundturn.agent import parse_definition

    try:
        return parse_definition(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path} cannot be read: {fault}", "name a Markdown file") from None


def _unknown_tools(agent: "AgentDefinition") -> list[str]:
    """A glob that matches nothing here may be meant for a worker with more tools, so it is only said."""
    from roundturn.glob import first_match
    from roundturn.tools import BUILTIN, CONFINED

    return [
        pattern
        for pattern in agent.tools
        if not any(first_match((pattern,), name) for name in (*BUILTIN, *CONFINED))
    ]


def register(app: typer.Typer) -> None:
    list_more = more(
        "roundturn agents list",
        "roundturn agents list --json | jq -r '.items[].agent'",
        "ROUNDTURN_AGENTS_DIR=agents roundturn agents list",
    )
    validate_more = more(
        "roundturn agents validate",
        "roundturn agents validate agents/reviewer.md",
        "roundturn agents validate agents/*.md --json",
    )

    files_argument = typer.Argument(
        metavar="[FILE]...", help="Definitions; all that a worker reads when left out."
    )

    @app.command("list", epilog=list_more)
    def list_(
        json: Json = False,
        quiet: Quiet = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """List the agents as this shell's settings read them; a worker elsewhere has its own settings."""
        screen = Screen("json" if json else "text", color=color, width=width, header=header, quiet=quiet)
        return guarded(lambda settings: list_agents(settings, screen), screen, home, verbose)

    @app.command("validate", epilog=validate_more)
    def validate_(
        paths: Annotated[list[Path] | None, files_argument] = None,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Check agent definitions before a worker meets them; code 2 names the place that is wrong."""
        screen = Screen("json" if json else "text", color=color)
        return guarded(lambda settings: validate(settings, screen, paths or []), screen, home, verbose)
