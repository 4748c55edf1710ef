"""`db upgrade`: brings the store to the version that this program needs."""

from typing import TYPE_CHECKING

import typer

from gateway.cli.exits import Code
from gateway.cli.options import Color, Home, Json, Verbose, more
from gateway.cli.screen import Screen
from gateway.cli.stage import Scene, perform

if TYPE_CHECKING:
    from roundturn.stores.engine import Database

BUSY_S = 30.0


async def upgrade_store(scene: Scene) -> int:
    from roundturn.stores.engine import Database
    from roundturn.stores.migrations import upgrade

    database = Database(scene.settings.store_url, BUSY_S)
    try:
        before, after = await upgrade(database)
    finally:
        await database.close()
    if scene.screen.mode == "json":
        scene.screen.document({"before": before, "after": after})
    elif before == after:
        scene.screen.data(f"nothing to do: {_name(database)} is at {after}")
    else:
        scene.screen.data(f"migrated {_name(database)}: {before or 'none'} → {after}")
    return Code.DONE


def _name(database: "Database") -> str:
    return f"sqlite {database.path}" if database.is_sqlite else "the database"


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
        return perform(upgrade_store, Screen("json" if json else "text", color=color), home, verbose)
