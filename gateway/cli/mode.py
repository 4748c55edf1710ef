"""`mode`: whether a session may change things (build) or only looks (plan)."""

from typing import Annotated

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Actor, Color, Home, Json, Verbose, actor
from gateway.cli.screen import Screen
from roundturn.mode import RunMode


async def show_or_set(scene: Scene, target: str, wanted: RunMode | None, who: str) -> int:
    async with opened(scene, temporal=False) as client:
        row = await client.find_session(target)
        before = row.run_mode
        if wanted is not None:
            row = await client.set_run_mode(row.id, wanted, who)
    if scene.screen.mode == "json":
        scene.screen.document(
            {"session": row.id, "run_mode": row.run_mode, "changed": row.run_mode != before}
        )
    else:
        scene.screen.data(row.run_mode)
    return Code.DONE


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
