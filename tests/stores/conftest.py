"""One migrated store for each test, on SQLite and on PostgreSQL: the contract is one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from roundturn.store import Store
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade
from tests.postgresql import PostgresServer

BUSY_S = 30.0


@pytest.fixture(params=["sqlite", "postgresql"])
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of this test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'roundturn.db'}"
    server: PostgresServer = request.getfixturevalue("postgresql")
    return await server.create_database()


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """The migrated database itself, for what no port does."""
    opened = Database(store_url, BUSY_S)
    await upgrade(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def store(database: Database, store_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(store_url, tmp_path / "blobs", BUSY_S) as opened:
        yield opened


@pytest.fixture
async def databases(database: Database, store_url: str) -> AsyncIterator[list[Database]]:
    """Four of their own on one file, as four processes would have."""
    more = [Database(store_url, BUSY_S) for _ in range(3)]
    yield [database, *more]
    for each in more:
        await each.close()


@pytest.fixture
async def stores(store: Store, store_url: str, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Four on one database, each with its own connections and queue, as four processes would have."""
    async with AsyncExitStack() as stack:
        more = [
            await stack.enter_async_context(open_store(store_url, tmp_path / "blobs", BUSY_S))
            for _ in range(3)
        ]
        yield [store, *more]
