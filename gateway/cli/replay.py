"""`replay`: would this installation's workflow code do again what a history says; asked before a deploy, not after."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Header, Home, Json, Verbose, Width
from gateway.cli.screen import Screen
from gateway.cli.text import one_line
from roundturn.errors import UsageError

if TYPE_CHECKING:
    from temporalio.client import WorkflowHistory

    from gateway.replay import Replayed

COLUMNS = ("WORKFLOW", "RUN", "TYPE", "EVENTS", "RESULT", "EVENT")


async def replay_targets(scene: Scene, targets: list[str], verbose: bool) -> int:
    from gateway.replay import replay

    if not verbose:  # a traceback of the SDK's says less than the line that we print
        logging.getLogger("temporalio.worker").setLevel(logging.CRITICAL)
    histories: list[WorkflowHistory] = []
    for target in targets:
        histories += await _histories(scene, target)
    found = await replay(histories, sandboxed=scene.settings.workflow_sandbox)
    _show(scene.screen, found)
    return Code.DIFFERENCE if any(one.difference for one in found) else Code.DONE


async def _histories(scene: Scene, target: str) -> "list[WorkflowHistory]":
    """What is a file is one, whatever it is called. Raises `UsageError`, `Unavailable`."""
    from gateway.replay import read_history

    path = Path(target)
    if path.is_file() or path.suffix == ".json":
        return [read_history(path)]
    return await _of_server(scene, target)


async def _of_server(scene: Scene, target: str) -> "list[WorkflowHistory]":
    from gateway.client import connected
    from gateway.replay import fetch

    async with opened(scene, temporal=False) as client:
        workflows = await client.workflows(target)
    temporal = await connected(scene.settings)
    found: list[WorkflowHistory] = []
    for workflow in workflows:
        runs = await fetch(temporal, workflow)
        if not runs and len(workflows) > 1:
            scene.screen.talk(f"{workflow}: the server has no history of it (any more)", "yellow")
        found += runs
    if not found:
        raise UsageError(
            f"the server has no history of {target}",
            "name a file, a session (s_…), a run (s_…/N) or a workflow id; closed ones are kept for a while only",
        )
    return found


def _show(screen: Screen, found: "list[Replayed]") -> None:
    if screen.mode == "json":
        screen.items([_line(one) for one in found])
        return
    screen.rows(COLUMNS, [_cells(one) for one in found], cut=("RUN",), spare=("EVENTS", "TYPE"))
    for one in found:
        if (difference := one.difference) is not None:
            at = f" at event {difference.event} of {one.events}" if difference.event else ""
            screen.talk(f"{one.workflow} ({one.run}) differs{at}", "red")
            if difference.recorded:
                screen.talk(f"  the history has  {one_line(difference.recorded)}")
            screen.talk(f"  the code         {one_line(difference.code)}")
            screen.talk(f"  {difference.hint}")


def _cells(one: "Replayed") -> tuple[str, ...]:
    event = str(one.difference.event or "?") if one.difference else "-"
    result = "differs" if one.difference else "replays" if one.closed else "replays so far"
    return one.workflow, one.run, one.type, str(one.events), result, event


def _line(one: "Replayed") -> dict[str, Any]:
    difference = one.difference
    return {
        "workflow_id": one.workflow,
        "run_id": one.run,
        "type": one.type,
        "events": one.events,
        "closed": one.closed,
        "replays": difference is None,
        "difference": difference
        and {
            "event": difference.event,
            "recorded": difference.recorded,
            "code": difference.code,
            "hint": difference.hint,
        },
    }


def register(app: typer.Typer) -> None:
    replay_more = more(
        "roundturn replay s_7kq2mz9d",
        "roundturn replay turn/s_7kq2mz9d/2 --json",
        "roundturn replay histories/*.json",
        codes=(Code.DIFFERENCE,),
    )
    targets_argument = typer.Argument(
        metavar="FILE|ID...",
        help="A history in Temporal's JSON; a session (s_…) with its runs, a run (s_…/N), or a workflow id.",
    )

    @app.command(epilog=replay_more)
    def replay(
        targets: Annotated[list[str], targets_argument],
        json: Json = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Run histories again with the workflow code that is installed here; nothing is done but comparing."""
        screen = Screen("json" if json else "text", color=color, width=width, header=header)
        return perform(lambda scene: replay_targets(scene, targets, verbose), screen, home, verbose)
