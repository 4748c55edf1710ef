"""The record of live rules: one, written whole, read by every call that opens."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import IntegrityError

from roundturn.store import Store
from roundturn.stores.engine import Database, now
from roundturn.stores.ledger import SqlLedger
from tests.requirements import requirement
from tests.stores import scene


@requirement("R-18")
async def test_there_are_none_until_somebody_sets_them(store: Store) -> None:
    _, call = await scene.one_call(store)
    assert await store.live_rules.read() is None
    opened = await store.ledger.open_call(call)
    assert opened is not None
    assert opened.live is None


@requirement("R-18")
async def test_they_are_replaced_whole_and_every_open_call_reads_them(
    store: Store, database: Database
) -> None:
    calls = [(await scene.one_call(store))[1] for _ in range(2)]
    before = await database.read(now)
    first = await store.live_rules.replace('{"rules":[1]}', "ada")
    assert (first.text, first.version, first.actor) == ('{"rules":[1]}', 1, "ada")
    assert abs(first.at - before) < timedelta(seconds=5)
    second = await store.live_rules.replace("{}", "bob")
    assert (second.text, second.version, second.actor) == ("{}", 2, "bob")
    assert await store.live_rules.read() == second
    for call in calls:
        opened = await store.ledger.open_call(call)
        assert opened is not None
        assert opened.live == second


@requirement("R-18")
async def test_the_same_text_again_changes_nothing_and_keeps_who_wrote_it_first(store: Store) -> None:
    first = await store.live_rules.replace("{}", "ada")
    assert await store.live_rules.replace("{}", "bob") == first


@requirement("R-18", "P19")
async def test_odd_text_is_kept_as_text(store: Store) -> None:
    row = await store.live_rules.replace('{"reason":"nul \x00 lone \ud800"}', "a\x00da")
    assert await store.live_rules.read() == row
    assert "\x00" not in row.text + row.actor


@requirement("R-18")
async def test_of_many_at_the_same_moment_each_is_whole_and_the_last_one_stands(stores: list[Store]) -> None:
    written = [f'{{"n":{n},"pad":"{"x" * 5000}"}}' for n in range(20)]
    rows = await asyncio.gather(
        *(stores[n % 4].live_rules.replace(one, f"person {n}") for n, one in enumerate(written))
    )
    assert sorted(row.version for row in rows) == list(range(1, 21))
    assert all(row.text in written and row.actor == f"person {written.index(row.text)}" for row in rows)
    (last,) = [row for row in rows if row.version == 20]
    assert [await store.live_rules.read() for store in stores] == [last] * 4


@requirement("R-18")
async def test_the_database_holds_no_second_record(store: Store, database: Database) -> None:
    await store.live_rules.replace("{}", "ada")
    second = text("INSERT INTO live_rules (id, text, version, actor, at) VALUES (2, '{}', 1, 'eve', 0)")
    with pytest.raises(IntegrityError):
        await database.write(lambda tx: tx.execute(second))


@requirement("R-18")
async def test_a_call_that_opens_makes_no_statement_more_for_them(store: Store, database: Database) -> None:
    _, call = await scene.one_call(store)
    await store.live_rules.replace("{}", "ada")
    asked: list[str] = []

    def note(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    def opened(tx: Connection) -> object:
        event.listen(tx, "before_cursor_execute", note)
        open_call: Any = SqlLedger.open_call
        try:
            return open_call.__wrapped__(SqlLedger(database), tx, call)
        finally:
            event.remove(tx, "before_cursor_execute", note)

    await database.read(opened)
    assert len(asked) == 2, "the call with the rules, and how its turn stands"
