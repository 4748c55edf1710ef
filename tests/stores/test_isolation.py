"""What transactions see of each other, and what becomes of one that is held up, frozen or cut off."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text, update

from roundturn import ids
from roundturn.errors import Unavailable
from roundturn.message import Usage
from roundturn.store import Store
from roundturn.stores import engine, open_store
from roundturn.stores.engine import Database, Tx
from roundturn.stores.migrations import head
from roundturn.stores.tables import sessions
from roundturn.tool import Effect
from tests.postgresql import PostgresServer
from tests.requirements import requirement
from tests.stores import scene

only_postgresql = pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)

OPEN_AND_WORK = """
import asyncio, sys
from pathlib import Path
from roundturn.stores import open_store
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade

async def work(url, blobs):
    sys.stdin.readline()
    database = Database(url, 30)
    print((await upgrade(database))[0])
    await database.close()
    async with open_store(url, blobs, 30) as store:
        session = await store.sessions.open("default", "/work")
        await store.inbox.accept(session.id, "hello")

print("ready", flush=True)
asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
"""


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[Any]:
    """A connection beside the store's, for a test that holds a transaction open."""
    plain = await asyncpg.connect(
        host=database.url.query["host"], user="postgres", database=database.url.database
    )
    try:
        yield plain
    finally:
        await plain.close()


async def somebody_waits(database: Database) -> None:
    """Until a statement on this database waits for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    end = time.monotonic() + 20
    while not await database.read(lambda tx: tx.execute(waiting).scalar_one()):
        assert time.monotonic() < end, "nobody waits"
        await asyncio.sleep(0.02)


async def test_a_read_of_several_statements_sees_one_moment(
    database: Database, databases: list[Database]
) -> None:
    """A model's request is built from several: half of another attempt's step in it would be refused."""
    first = text("SELECT count(*) FROM event_counters")
    other = databases[1]

    def look(tx: Tx) -> tuple[int, int]:
        before: int = tx.execute(first).scalar_one()
        writing.set()
        while not written.is_set():
            tx.execute(text("SELECT 1"))
        return before, tx.execute(first).scalar_one()

    async def write() -> None:
        while not writing.is_set():
            await asyncio.sleep(0.01)
        await other.write(lambda tx: tx.execute(text("INSERT INTO event_counters VALUES ('r', 1)")))
        written.set()

    writing, written = asyncio.Event(), asyncio.Event()
    seen, _ = await asyncio.gather(database.read(look), write())
    assert seen == (0, 0)


@only_postgresql
async def test_the_fence_sees_the_generation_that_was_set_while_it_waited(
    store: Store, database: Database
) -> None:
    turn, call = await scene.one_call(store)
    async with connected(database) as plain:
        transaction = plain.transaction()
        await transaction.start()
        await plain.execute("SELECT 1 FROM turns WHERE id = $1 FOR NO KEY UPDATE", turn)
        await plain.execute("UPDATE sessions SET generation = 7 WHERE id = $1", ids.session_of(turn))
        late = asyncio.create_task(store.ledger.claim(call, "o", scene.LEASE, None, scene.DIGEST))
        await somebody_waits(database)
        await transaction.commit()
    assert await late == "stopped"


@only_postgresql
@requirement("P117")
async def test_a_row_that_another_process_holds_is_waited_for_only_so_long(
    store: Store, database: Database, store_url: str, tmp_path: Path
) -> None:
    session = await scene.session(store)
    async with connected(database) as plain, open_store(store_url, tmp_path / "blobs", 0.2) as hasty:
        transaction = plain.transaction()
        await transaction.start()
        await plain.execute("UPDATE sessions SET agent = 'held' WHERE id = $1", session)
        with pytest.raises(Unavailable, match="locked by another process") as refused:
            await hasty.inbox.accept(session, "lost")
        assert refused.value.hint
        await transaction.rollback()
        accepted = await hasty.inbox.accept(session, "kept")
        assert accepted is not None
        assert accepted.position == 0


@only_postgresql
@requirement("P117")
async def test_a_process_that_freezes_inside_a_transaction_does_not_keep_its_rows(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IDLE_S", 1)
    session = await scene.session(store)
    frozen_now, thawed = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    agent = update(sessions).where(sessions.c.id == session)

    def freeze(tx: Tx) -> None:
        tx.execute(agent.values(agent="frozen"))
        loop.call_soon_threadsafe(frozen_now.set)
        assert thawed.wait(60)
        tx.execute(agent.values(agent="awake"))

    async def frozen() -> None:
        database = Database(store_url, scene.LEASE.total_seconds())
        try:
            with pytest.raises(Unavailable):
                await database.write(freeze)
        finally:
            await database.close()

    other = asyncio.create_task(asyncio.to_thread(asyncio.run, frozen()))
    await frozen_now.wait()
    assert await store.inbox.accept(session, "goes on") is not None
    assert not other.done(), "nobody waited for it to wake up"
    thawed.set()
    await other
    row = await store.sessions.read(session)
    assert row is not None
    assert row.agent == "default"


@only_postgresql
async def test_a_write_that_is_cancelled_holds_nothing_afterwards(store: Store, database: Database) -> None:
    session = await scene.session(store)
    for n in range(60):
        write = asyncio.create_task(store.inbox.accept(session, "cancelled"))
        for _ in range(n):
            await asyncio.sleep(0)
        write.cancel()
        await asyncio.gather(write, return_exceptions=True)
    assert await store.inbox.accept(session, "kept") is not None
    counts = text(
        "SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM turns), (SELECT max(last_turn) FROM sessions)"
    )
    inbox, turns, last = await database.read(lambda tx: tx.execute(counts).one())
    assert inbox == turns == last
    held = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    )
    assert await database.read(lambda tx: tx.execute(held).scalar_one()) == 0


@only_postgresql
@requirement("J-20")
async def test_everybody_at_once_on_a_few_sessions_never_deadlocks(
    stores: list[Store], database: Database
) -> None:
    """More at a time than a process has connections; each does what turns, people and the reconciler do."""
    opened = [await scene.session(stores[0]) for _ in range(4)]

    async def sender(store: Store, session: str) -> None:
        for n in range(5):
            accepted = await store.inbox.accept(session, "m", key=f"{n % 3}")
            assert accepted is not None
            if await store.inbox.should_ring(accepted.turn):
                await store.inbox.mark_rung(accepted.turn)

    async def worker(store: Store, session: str) -> None:
        while (taken := await store.inbox.take(session)) is not None:
            turn, call = taken.turn, ids.call_id(taken.turn, 0, 0)
            await scene.step(store, turn, scene.planned(Effect.ONCE), usage=Usage(input_tokens=1))
            if await store.ledger.read(call) is None:
                continue
            approval = await store.approvals.request(scene.question(turn, call), timedelta(hours=1))
            grant = approval.id if approval and approval.digest == scene.DIGEST else None
            if grant:
                await scene.approve(store, grant)
            if await store.ledger.claim(call, session, scene.LEASE, grant, scene.DIGEST) == "won":
                await store.ledger.renew(call, session, scene.LEASE)
                await store.ledger.settle(call, session, scene.outcome(), scene.attempt(f"{id(store)}{call}"))
            await store.turns.finish(turn, "completed", "", 1)

    async def meddler(store: Store, session: str) -> None:
        for n in range(1, 5):
            turn = ids.turn_id(session, n)
            await asyncio.gather(
                store.turns.running_since(timedelta(seconds=-1), 100),
                store.turns.request_stop(turn, "ann") if n == 3 else store.turns.read(turn),
                store.sessions.freeze(session, "same"),
                store.approvals.undelivered(timedelta(seconds=-1), 100),
            )

    for _ in range(2):
        jobs = [job(store, s) for s in opened for store in stores for job in (sender, worker, meddler)]
        await asyncio.gather(*jobs)
    for session in opened:
        await worker(stores[0], session)
    found = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert await database.read(lambda tx: tx.execute(found).scalar_one()) == 0
    open_rows = text("SELECT count(*) FROM inbox WHERE state IN ('waiting', 'taken')")
    assert await database.read(lambda tx: tx.execute(open_rows).scalar_one()) == 0
    gaps = text(
        "SELECT count(*) FROM event_counters c WHERE last <> (SELECT count(*) FROM run_events WHERE run = c.run)"
    )
    assert await database.read(lambda tx: tx.execute(gaps).scalar_one()) == 0


@only_postgresql
async def test_more_at_once_than_there_are_connections_wait_their_turn(store: Store) -> None:
    opened = await asyncio.gather(*(scene.session(store) for _ in range(200)))
    accepted = await asyncio.gather(*(store.inbox.accept(session, "hello") for session in opened))
    assert len({each.turn for each in accepted if each}) == 200


async def test_a_restart_of_the_server_between_two_transactions_is_not_noticed() -> None:
    server = PostgresServer()
    database = Database(await server.create_database(), 5)
    try:

        async def ask(_: int) -> int:
            found: int = await database.read(lambda tx: tx.execute(text("SELECT 1")).scalar_one())
            return found

        async def connections() -> list[int]:
            return await asyncio.gather(*map(ask, range(20)))

        await connections()
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        assert await connections() == [1] * 20
    finally:
        await database.close()
        server.close()


@only_postgresql
async def test_a_statement_prepared_before_a_migration_is_tried_again(
    store: Store, database: Database
) -> None:
    session = await scene.session(store)
    assert await store.sessions.read(session) is not None
    await database.write(
        lambda tx: tx.execute(text("ALTER TABLE sessions ALTER COLUMN action_dir TYPE varchar(500)"))
    )
    with pytest.raises(Unavailable):
        await store.sessions.read(session)
    assert await store.sessions.read(session) is not None


@only_postgresql
@requirement("P117")
async def test_four_processes_may_upgrade_a_fresh_database_at_once(store_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_AND_WORK, store_url, str(tmp_path)]
    children = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
    ended = await asyncio.gather(*(asyncio.to_thread(child.communicate, "go\n") for child in children))
    assert [(child.returncode, err) for child, (_, err) in zip(children, ended, strict=True)] == [(0, "")] * 4
    assert sorted(out.strip() for out, _ in ended) == sorted(["None", *[head()] * 3]), "one migrated"
    database = Database(store_url, 5)
    count = text("SELECT count(*) FROM inbox")
    assert await database.read(lambda tx: tx.execute(count).scalar_one()) == 4
    await database.close()


@only_postgresql
@requirement("J-20")
async def test_a_commit_is_on_the_disk_before_anybody_hears_of_it_whatever_the_server_is_set_to(
    store: Store, database: Database
) -> None:
    name = database.url.database
    await database.write(lambda tx: tx.execute(text(f'ALTER DATABASE "{name}" SET synchronous_commit = off')))
    again = Database(database.url.render_as_string(hide_password=False), 5)
    try:
        shown = await again.read(lambda tx: tx.execute(text("SHOW synchronous_commit")).scalar_one())
    finally:
        await again.close()
    assert shown == "on"


@requirement("J-20")
async def test_a_server_that_stands_still_is_unavailable_and_serves_again_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "ANSWER_S", 0.5)
    server = PostgresServer()
    database = Database(await server.create_database(), 0.5)
    pid: int = await database.read(lambda tx: tx.execute(text("SELECT pg_backend_pid()")).scalar_one())
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable):
                await database.read(lambda tx: tx.execute(text("SELECT 1")).scalar_one())
    finally:
        os.kill(pid, signal.SIGCONT)
    assert await database.read(lambda tx: tx.execute(text("SELECT 1")).scalar_one()) == 1
    await database.close()
    server.close()
