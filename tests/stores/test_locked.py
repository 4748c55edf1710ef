"""A store that is locked is waited for, one that cannot be used says so, and a cancelled write leaves no lock."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from roundturn.errors import ConfigurationError, Unavailable
from roundturn.store import Store, insist
from roundturn.stores import open_store
from roundturn.stores.engine import Database, Tx
from roundturn.stores.migrations import current, upgrade
from tests.requirements import requirement
from tests.stores import scene

HOLD = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
held.execute("COMMIT")
"""


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """Only SQLite: the whole file is about one file and its locks."""
    return f"sqlite:///{tmp_path / 'roundturn.db'}"


async def scalars(database: Database, query: str) -> list[Any]:
    return await database.read(lambda tx: list(tx.execute(text(query)).scalars()))


@contextmanager
def another_process_writes(database: Database, seconds: float) -> Iterator[None]:
    assert database.path is not None
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, database.path, str(seconds)], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        holder.stdout.close()
        holder.kill()
        holder.wait()


@requirement("P117")
async def test_a_client_with_patience_only_waits_while_another_process_writes(
    store: Store, database: Database
) -> None:
    session = await scene.session(store)
    with another_process_writes(database, 3):
        began = time.monotonic()
        seen = await store.sessions.read(session)
        assert seen is not None, "readers do not wait at all"
        assert time.monotonic() - began < 1
        accepted = await asyncio.gather(*(store.inbox.accept(session, f"{n}") for n in range(3)))
        assert 2 < time.monotonic() - began < 20
    assert sorted(each.turn for each in accepted if each) == [f"{session}/{n}" for n in (1, 2, 3)]


@requirement("P117")
async def test_a_client_without_patience_hears_unavailable_and_nothing_is_written(
    store: Store, database: Database, store_url: str, tmp_path: Path
) -> None:
    session = await scene.session(store)
    async with open_store(store_url, tmp_path / "blobs", 0.2) as hasty:
        with another_process_writes(database, 60):
            with pytest.raises(Unavailable, match="locked by another process") as refused:
                await hasty.inbox.accept(session, "lost")
            assert refused.value.hint
        assert (await hasty.inbox.accept(session, "kept")) is not None
    assert await scalars(database, "SELECT text FROM inbox") == ["kept"]


async def test_what_must_be_written_is_written_when_the_lock_is_gone(
    store: Store, database: Database, store_url: str, tmp_path: Path
) -> None:
    _, call = await scene.one_call(store)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with open_store(store_url, tmp_path / "blobs", 0.2) as hasty:
        with another_process_writes(database, 1):
            row = await insist(
                lambda: hasty.ledger.settle(call, "o", scene.outcome(), scene.attempt("o")), pause
            )
    assert row.status == "completed"
    assert pauses
    assert pauses[:3] == [0.1, 0.2, 0.4][: len(pauses)]


async def test_a_write_that_is_cancelled_holds_nothing_afterwards(store: Store, database: Database) -> None:
    session = await scene.session(store)
    for n in range(30):
        write = asyncio.create_task(store.inbox.accept(session, "cancelled"))
        for _ in range(n):
            await asyncio.sleep(0)
        write.cancel()
        await asyncio.gather(write, return_exceptions=True)
        other = Database(str(database.url), 2)
        await other.write(lambda tx: tx.execute(text("UPDATE sessions SET agent = agent")))
        await other.close()
    counts = "SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM turns), (SELECT max(last_turn) FROM sessions)"
    inbox, turns, last = await database.read(lambda tx: tx.execute(text(counts)).one())
    assert inbox == turns == last


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    def fail_half_way(tx: Tx) -> None:
        tx.execute(text("INSERT INTO event_counters (run, last) VALUES ('r', 1)"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(fail_half_way)
    assert await scalars(database, "SELECT count(*) FROM event_counters") == [0]


@requirement("P117")
async def test_a_directory_in_the_place_of_the_database_is_a_clear_message(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}", 1)
    for use in (current, upgrade):
        with pytest.raises(ConfigurationError, match="cannot be written: unable to open") as refused:
            await use(database)
        assert "home directory" in refused.value.hint
    await database.close()


@requirement("P117")
async def test_a_file_in_the_place_of_the_directory_is_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    database = Database(f"sqlite:///{tmp_path / 'file' / 'x.db'}", 1)
    with pytest.raises(ConfigurationError, match="directory cannot be made"):
        await upgrade(database)
    await database.close()


@requirement("P117")
async def test_a_file_that_is_no_database_is_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database at all, only words " * 10)
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", 1)
    with pytest.raises(ConfigurationError, match="not a database"):
        await upgrade(database)
    await database.close()


@requirement("P117")
async def test_a_store_that_may_only_be_read_is_a_clear_message(store: Store, database: Database) -> None:
    session = await scene.session(store)
    read_only = Database(f"sqlite:///file:{database.path}?mode=ro&uri=true", 1)
    with pytest.raises(ConfigurationError, match="cannot be written: attempt to write a readonly"):
        await read_only.write(lambda tx: tx.execute(text("UPDATE sessions SET last_turn = 9")))
    await read_only.close()
    assert await store.sessions.read(session) is not None


@pytest.mark.parametrize(
    "url", ["nonsense", "foo://x", "sqlite:///:memory:", "sqlite://", "postgresql+nodriver://h/d"]
)
def test_a_url_that_cannot_be_used_names_what_can(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Database(url, 1)
    assert "ROUNDTURN_DATABASE_URL" in refused.value.hint


def test_a_url_with_a_password_is_not_shown_when_it_cannot_be_used() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Database("foo+bar://user:canary-password@host/db", 1)
    assert "canary" not in f"{refused.value.detail} {refused.value.hint}"
