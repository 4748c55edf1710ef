"""Writes that wait for the one writer share a commit, and nothing else: each stands or falls by itself."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from roundturn.errors import Unavailable
from roundturn.event import NewEvent
from roundturn.store import Store
from roundturn.stores.engine import MOST_TOGETHER, Database, Tx
from roundturn.stores.journal import append
from tests.requirements import requirement
from tests.stores import scene
from tests.stores.test_locked import another_process_writes


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """Only SQLite: PostgreSQL has as many writers as there are connections."""
    return f"sqlite:///{tmp_path / 'roundturn.db'}"


@asynccontextmanager
async def busy_writer(database: Database) -> AsyncIterator[None]:
    """The writer is in the middle of a transaction; what is asked for inside the block waits until its end."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_tx: Tx) -> None:
        begun.set()
        go_on.wait(60)

    held = asyncio.create_task(database.write(hold))
    await asyncio.to_thread(begun.wait, 60)
    try:
        yield
    finally:
        go_on.set()
        await held


async def asked(database: Database, *works: Callable[[Tx], Any]) -> list[asyncio.Task[Any]]:
    """Writes that stand in the writer's queue."""
    tasks = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0)
    return tasks


def note(run: str) -> Callable[[Tx], Any]:
    """Writes a row, and tells in which transaction."""

    def work(tx: Tx) -> Any:
        tx.execute(text("INSERT INTO event_counters (run, last) VALUES (:run, 1)"), {"run": run})
        return tx.get_transaction()

    return work


def failing(run: str) -> Callable[[Tx], Any]:
    def work(tx: Tx) -> None:
        note(run)(tx)
        raise ZeroDivisionError(run)

    return work


async def noted(database: Database) -> list[str]:
    query = text("SELECT run FROM event_counters ORDER BY rowid")
    return await database.read(lambda tx: list(tx.execute(query).scalars()))


@requirement("P117")
async def test_writes_that_wait_are_committed_together_in_their_order(database: Database) -> None:
    names = [f"r{n}" for n in range(10)]
    async with busy_writer(database):
        tasks = await asked(database, *(note(name) for name in names))
    transactions = await asyncio.gather(*tasks)
    assert len(set(map(id, transactions))) == 1
    assert await noted(database) == names


async def test_a_transaction_is_bounded_so_that_other_processes_get_their_turn(database: Database) -> None:
    async with busy_writer(database):
        tasks = await asked(database, *(note(f"r{n}") for n in range(MOST_TOGETHER + 1)))
    transactions = await asyncio.gather(*tasks)
    assert len(set(map(id, transactions[:MOST_TOGETHER]))) == 1
    assert transactions[-1] is not transactions[0]
    assert len(await noted(database)) == MOST_TOGETHER + 1


async def test_one_that_fails_takes_back_nothing_but_itself(database: Database) -> None:
    async with busy_writer(database):
        tasks = await asked(database, note("a"), failing("b"), note("c"), failing("d"), note("e"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results if isinstance(result, ZeroDivisionError)] == ["b", "d"]
    assert await noted(database) == ["a", "c", "e"]


async def test_a_statement_that_is_refused_takes_back_nothing_of_its_neighbours(database: Database) -> None:
    async with busy_writer(database):
        tasks = await asked(database, note("a"), note("a"), note("b"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, IntegrityError) for result in results] == [False, True, False]
    assert await noted(database) == ["a", "b"]


async def test_when_the_commit_fails_every_one_hears_it_and_none_is_written(database: Database) -> None:
    def refused_at_the_end(tx: Tx) -> None:
        tx.execute(text("PRAGMA defer_foreign_keys = ON"))
        attempt = "INSERT INTO attempts VALUES ('a', 'no such call', 'x', 'x', 0, 0, NULL)"
        tx.execute(text(attempt))

    async with busy_writer(database):
        tasks = await asked(database, note("a"), refused_at_the_end, note("b"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, IntegrityError) for result in results)
    assert await noted(database) == []
    await database.write(note("later"))
    assert await noted(database) == ["later"]


async def test_when_the_transaction_is_lost_every_one_hears_it_and_none_is_written(
    database: Database,
) -> None:
    def disk_fails(tx: Tx) -> None:
        driver: Any = tx.connection.dbapi_connection
        driver.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
        raise OSError("disk I/O error")

    async with busy_writer(database):
        tasks = await asked(database, note("a"), disk_fails, note("b"))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 3
    assert await noted(database) == []
    await database.write(note("later"))
    assert await noted(database) == ["later"]


async def test_one_whose_caller_has_gone_before_it_began_is_left_out(database: Database) -> None:
    async with busy_writer(database):
        tasks = await asked(database, note("a"), note("gone"), note("b"))
        tasks[1].cancel()
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert await noted(database) == ["a", "b"]


async def test_closing_writes_what_was_asked_for_before_and_takes_nothing_after(
    database: Database, store_url: str
) -> None:
    closed = Database(store_url, 5)
    async with busy_writer(closed):
        tasks = await asked(closed, note("a"), note("b"))
        closing = asyncio.create_task(closed.close())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="closed"):
            await closed.write(note("late"))
    await asyncio.gather(closing, *tasks)
    assert await noted(database) == ["a", "b"]


@requirement("P117")
async def test_a_locked_store_is_unavailable_to_every_one_that_waits(
    database: Database, store_url: str
) -> None:
    hasty = Database(store_url, 0.2)
    with another_process_writes(database, 60):
        results = await asyncio.gather(
            *(hasty.write(note(f"r{n}")) for n in range(5)), return_exceptions=True
        )
    assert [type(result) for result in results] == [Unavailable] * 5
    await hasty.write(note("kept"))
    assert await noted(database) == ["kept"]
    await hasty.close()


async def test_offsets_stay_dense_when_neighbours_fail(store: Store, database: Database) -> None:
    turn = await scene.running_turn(store)
    before = len(await scene.events(store, turn))

    def event(fails: bool) -> Callable[[Tx], Any]:
        def work(tx: Tx) -> None:
            append(tx, turn, [NewEvent("model.limited"), NewEvent("model.limited")])
            if fails:
                raise ZeroDivisionError

        return work

    async with busy_writer(database):
        tasks = await asked(database, *(event(n % 3 == 1) for n in range(50)))
    await asyncio.gather(*tasks, return_exceptions=True)
    offsets = [each.offset for each in await store.journal.read(turn, 0, 1000)]
    assert offsets == list(range(1, before + 2 * 33 + 1))
