"""Migrations run from inside the program, in one transaction, safely from several processes at once."""

import functools
import logging
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from roundturn.errors import ConfigurationError
from roundturn.stores.engine import Database

MIGRATION_LOCK = 727_473  # any number: PostgreSQL's advisory lock for this work


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


@functools.cache
def head() -> str:
    """The version that this program needs."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


async def current(database: Database) -> str | None:
    """The version of the store, None when it is empty or the file is not there."""
    if database.path is not None and not Path(database.path).exists():
        return None
    return await database.read(lambda tx: MigrationContext.configure(tx).get_current_revision())


async def upgrade(database: Database) -> tuple[str | None, str]:
    """Brings the store to `head`; the second of two processes waits and finds nothing to do. (before, after)"""
    if database.path is not None:
        try:
            Path(database.path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise ConfigurationError(
                f"the store's directory cannot be made: {fault}", "choose another home or database_url"
            ) from None
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return await database.write(_upgrade)


def _upgrade(connection: Connection) -> tuple[str | None, str]:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    context: Any = MigrationContext.configure(connection)
    before: str | None = context.get_current_revision()
    if before is not None and before not in _known():
        raise ConfigurationError(
            f"the store is at version {before}, which this program does not know", "install a newer Roundturn"
        )
    if before != head():
        command.upgrade(_config(connection), "head")
    return before, head()
