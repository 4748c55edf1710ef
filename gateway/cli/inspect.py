"""`inspect`: the layers around a tool call, what an agent may use, and what would be decided about a call, and why."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, guarded, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Home, Json, Mode, Verbose
from gateway.cli.rules import read_live
from gateway.cli.screen import Screen
from roundturn.errors import UsageError

if TYPE_CHECKING:
    from gateway.decisions import Decisions, Explained, Place
    from roundturn.settings import Settings

Agent = Annotated[str, typer.Option("--agent", metavar="A", help="Whose call it would be.")]
Entry = Annotated[str, typer.Option("--entry", metavar="E", help="Where the work came in: cli, library, …")]
Delegated = Annotated[bool, typer.Option("--delegated", help="As the call of a subagent.")]
WORDS = {"allow": "runs", "ask": "asks a person", "deny": "denied"}


def print_chain(_settings: "Settings", screen: Screen) -> int:
    """The built-in layers; an embedder's own are not known here."""
    from roundturn.middleware import ORDER

    if screen.mode == "json":
        screen.items([{"position": n, "layer": layer} for n, layer in enumerate(ORDER, 1)])
    else:
        for n, layer in enumerate(ORDER, 1):
            screen.data(f"{n}\t{layer}" if not screen.terminal else f"{n:>2}  {layer}")
    return Code.DONE


async def print_tools(scene: Scene, place: "Place") -> int:
    from gateway.decisions import Decisions

    screen = scene.screen
    live, version = await read_live(scene)
    decisions = Decisions(scene.settings, live)
    found = decisions.every(place)
    for doubt in decisions.doubts():
        screen.talk(doubt, "yellow")
    if screen.mode == "json":
        screen.items([_document(one, place, version) for one in found])
        return Code.DONE
    columns = ("TOOL", "DECISION", "SHOWN", "EFFECT", "REACH", "RULE", "WHY")
    screen.rows(columns, [_row(one) for one in found], spare=("REACH", "EFFECT", "SHOWN"))
    return Code.DONE


def _row(one: "Explained") -> tuple[str, ...]:
    spec, decision = one.spec, one.decision
    shown = spec.exposure if decision.listed else "no"
    word = WORDS[decision.effect] + (", at best" if one.by_arguments else "")
    rule = f"{decision.layer}: {decision.rule}"
    return (
        spec.name,
        word,
        shown,
        spec.effect.value,
        spec.permission.value,
        rule,
        decision.reason,
    )


async def print_decision(scene: Scene, tool: str, arguments: str | None, place: "Place") -> int:
    """Raises `UsageError`, also for a directory that no session could work in."""
    from gateway.decisions import Decisions
    from gateway.workdirs import usable

    screen = scene.screen
    live, version = await read_live(scene)
    if place.workdir:
        place = replace(place, workdir=str(usable(Path(place.workdir), scene.settings)))
    decisions = Decisions(scene.settings, live)
    try:
        one = decisions.one(tool, arguments, place)
    except UsageError as fault:
        raise _meant(tool, decisions, place) or fault from None
    if screen.mode == "json":
        screen.document(_document(one, place, version))
        return Code.DONE
    decision = one.decision
    what = f"{tool} by {place.agent}, from {place.entry}{', delegated' if place.delegated else ''}, in {place.mode} mode"
    screen.data(f"{what}: {WORDS[decision.effect]}")
    screen.data(f"rule    {decision.rule} ({decision.layer} layer)")
    screen.data(f"reason  {decision.reason}")
    reads = "it only reads" if one.reads else f"it changes something ({one.spec.effect.value})"
    if arguments is None:
        reads = "some calls only read" if one.spec.sometimes_reads else reads
        if one.by_arguments:
            screen.data("args    none given: this is the best case, a call may be decided otherwise (--args)")
    screen.data(f"nature  {reads}, reach: {one.spec.permission.value}")
    screen.data(f"shown   {'yes' if decision.listed else 'no'}")
    return Code.DONE


def _meant(tool: str, decisions: "Decisions", place: "Place") -> UsageError | None:
    """For a name that is a tool's, written as nobody calls it."""
    names = {one.spec.name for one in decisions.every(place)}
    like = tool.lower().replace("-", "_")
    if tool in names or like not in names:
        return None
    return UsageError(f"there is no tool named {tool}; did you mean {like}?", "see: roundturn inspect tools")


def _document(one: "Explained", place: "Place", live: int | None) -> dict[str, Any]:
    """`live`: the version of the live rules that were asked too; None when they could not be read."""
    spec, decision = one.spec, one.decision
    return {
        "tool": spec.name, "origin": spec.origin, "agent": place.agent, "entry": place.entry, "mode": place.mode,
        "delegated": place.delegated, "decision": decision.effect, "listed": decision.listed, "rule": decision.rule,
        "layer": decision.layer, "reason": decision.reason, "read_only": one.reads, "effect": spec.effect.value,
        "permission": spec.permission.value, "category": spec.category, "family": spec.family, "tags": list(spec.tags),
        "depends_on_arguments": one.by_arguments, "exposure": spec.exposure, "privileged": spec.privileged, "approval": spec.approval,
        "live_rules_version": live,
    }  # fmt: skip


def register(app: typer.Typer) -> None:
    chain_more = more(
        "roundturn inspect chain",
        "roundturn inspect chain --json",
        "roundturn inspect chain | cut -f2",
    )
    tools_more = more(
        "roundturn inspect tools --agent assistant",
        "roundturn inspect tools --entry webhook --delegated",
        "roundturn inspect tools --mode plan --json | jq '.items[] | select(.decision == \"deny\") | {tool, rule, reason}'",
    )
    decide_more = more(
        'roundturn inspect decide write_file --args \'{"path": "a.txt", "content": "x"}\'',
        'roundturn inspect decide bash --args \'{"command": "git status"}\' --agent assistant --entry cli',
        "roundturn inspect decide read_file --mode plan --json | jq .reason",
    )

    @app.command(epilog=chain_more)
    def chain(json: Json = False, color: Color = "auto", home: Home = None, verbose: Verbose = False) -> int:
        """Print the layers around every tool call, outermost first."""
        screen = Screen("json" if json else "text", color=color)
        return guarded(lambda settings: print_chain(settings, screen), screen, home, verbose)

    @app.command(epilog=tools_more)
    def tools(
        agent: Agent = "assistant",
        entry: Entry = "cli",
        mode: Mode = "build",
        delegated: Delegated = False,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """List every tool, whether this agent may use it there, and by whose rule not."""
        screen = Screen("json" if json else "text", color=color)
        place = _place(agent, entry, mode, delegated)
        return perform(lambda scene: print_tools(scene, place), screen, home, verbose)

    @app.command(epilog=decide_more)
    def decide(
        tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool's name.")],
        arguments: Annotated[
            str | None, typer.Option("--args", metavar="JSON", help="What it would be called with.")
        ] = None,
        agent: Agent = "assistant",
        entry: Entry = "cli",
        mode: Mode = "build",
        delegated: Delegated = False,
        workdir: Annotated[
            Path | None, typer.Option("--workdir", metavar="DIR", help="The action directory.")
        ] = None,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Say what would be decided about a call, by which rule of whom, and why. Nothing is run."""
        screen = Screen("json" if json else "text", color=color)
        where = str(workdir.absolute()) if workdir else ""
        place = _place(agent, entry, mode, delegated, where)
        return perform(lambda scene: print_decision(scene, tool, arguments, place), screen, home, verbose)


def _place(agent: str, entry: str, mode: Any, delegated: bool, workdir: str = "") -> "Place":
    from gateway.decisions import Place

    return Place(agent, entry, mode, delegated, workdir)
