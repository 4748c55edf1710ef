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

ROUNDS, PROCESSES = 5, 8
# Forked when everything is loaded, so that all of them really begin at the same moment.
OPEN_AND_WORK = """
import asyncio, os, sys
from pathlib import Path
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade

async def work(folder):
    url = f"sqlite:///{folder / 'x.db'}"
    database = Database(url, 30)
    await upgrade(database)
    await database.close()
    async with open_store(url, folder / "blobs", 30) as store:
        session = await store.sessions.open("default", "/work")
        await store.inbox.accept(session.id, "hello")

def child(gate, folder):
    os.read(gate, 1)
    asyncio.run(work(folder))
    os._exit(0)

root, rounds, processes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
asyncio.run(work(root / "loaded"))
for n in range(rounds):
    gate, opener = os.pipe()
    children = []
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            child(gate, root / str(n))
        children.append(pid)
    os.close(opener)  # the end of the pipe reaches all at once
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0, f"a process of round {n} failed"
    os.close(gate)
"""


async def test_the_migrations_make_the_tables_of_the_code(database: Database) -> None:
    def differences(connection: Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    assert await database.read(differences) == []


def checks(connection: Connection) -> dict[str, list[str]]:
    found = inspect(connection)
    return {
        table: sorted(check["sqltext"] for check in found.get_check_constraints(table))
        for table in metadata.tables
    }


@requirement("M-07")
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)  # PostgreSQL rewrites what it was given
async def test_the_migrations_make_the_check_constraints_of_the_code(database: Database) -> None:
    fresh = create_engine("sqlite://")
    with fresh.connect() as connection:
        metadata.create_all(connection)
        wanted = checks(connection)
    fresh.dispose()
    assert sum(map(len, wanted.values())) > 5
    assert await database.read(checks) == wanted


@requirement("M-07")
async def test_the_database_refuses_a_status_that_is_none(store: Store, database: Database) -> None:
    await scene.one_call(store)
    with pytest.raises(IntegrityError, match="(?i)check"):
        await database.write(lambda tx: tx.execute(text("UPDATE tool_calls SET status = 'maybe'")))


async def test_upgrading_twice_does_nothing_the_second_time(database: Database, store_url: str) -> None:
    fresh = Database(store_url, 5)
    assert await upgrade(fresh) == (head(), head())
    assert await current(fresh) == head()
    await fresh.close()


async def test_an_upgrade_says_from_where_to_where(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'new' / 'folder' / 'x.db'}", 5)
    assert await current(database) is None
    assert await upgrade(database) == (None, head())
    await database.close()


@pytest.mark.parametrize("exists", [True, False])
async def test_a_store_that_is_not_migrated_is_refused_with_what_to_do(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "x.db"
    if exists:
        path.touch()
    with pytest.raises(ConfigurationError, match="version none") as refused:
        async with open_store(f"sqlite:///{path}", tmp_path, 1):
            pass
    assert refused.value.hint == "run: roundturn db upgrade"
    assert path.exists() == exists, "asking makes no file"


async def test_a_store_from_a_newer_program_is_left_alone(database: Database) -> None:
    await database.write(lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(ConfigurationError, match="9999, which this program does not know"):
        await upgrade(database)
    assert await current(database) == "9999"


@requirement("P117")
async def test_eight_processes_may_open_and_upgrade_a_fresh_database_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_AND_WORK, str(tmp_path), str(ROUNDS), str(PROCESSES)]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    count = text("SELECT count(*), count(DISTINCT session) FROM inbox")
    for n in range(ROUNDS):
        database = Database(f"sqlite:///{tmp_path / str(n) / 'x.db'}", 5)
        assert tuple(await database.read(lambda tx: tx.execute(count).one())) == (PROCESSES, PROCESSES)
        await database.close()
