"""`rules`: the live rules, which hold for every session at its next call until they are replaced or cleared."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Actor, Color, Header, Home, Json, Verbose, Width, actor
from gateway.cli.screen import Screen
from gateway.cli.text import ago, rfc3339, row_of
from roundturn.errors import ConfigurationError, RoundturnError, UsageError

if TYPE_CHECKING:
    from roundturn.live_rules import LiveLayer, LiveRulesRow
    from roundturn.rules import Rule
    from roundturn.settings import Settings

COLUMNS = ("ID", "EFFECT", "CONDITIONS", "REASON")


async def read_live(scene: Scene) -> "tuple[LiveLayer, int | None]":
    """The layer and its version: 0 when there never were any, None (which is said) when the store cannot be read."""
    from gateway.live_rules import in_force
    from roundturn.live_rules import NOTHING, understood

    try:
        async with opened(scene, temporal=False) as client:
            row = await in_force(client)
    except RoundturnError as fault:
        scene.screen.talk(f"live rules are left out here: {fault.detail}", "yellow")
        return NOTHING, None
    return understood(row), row.version if row else 0


async def show(scene: Scene) -> int:
    """Raises `ConfigurationError` for a record that cannot be read."""
    from gateway.live_rules import in_force
    from roundturn.live_rules import understood

    async with opened(scene, temporal=False) as client:
        row = await in_force(client)
    found = understood(row)
    if found.unreadable:
        again = f"{scene.command('rules set FILE.toml')} or {scene.command('rules clear')}"
        why = f"the live rules cannot be read, and every call is denied: {found.unreadable}"
        raise ConfigurationError(why, f"replace them: {again}")
    rules, layers = found.layer.rules, _layers(scene.settings)
    if scene.screen.mode == "json":
        scene.screen.document({**_document(row, rules), "layers": layers})
        return Code.DONE
    if rules or not scene.screen.terminal:
        scene.screen.rows(COLUMNS, [_cells(rule) for rule in rules], cut=("REASON", "CONDITIONS"))
    scene.screen.talk(_heading(row, rules))
    for one in layers:
        if one["layer"] != "live":
            scene.screen.talk(f"  {one['layer']:<9} {one['from']}")
    return Code.DONE


def _heading(row: "LiveRulesRow | None", rules: "tuple[Rule, ...]") -> str:
    if row is None:
        return "there are no live rules; the other layers, of which each must let a call pass:"
    count = "no live rules" if not rules else f"{len(rules)} live rule{'s' if len(rules) > 1 else ''}"
    when = ago(row.at, datetime.now(UTC))
    return f"{count} (version {row.version}, set by {row_of(row.actor)} {when}); the other layers:"


def _layers(settings: "Settings") -> list[dict[str, str]]:
    """Where each comes from, in their order."""
    agents = settings.agents_dir or "the built-in ones; the setting agents_dir names a folder"
    told = {
        "platform": "built in: privileged tools, shell commands, tools that always ask",
        "operator": f"the setting policy as this shell reads it: {len(settings.policy.layer.rules)} rules",
        "live": "roundturn rules set FILE.toml",
        "run mode": "each session's: roundturn mode SESSION",
        "agent": f"each agent's definition: {agents}",
        "embedder": "what the worker's own program adds",
        "default": "what the tools declare: roundturn inspect tools",
    }
    return [{"layer": layer, "from": source} for layer, source in told.items()]


def _document(row: "LiveRulesRow | None", rules: "tuple[Rule, ...]") -> dict[str, Any]:
    return {
        "version": row.version if row else 0,
        "actor": row.actor if row else None,
        "at": rfc3339(row.at) if row else None,
        "rules": [_record(rule) for rule in rules],
    }


def _record(rule: "Rule") -> dict[str, Any]:
    """As it was written."""
    return rule.model_dump(mode="json", exclude_unset=True)


def _cells(rule: "Rule") -> tuple[str, ...]:
    record = _record(rule)
    given = [
        f"{key} {json.dumps(record[key], ensure_ascii=False)}"
        for key in ("match", "except", "when")
        if key in record
    ]
    return rule.id, rule.effect, row_of(" ".join(given)), row_of(rule.reason)


async def set_from(scene: Scene, path: Path, who: str) -> int:
    from roundturn.live_rules import parse_rules

    rules = parse_rules(_read(path), str(path))
    for doubt in _doubts(scene.settings, rules):
        scene.screen.talk(doubt, "yellow")
    return await _put(scene, rules, who)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path} cannot be read: {fault}", "name a TOML file of [[rules]]") from None


def _doubts(settings: "Settings", rules: "tuple[Rule, ...]") -> list[str]:
    """What else is broken here must not keep a person from stopping what runs."""
    from gateway.decisions import Decisions

    try:
        return Decisions(settings).doubts_about(rules)
    except RoundturnError as fault:
        return [f"whether the rules fit the tools could not be checked: {fault.detail}"]


async def _put(scene: Scene, rules: "tuple[Rule, ...]", who: str) -> int:
    from gateway.live_rules import put

    async with opened(scene, temporal=False) as client:
        done = await put(client, scene.settings, rules, who)
    changed = done.row != done.before
    if scene.screen.mode == "json":
        scene.screen.document({**_document(done.row, rules), "changed": changed})
        return Code.DONE
    count = "no live rules" if not rules else f"{len(rules)} live rule{'s' if len(rules) > 1 else ''}"
    scene.screen.data(f"{count} in force (version {done.row.version})")
    if not changed:
        scene.screen.talk("that was so already")
    elif rules:
        scene.screen.talk(
            "every session's next call is judged by them; to end them: " + scene.command("rules clear")
        )
    return Code.DONE


def register(noun: typer.Typer) -> None:
    show_more = more(
        "roundturn rules",
        "roundturn rules --json | jq '.rules[] | {id, effect}'",
        "roundturn rules set stop.toml",
    )
    set_more = more(
        "roundturn rules set stop.toml",
        "roundturn rules set night.toml --as ada",
        "roundturn rules set stop.toml --json | jq .version",
        codes=(Code.REFUSED,),
    )
    clear_more = more(
        "roundturn rules clear",
        "roundturn rules clear --as ada",
        "roundturn rules clear --json | jq .changed",
    )

    @noun.callback(invoke_without_command=True, no_args_is_help=False, epilog=show_more)
    def rules(
        context: typer.Context,
        json: Json = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Show the live rules, which hold for every session at once, and where the other layers come from."""
        if (command := context.invoked_subcommand) is None:
            screen = Screen("json" if json else "text", color=color, width=width, header=header)
            return perform(show, screen, home, verbose)
        if any((json, header, color != "auto", width, home, verbose)):
            raise typer.BadParameter(f"options stand behind the command: roundturn rules {command} …")
        return Code.DONE

    @noun.command("set", epilog=set_more)
    def set_(
        path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Records of [[rules]].")],
        who: Actor = None,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Put a file's rules into force for every session's next call, in the place of all that are there."""
        screen = Screen("json" if json else "text", color=color)
        return perform(lambda scene: set_from(scene, path, actor(who)), screen, home, verbose)

    @noun.command("clear", epilog=clear_more)
    def clear(
        who: Actor = None,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """End all live rules; what the configuration says holds again."""
        screen = Screen("json" if json else "text", color=color)
        return perform(lambda scene: _put(scene, (), actor(who)), screen, home, verbose)
