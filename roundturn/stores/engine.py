"""One database behind all ports: short transactions, a write lock taken at the start, a locked store waited for."""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    Table,
    create_engine,
    event,
    make_url,
    select,
    type_coerce,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    InvalidRequestError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine

from roundturn.errors import ConfigurationError, Unavailable
from roundturn.stores.tables import UtcMillis, now_ms

Tx = Connection
R = TypeVar("R")

READERS = 4
CONNECT_S = 10
ANSWER_S = 10  # of one statement, beyond the time it may wait for a lock
IDLE_S = 15  # a transaction takes milliseconds; one that stands still is a frozen process's or a lost host's
MOST_TOGETHER = 32  # writes in one transaction: other processes wait for its end
LONGEST_BUSY_S = 0.5  # a thread that waits in SQLite hears nothing; between two waits it learns that we close

LOCKED = ("database is locked", "database table is locked", "database schema is locked")


WANTED = "set ROUNDTURN_DATABASE_URL to sqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/NAME (?ssl=require)"
# PostgreSQL's errors that may pass: connection, idle in a transaction, rollback (deadlock), resources, operator, system.
PASSING = ("08", "25P03", "40", "53", "57", "58")
LOCK_TIMEOUT = "55P03"
CHANGED_PLAN = "cached statement plan is invalid"  # prepared before a migration; it is forgotten now
WRONG = ("28", "3D")  # no such user or password, no such database


def _url(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, ValueError) as fault:
        raise ConfigurationError(f"the store's URL cannot be understood: {fault}", WANTED) from None
    return parsed


class Database:
    """Transactions, each a plain function over a connection, run whole: on SQLite in one hop into a thread.

    `busy_s`: how long one attempt waits for another process's write; the caller's retry goes on from there.
    """

    def __init__(self, url: str, busy_s: float) -> None:
        parsed = _url(url)
        self.url = parsed
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.path = parsed.database if self.is_sqlite else None
        if self.is_sqlite and self.path in (None, "", ":memory:"):
            raise ConfigurationError("a store in memory would be gone with its process", WANTED)
        try:
            self._runner: _SqliteThreads | _Async = (
                _SqliteThreads(parsed, busy_s) if self.is_sqlite else _Async(parsed, busy_s)
            )
        except (InvalidRequestError, ImportError, TypeError) as fault:
            raise ConfigurationError(
                f"{parsed.drivername} cannot be used for the store: {fault}", WANTED
            ) from None

    async def write(self, work: Callable[[Tx], R]) -> R:
        """A transaction that holds the write lock from its first statement (BEGIN IMMEDIATE on SQLite).

        Raises `Unavailable` when the store is locked or away; nothing was written then, or the commit's
        fate is unknown and the caller may ask again (`store.py` says what that does). Cancelled, it may commit.
        """
        with _translated():
            return await self._runner.run(work, write=True)

    async def read(self, work: Callable[[Tx], R]) -> R:
        """All of it sees one moment. Raises `Unavailable`."""
        with _translated():
            return await self._runner.run(work, write=False)

    async def close(self) -> None:
        await self._runner.close()


class Adapter(Protocol):
    """What has a database: the classes whose methods are transactions."""

    @property
    def database(self) -> Database: ...


S = TypeVar("S", bound=Adapter)
P = ParamSpec("P")


def writing(
    method: Callable[Concatenate[S, Tx, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Makes a port's coroutine of a function over a connection: one write transaction."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.database.write(lambda tx: method(self, tx, *args, **kwargs))

    return run


def reading(
    method: Callable[Concatenate[S, Tx, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The same, for a transaction that only reads."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.database.read(lambda tx: method(self, tx, *args, **kwargs))

    return run


_Write = tuple[Callable[[Tx], Any], Future[Any]]


class _SqliteThreads:
    """One thread writes, since SQLite lets one writer in; a few read beside it. Each keeps its connection.

    Writes that wait go into one transaction: a commit flushes the disk, and that costs more than most writes.
    """

    def __init__(self, url: URL, busy_s: float) -> None:
        self._busy_s = busy_s
        self._closing = False
        self._waiting: deque[_Write] = deque()
        self._writer = ThreadPoolExecutor(1, "store-write")
        self._readers = ThreadPoolExecutor(READERS, "store-read")
        self._engine = create_engine(
            url.set(drivername="sqlite"),
            pool_size=READERS + 1,
            hide_parameters=True,  # those of a failed statement are rows; its message goes into logs and history
            connect_args={"timeout": min(busy_s, LONGEST_BUSY_S), "check_same_thread": False},
        )
        _prepare_sqlite(self._engine)
        self._kept = threading.local()
        self._opened: list[Connection] = []

    async def run(self, work: Callable[[Tx], R], *, write: bool) -> R:
        if self._closing:
            raise RuntimeError("the store is closed")
        if not write:
            reading = asyncio.get_running_loop().run_in_executor(self._readers, self._transact, work, False)
            return await reading
        written: Future[R] = Future()
        self._waiting.append((work, written))
        self._writer.submit(self._write_waiting)
        return await asyncio.wrap_future(written)

    def _write_waiting(self) -> None:
        """One transaction for those that wait; every write has asked for one, and finds itself done by another's."""
        group = self._next_group()
        if not group:
            return
        try:
            done = self._transact(lambda tx: _together(tx, [work for work, _ in group]), True)
        except BaseException as fault:  # noqa: BLE001 - nothing of the group is written, and each hears why
            done = [_Failed(fault)] * len(group)
        for (_, written), outcome in zip(group, done, strict=True):
            if isinstance(outcome, _Failed):
                written.set_exception(outcome.fault)
            else:
                written.set_result(outcome)

    def _next_group(self) -> list[_Write]:
        """In their order, without those whose caller has gone."""
        group: list[_Write] = []
        while self._waiting and len(group) < MOST_TOGETHER:
            work, written = self._waiting.popleft()
            if written.set_running_or_notify_cancel():
                group.append((work, written))
        return group

    def _transact(self, work: Callable[[Tx], R], write: bool) -> R:
        end = time.monotonic() + self._busy_s
        while True:
            begun = False
            try:
                with self._connection(write) as tx, tx.begin():
                    begun = write  # from here on a write is not repeated: its commit may be what failed
                    return work(tx)
            except OperationalError as fault:
                if begun or not _locked(fault) or self._closing or time.monotonic() >= end:
                    raise

    @contextmanager
    def _connection(self, write: bool) -> Iterator[Connection]:
        """This thread's own, opened at its first use; one on which something failed is not used again."""
        tx: Connection | None = getattr(self._kept, "connection", None)
        if tx is None:
            tx = self._kept.connection = self._engine.connect().execution_options(roundturn_write=write)
            self._opened.append(tx)
        try:
            yield tx
        except DBAPIError:
            self._kept.connection = None
            self._opened.remove(tx)
            tx.close()
            raise

    async def close(self) -> None:
        self._closing = True
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in self._opened:
            connection.close()
        self._engine.dispose()


@dataclass(frozen=True)
class _Failed:
    """In the place of a result: why this one of the group was taken back."""

    fault: BaseException


def _together(tx: Tx, works: Sequence[Callable[[Tx], Any]]) -> list[Any]:
    """Each in a savepoint of its own, so that one that fails takes back nothing but itself; alone it needs none."""
    if len(works) == 1:
        return [works[0](tx)]
    return [_apart(tx, work) for work in works]


def _apart(tx: Tx, work: Callable[[Tx], Any]) -> Any:
    driver: Any = tx.connection.dbapi_connection
    driver.execute("SAVEPOINT apart")
    try:
        result = work(tx)
    except Exception as fault:
        if not driver.in_transaction:  # the disk failed, and SQLite has taken back the whole group
            raise
        driver.execute("ROLLBACK TO apart")
        driver.execute("RELEASE apart")
        return _Failed(fault)
    driver.execute("RELEASE apart")
    return result


class _Async:
    """PostgreSQL: the driver is asynchronous; the same functions run over it without a thread.

    Writes are READ COMMITTED: they take their rows' locks first and then read what is committed. Reads of several
    statements need the snapshot that SQLite gives them anyway.
    """

    def __init__(self, url: URL, busy_s: float) -> None:
        limits = {
            "application_name": "roundturn",
            "synchronous_commit": "on",  # whatever the server's default: Temporal must never be ahead of the store
            "lock_timeout": f"{busy_s * 1000:.0f}",
            # A worker that is frozen, or whose host is gone, must not hold its turn's row against all others.
            "idle_in_transaction_session_timeout": f"{IDLE_S * 1000}",
        }
        self._engine = create_async_engine(
            url,
            pool_size=8,
            hide_parameters=True,
            max_overflow=24,
            # A server that stands still, or a lost network, is heard of by the client alone.
            connect_args={
                "server_settings": limits,
                "timeout": CONNECT_S,
                "command_timeout": busy_s + ANSWER_S,
            },
        )
        event.listen(self._engine.sync_engine, "checkout", _refuse_closed)
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    async def run(self, work: Callable[[Tx], R], *, write: bool) -> R:
        engine = self._engine if write else self._reading
        async with engine.connect() as connection, connection.begin():
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()


def _refuse_closed(connection: Any, _record: Any, _proxy: Any) -> None:
    """After a restart of the server: the driver has heard of it, so that no ping is needed before each transaction."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError("the server closed it")


class _translated:
    """Driver errors that may pass become `Unavailable`; a full or read-only disk becomes a clear message."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, fault: BaseException | None, _trace: Any) -> None:
        if isinstance(fault, OverflowError) or "connect() got an unexpected keyword" in str(fault):
            raise ConfigurationError(f"the store's address cannot be used: {fault}", WANTED) from fault
        if not isinstance(fault, DBAPIError | sqlite3.Error | OSError | PoolTimeout):
            return
        said = str(getattr(fault, "orig", fault))
        state = getattr(getattr(fault, "orig", None), "sqlstate", None) or ""
        if _locked(fault) or state == LOCK_TIMEOUT:
            raise Unavailable(
                "the store is locked by another process", "it is waited for; end long transactions"
            ) from fault
        if "readonly" in said or "unable to open" in said or "not a database" in said:
            raise ConfigurationError(
                f"the store cannot be written: {said}",
                "make the home directory writable for this user, or choose another home",
            ) from fault
        if "disk is full" in said or "disk I/O error" in said:
            raise Unavailable(f"the store's disk fails: {said}", "make room; nothing was lost") from fault
        if state[:2] in WRONG:
            raise ConfigurationError(f"the store cannot be opened: {said}", WANTED) from fault
        if said.startswith(("no such", "near ")):
            return  # a statement that does not fit the tables is a defect, however often it is tried
        if (
            isinstance(fault, OperationalError | sqlite3.OperationalError | OSError | PoolTimeout)
            or getattr(fault, "connection_invalidated", False)
            or state.startswith(PASSING)
            or CHANGED_PLAN in said
        ):
            raise Unavailable(
                f"the store is not reachable: {said}", "check the database and its address"
            ) from fault


def _locked(fault: Exception) -> bool:
    said = str(getattr(fault, "orig", fault))
    return any(word in said for word in LOCKED)


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; we say BEGIN IMMEDIATE
        cursor = connection.cursor()
        # WAL: readers never wait. FULL: a commit survives power loss, so Temporal is never ahead of the store.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Any) -> None:
        write = connection.get_execution_options().get("roundturn_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


NOW = select(type_coerce(now_ms(), UtcMillis))


def now(tx: Tx) -> datetime:
    """The database's clock."""
    found: datetime = tx.execute(NOW).scalar_one()
    return found


def insert(tx: Tx, table: Table) -> sqlite_dialect.Insert | postgresql.Insert:
    """An INSERT with ON CONFLICT, which both dialects know and SQLAlchemy's common one does not."""
    return sqlite_dialect.insert(table) if tx.dialect.name == "sqlite" else postgresql.insert(table)


def each_dialect(build: Callable[[Any], Executable]) -> dict[str, Executable]:
    """One INSERT with ON CONFLICT, built once for each dialect from its own `insert`; found by `tx.dialect.name`."""
    return {"sqlite": build(sqlite_dialect.insert), "postgresql": build(postgresql.insert)}
