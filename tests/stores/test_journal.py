"""The journal: offsets of a run are dense, whoever writes."""

import asyncio
from datetime import UTC, datetime

from roundturn.event import NewEvent
from roundturn.store import Store
from roundturn.stores.engine import Database
from tests.requirements import requirement
from tests.stores import scene

RUN = "s_run/1"


@requirement("J-03")
async def test_offsets_are_dense_under_eight_concurrent_writers(
    store: Store, databases: list[Database]
) -> None:
    async def write(writer: int) -> None:
        for n in range(5):
            batch = [NewEvent("step.started", {"writer": writer, "n": n, "part": part}) for part in range(3)]
            await scene.journal(databases[writer % 4], RUN, batch)

    await asyncio.gather(*(write(writer) for writer in range(8)))
    found = await store.journal.read(RUN, 0, 1_000)
    assert [event.offset for event in found] == list(range(1, 121))
    for writer in range(8):
        mine = [(e.data["n"], e.data["part"]) for e in found if e.data["writer"] == writer]
        assert mine == [(n, part) for n in range(5) for part in range(3)], "a writer's own order is kept"
    batches = [[(e.data["writer"], e.data["n"]) for e in found[i : i + 3]] for i in range(0, 120, 3)]
    assert all(len(set(batch)) == 1 for batch in batches), "the events of one write stand together"


async def test_each_run_counts_for_itself(store: Store, database: Database) -> None:
    for run in ("a", "b", "a"):
        await scene.journal(database, run, [NewEvent("turn.started")])
    assert [event.offset for event in await store.journal.read("a", 0, 9)] == [1, 2]
    assert [event.offset for event in await store.journal.read("b", 0, 9)] == [1]


@requirement("J-04")
async def test_reading_goes_on_after_an_offset_and_is_bounded(store: Store, database: Database) -> None:
    await scene.journal(database, RUN, [NewEvent("step.started", {"n": n}) for n in range(10)])
    assert [event.offset for event in await store.journal.read(RUN, 4, 3)] == [5, 6, 7]
    assert await store.journal.read(RUN, 10, 3) == []


async def test_no_events_take_no_offset(store: Store, database: Database) -> None:
    await scene.journal(database, RUN, [])
    await scene.journal(database, RUN, [NewEvent("turn.started")])
    assert [event.offset for event in await store.journal.read(RUN, 0, 9)] == [1]


@requirement("J-07")
async def test_an_event_keeps_its_own_time_and_gets_the_databases_otherwise(
    store: Store, database: Database
) -> None:
    then = datetime(2020, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    await scene.journal(database, RUN, [NewEvent("step.started", ts=then), NewEvent("turn.started")])
    own, given = await store.journal.read(RUN, 0, 9)
    assert own.ts == then
    assert abs((datetime.now(UTC) - given.ts).total_seconds()) < 60
