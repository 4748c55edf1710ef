"""The same deaths on both stores: a test here runs on SQLite and on PostgreSQL unless it says which it is about."""

from typing import Any

import pytest

from tests.conftest import OpenSystem
from tests.postgresql import PostgresServer
from tests.system import System, TemporalServer

# Tests in which the store has no part, or which are about a file: run once, they keep the suite short.
on_sqlite = pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("store_kind", ["postgresql"], indirect=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def system(request: pytest.FixtureRequest, system: OpenSystem, store_kind: str) -> OpenSystem:
    """As everywhere, on the store of that kind; a `database_url` given by the test comes first."""
    if store_kind == "sqlite":
        return system
    postgresql: PostgresServer = request.getfixturevalue("postgresql")

    async def open_(
        *scenarios: dict[str, Any], server: TemporalServer | None = None, **settings: Any
    ) -> System:
        settings.setdefault("database_url", await postgresql.create_database())
        return await system(*scenarios, server=server, **settings)

    return open_
