"""`db upgrade`: brings the store to the version that this program needs."""

import typer

from gateway.cli.command import Scene, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Home, Json, Verbose
from gateway.cli.screen import Screen

BUSY_S = 30.0


async def bring_up(scene: Scene) -> int:
    from gateway.upgrade import upgrade_store

    done = await upgrade_store(scene.settings.store_url, BUSY_S)
    name = f"sqlite {done.path}" if done.path else "the database"
    if scene.screen.mode == "json":
        scene.screen.document({"before": done.before, "after": done.after})
    elif done.before == done.after:
        scene.screen.data(f"nothing to do: {name} is at {done.after}")
    else:
        scene.screen.data(f"migrated {name}: {done.before or 'none'} → {done.after}")
    return Code.DONE


def register(app: typer.Typer) -> None:
    upgrade_more = more(
        "roundturn db upgrade",
        "roundturn db upgrade --home /srv/roundturn --json",
        "ROUNDTURN_DATABASE_URL=postgresql+asyncpg://db/roundturn roundturn db upgrade",
    )

    @app.command(epilog=upgrade_more)
    def upgrade(
        json: Json = False, color: Color = "auto", home: Home = None, verbose: Verbose = False
    ) -> int:
        """Create or migrate the store; repeated or at the same time, it does it once."""
        return perform(bring_up, Screen("json" if json else "text", color=color), home, verbose)
