"""The SQL store: all ports over one database, opened here and nowhere else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import make_url

from roundturn.errors import ConfigurationError
from roundturn.store import Store
from roundturn.stores.actions import SqlActions
from roundturn.stores.approvals import SqlApprovals
from roundturn.stores.blobs import DirectoryBlobs
from roundturn.stores.engine import Database
from roundturn.stores.inbox import SqlInbox
from roundturn.stores.journal import SqlJournal
from roundturn.stores.ledger import SqlLedger
from roundturn.stores.live_rules import SqlLiveRules
from roundturn.stores.migrations import current, head
from roundturn.stores.runs import SqlRuns
from roundturn.stores.sessions import SqlSessions
from roundturn.stores.transcript import SqlTranscript
from roundturn.stores.turns import SqlTurns


@asynccontextmanager
async def open_store(url: str, blobs: Path, busy_s: float) -> AsyncIterator[Store]:
    """The store at `url` (SQLAlchemy's; SQLite runs in threads). Raises `ConfigurationError` unless it is migrated."""
    database = Database(url, busy_s)
    try:
        if (found := await current(database)) != head():
            raise ConfigurationError(
                f"the store is at version {found or 'none'}, this program needs {head()}",
                "run: roundturn db upgrade",
            )
        yield ports(database, blobs)
    finally:
        await database.close()


def files(url: str) -> tuple[Path, ...]:
    """Where the store at `url` is in the file system: SQLite's file and what it keeps beside it, nothing of a server's."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return ()
    return tuple(Path(f"{parsed.database}{end}").absolute() for end in ("", "-wal", "-shm", "-journal"))


def ports(database: Database, blobs: Path) -> Store:
    return Store(
        sessions=SqlSessions(database),
        inbox=SqlInbox(database),
        turns=SqlTurns(database),
        transcript=SqlTranscript(database),
        ledger=SqlLedger(database),
        approvals=SqlApprovals(database),
        runs=SqlRuns(database),
        actions=SqlActions(database),
        live_rules=SqlLiveRules(database),
        journal=SqlJournal(database),
        blobs=DirectoryBlobs(blobs),
    )
