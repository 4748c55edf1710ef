"""Migrations: they make exactly the tables of the code, from several processes at once, and are insisted on."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from roundturn.errors import ConfigurationError
from roundturn.store import Store
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import current, head, upgrade
from roundturn.stores.tables import metadata
from tests.requirements import requirement
from tests.stores import scene

OPEN_AND_WORK = """
import asyncio, sys
from pathlib import Path
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade

async def main(url, folder):
    database = Database(url, 30)
    sys.stdin.readline()
    await upgrade(database)
    await database.close()
    async with open_store(url, Path(folder), 30) as store:
        session = await store.sessions.open("default", "/work")
        await store.inbox.accept(session.id, "hello")

asyncio.run(main(*sys.argv[1:]))
"""


async def test_the_migrations_make_the_tables_of_the_code(database: Database) -> None:
    def differences(connection: Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    async with database.read() as tx:
        assert await tx.run_sync(differences) == []


def checks(connection: Connection) -> dict[str, list[str]]:
    found = inspect(connection)
    return {
        table: sorted(check["sqltext"] for check in found.get_check_constraints(table))
        for table in metadata.tables
    }


@requirement("M-07")
async def test_the_migrations_make_the_check_constraints_of_the_code(database: Database) -> None:
    fresh = create_engine("sqlite://")
    with fresh.connect() as connection:
        metadata.create_all(connection)
        wanted = checks(connection)
    fresh.dispose()
    assert sum(map(len, wanted.values())) > 5
    async with database.read() as tx:
        assert await tx.run_sync(checks) == wanted


@requirement("M-07")
async def test_the_database_refuses_a_status_that_is_none(store: Store, database: Database) -> None:
    await scene.one_call(store)
    with pytest.raises(IntegrityError, match="CHECK"):
        async with database.write() as tx:
            await tx.execute(text("UPDATE tool_calls SET status = 'maybe'"))


async def test_upgrading_twice_does_nothing_the_second_time(database: Database, store_url: str) -> None:
    fresh = Database(store_url, 5)
    assert await upgrade(fresh) == (head(), head())
    assert await current(fresh) == head()
    await fresh.close()


async def test_an_upgrade_says_from_where_to_where(tmp_path: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'new' / 'folder' / 'x.db'}", 5)
    assert await current(database) is None
    assert await upgrade(database) == (None, head())
    await database.close()


@pytest.mark.parametrize("exists", [True, False])
async def test_a_store_that_is_not_migrated_is_refused_with_what_to_do(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "x.db"
    if exists:
        path.touch()
    with pytest.raises(ConfigurationError, match="version none") as refused:
        async with open_store(f"sqlite+aiosqlite:///{path}", tmp_path, 1):
            pass
    assert refused.value.hint == "run: roundturn db upgrade"
    assert path.exists() == exists, "asking makes no file"


async def test_a_store_from_a_newer_program_is_left_alone(database: Database) -> None:
    async with database.write() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="9999, which this program does not know"):
        await upgrade(database)
    assert await current(database) == "9999"


@requirement("P117")
async def test_eight_processes_may_open_and_upgrade_a_fresh_database_at_once(tmp_path: Path) -> None:
    for round_ in range(5):
        url = f"sqlite+aiosqlite:///{tmp_path / str(round_) / 'x.db'}"
        command = [sys.executable, "-c", OPEN_AND_WORK, url, str(tmp_path / "blobs")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        opened = [subprocess.Popen(command, text=True, **pipes) for _ in range(8)]
        for process in opened:  # all have loaded and wait for the word when it comes
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in opened))
        assert [process.returncode for process in opened] == [0] * 8, [said for _, said in ended if said]
        database = Database(url, 5)
        async with database.read() as tx:
            found = await tx.execute(text("SELECT count(*), count(DISTINCT session) FROM inbox"))
            assert tuple(found.one()) == (8, 8)
        await database.close()
