"""`mode`: whether a session may change things (build) or only looks (plan)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.approvals import summary
from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Actor, Color, Home, Json, Verbose, actor
from gateway.cli.screen import Screen
from gateway.cli.text import row_of, short
from roundturn.mode import RunMode

if TYPE_CHECKING:
    from gateway.client import Client
    from roundturn.approval import ApprovalRow

MOST_NAMED = 100


async def show_or_set(scene: Scene, target: str, wanted: RunMode | None, who: str) -> int:
    async with opened(scene, temporal=False) as client:
        row = await client.find_session(target)
        before = row.run_mode
        if wanted is not None:
            row = await client.set_run_mode(row.id, wanted, who)
        waiting = await _waiting(client, row.id) if row.run_mode == "plan" else []
    if scene.screen.mode == "json":
        scene.screen.document(
            {
                "session": row.id,
                "run_mode": row.run_mode,
                "changed": row.run_mode != before,
                "waiting": [one.id for one in waiting],
            }
        )
    else:
        scene.screen.data(row.run_mode)
        _say_in_vain(scene, row.id, waiting)
    return Code.DONE


async def _waiting(client: "Client", session: str) -> "Sequence[ApprovalRow]":
    """What waits for a person in the session and in all that it has delegated now."""
    if not await client.turns(session):
        return ()
    return await client.approvals("pending", (await client.find_turn(session)).run, MOST_NAMED)


def _say_in_vain(scene: Scene, session: str, waiting: "Sequence[ApprovalRow]") -> None:
    """Rules judge a call again after its approval. Which calls only read is for the worker's tools to say, so this
    names all.
    """
    if not waiting:
        return
    many = "1 request waits" if len(waiting) == 1 else f"{len(waiting)} requests wait"
    scene.screen.talk(
        f"{many} for a person; in plan mode a call that changes something is refused,", "yellow"
    )
    scene.screen.talk("also after somebody approves it:", "yellow")
    for one in waiting:
        scene.screen.talk(f"  {short(one.id)}  {row_of(one.tool)}  {row_of(summary(one.arguments))}")
    scene.screen.talk(f"to let them run: {scene.command(f'mode {session} build')}")


def register(app: typer.Typer) -> None:
    epilog = more(
        "roundturn mode s_7kq2mz9d",
        "roundturn mode s_7kq2mz9d plan",
        "roundturn mode s_7kq2mz9d build --json",
    )

    @app.command(epilog=epilog)
    def mode(
        session: Annotated[
            str, typer.Argument(metavar="SESSION", help="s_…, or a beginning of it that is unique.")
        ],
        wanted: Annotated[
            RunMode | None, typer.Argument(metavar="[plan|build]", help="Leave out to look.")
        ] = None,
        who: Actor = None,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Show or set a session's run mode: in plan its tools, and its subagents', only read."""
        screen = Screen("json" if json else "text", color=color)
        return perform(lambda scene: show_or_set(scene, session, wanted, actor(who)), screen, home, verbose)
