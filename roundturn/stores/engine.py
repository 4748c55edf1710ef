"""One database behind all ports: short transactions, a write lock taken at the start, a locked store waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from typing import Any

from sqlalchemy import URL, Table, event, make_url, select, type_coerce
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from roundturn.errors import ConfigurationError, Unavailable
from roundturn.stores.tables import UtcMillis, now_ms

Tx = AsyncConnection

LOCKED = ("database is locked", "database table is locked", "database schema is locked")


WANTED = (
    "set ROUNDTURN_DATABASE_URL to sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/NAME"
)
# PostgreSQL's classes of errors that may pass: connection, rollback (deadlock), resources, operator, system.
PASSING = ("08", "40", "53", "57", "58")
WRONG = ("28", "3D")  # no such user or password, no such database


def _url(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, ValueError) as fault:
        raise ConfigurationError(f"the store's URL cannot be understood: {fault}", WANTED) from None
    return parsed


class Database:
    """`busy_s`: how long one attempt waits for another process's write; the caller's retry goes on from there."""

    def __init__(self, url: str, busy_s: float) -> None:
        parsed = _url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.path = parsed.database if self.is_sqlite else None
        options: dict[str, Any] = (
            {"connect_args": {"timeout": busy_s}} if self.is_sqlite else {"pool_pre_ping": True}
        )
        try:
            self.engine: AsyncEngine = create_async_engine(url, pool_size=8, max_overflow=24, **options)
        except (InvalidRequestError, ImportError, TypeError) as fault:
            raise ConfigurationError(
                f"{parsed.drivername} cannot be used for the store: {fault}", WANTED
            ) from None
        # SQLite lets one writer in; queueing here is fair and costs no polling, the busy wait is for other processes.
        self._turnstile = asyncio.Lock() if self.is_sqlite else None
        if self.is_sqlite:
            _prepare_sqlite(self.engine)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        """A transaction that holds the write lock from its first statement (BEGIN IMMEDIATE on SQLite).

        Raises `Unavailable` when the store is locked or away; nothing was written then, or the commit's
        fate is unknown and the caller asks again, which every port method bears.
        """
        with _translated():
            async with self._turnstile or nullcontext(), self.engine.connect() as tx:
                await tx.execution_options(roundturn_write=True)
                async with tx.begin():
                    yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """A consistent read. Raises `Unavailable`."""
        with _translated():
            async with self.engine.connect() as tx, tx.begin():
                yield tx

    async def close(self) -> None:
        await self.engine.dispose()


class _translated:
    """Driver errors that may pass become `Unavailable`; a full or read-only disk becomes a clear message."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, fault: BaseException | None, _trace: Any) -> None:
        if not isinstance(fault, DBAPIError | OSError | PoolTimeout):
            return
        said = str(getattr(fault, "orig", fault))
        if any(word in said for word in LOCKED):
            raise Unavailable(
                "the store is locked by another process", "it is waited for; end long transactions"
            ) from fault
        if "readonly" in said or "unable to open" in said or "not a database" in said:
            raise ConfigurationError(
                f"the store cannot be written: {said}", "make the home directory writable for this user"
            ) from fault
        if "disk is full" in said or "disk I/O error" in said:
            raise Unavailable(f"the store's disk fails: {said}", "make room; nothing was lost") from fault
        state = getattr(getattr(fault, "orig", None), "sqlstate", None) or ""
        if state[:2] in WRONG:
            raise ConfigurationError(f"the store cannot be opened: {said}", WANTED) from fault
        if (
            isinstance(fault, OperationalError | OSError | PoolTimeout)
            or getattr(fault, "connection_invalidated", False)
            or state[:2] in PASSING
        ):
            raise Unavailable(
                f"the store is not reachable: {said}", "check the database and its address"
            ) from fault


def _prepare_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; we say BEGIN IMMEDIATE
        cursor = connection.cursor()
        # WAL: readers never wait. FULL: a commit survives power loss, so Temporal is never ahead of the store.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _on_begin(connection: Any) -> None:
        write = connection.get_execution_options().get("roundturn_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


async def now(tx: Tx) -> datetime:
    """The database's clock."""
    found: datetime = (await tx.execute(select(type_coerce(now_ms(), UtcMillis)))).scalar_one()
    return found


def insert(tx: Tx, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT with ON CONFLICT, which both dialects know and SQLAlchemy's common one does not."""
    return sqlite.insert(table) if tx.dialect.name == "sqlite" else postgresql.insert(table)
