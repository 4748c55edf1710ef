"""The hour's actions: counted once for a call, for the whole job, and never one too many."""

import asyncio
from datetime import timedelta

from sqlalchemy import select, update

from roundturn import ids
from roundturn.ledger import Outcome
from roundturn.run import NewSubagent, Spawned
from roundturn.store import Store, Taken
from roundturn.stores.engine import Database, now
from roundturn.stores.tables import actions
from roundturn.tool import Effect
from tests.requirements import requirement
from tests.stores import scene


async def calls(store: Store, count: int) -> tuple[str, list[str]]:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *(scene.planned(Effect.ONCE) for _ in range(count)))
    return turn, [ids.call_id(turn, 0, index) for index in range(count)]


@requirement("X-11", "M-24")
async def test_a_call_has_one_place_however_often_it_asks(store: Store) -> None:
    _, (one, two, three) = await calls(store, 3)
    for _ in range(5):
        assert await store.actions.reserve(one, 2) is None
    assert await store.actions.reserve(two, 2) is None
    assert await store.actions.reserve(three, 2) is not None
    assert await store.actions.reserve(two, 2) is None, "who has a place keeps it when the hour is full"


@requirement("X-11")
async def test_twenty_at_the_same_moment_get_the_places_there_are(stores: list[Store]) -> None:
    _, asking = await calls(stores[0], 20)
    answers = await asyncio.gather(*(stores[n % 4].actions.reserve(call, 7) for n, call in enumerate(asking)))
    assert sum(answer is None for answer in answers) == 7


async def age(database: Database, call: str, by: timedelta) -> None:
    await database.write(
        lambda tx: tx.execute(update(actions).where(actions.c.call == call).values(at=now(tx) - by))
    )


@requirement("X-11", "M-24")
async def test_what_a_person_allowed_after_an_hour_counts_from_the_moment_it_goes_on(
    store: Store, database: Database
) -> None:
    _, (asked, other) = await calls(store, 2)
    assert await store.actions.reserve(asked, 1) is None
    await age(database, asked, timedelta(hours=3))
    assert await store.actions.reserve(asked, 1) is None, "with the person's yes it comes again"
    assert await store.actions.reserve(other, 1) is not None


@requirement("X-11")
async def test_what_is_over_and_older_than_an_hour_is_forgotten_and_what_still_waits_is_not(
    store: Store, database: Database
) -> None:
    _, (over, waits, fresh, last) = await calls(store, 4)
    for call in (over, waits, fresh):
        assert await store.actions.reserve(call, 9) is None
    for call in (over, fresh):
        await store.ledger.settle(call, "o", scene.outcome(), scene.attempt(call[-3:]))
    for call in (over, waits):
        await age(database, call, timedelta(minutes=61))
    assert await store.actions.reserve(last, 9) is None
    kept = await database.read(lambda tx: set(tx.execute(select(actions.c.call)).scalars()))
    assert kept == {waits, fresh, last}


@requirement("X-11")
async def test_a_place_is_free_again_after_an_hour_and_that_moment_is_told(
    store: Store, database: Database
) -> None:
    _, (one, two, three) = await calls(store, 3)
    assert await store.actions.reserve(one, 2) is None
    assert await store.actions.reserve(two, 2) is None

    await age(database, one, timedelta(minutes=50))
    free_at = await store.actions.reserve(three, 2)
    assert free_at is not None
    moment = await database.read(now)
    assert timedelta(minutes=9) < free_at - moment < timedelta(minutes=11)
    await age(database, one, timedelta(minutes=61))
    assert await store.actions.reserve(three, 2) is None


@requirement("X-11")
async def test_what_was_refused_gives_its_place_back_and_what_ran_does_not(store: Store) -> None:
    _, (refused, ran, unknown, last) = await calls(store, 4)
    for call in (refused, ran, unknown):
        assert await store.actions.reserve(call, 3) is None
    await store.ledger.settle(ran, "o", scene.outcome(), scene.attempt("a"))
    failed = Outcome("completed", "no", is_error=True)
    await store.ledger.settle(unknown, "o", failed, scene.attempt("b"))
    assert await store.actions.reserve(last, 3) is not None
    denied = Outcome("denied", "no", is_error=True)
    await store.ledger.settle(refused, "o", denied, scene.attempt("c", "denied"))
    assert await store.actions.reserve(last, 3) is None


@requirement("X-11")
async def test_a_turn_that_ends_gives_back_what_it_never_ran(store: Store) -> None:
    turn, (one, _) = await calls(store, 2)
    assert await store.actions.reserve(one, 1) is None
    await store.turns.finish(turn, "completed", "", 1)
    session = ids.session_of(turn)
    await store.inbox.accept(session, "again")
    taken = await store.inbox.take(session)
    assert isinstance(taken, Taken)
    await scene.step(store, taken.turn, scene.planned(Effect.ONCE))
    assert await store.actions.reserve(ids.call_id(taken.turn, 0, 0), 1) is None


@requirement("X-11")
async def test_delegated_work_counts_for_the_job_it_belongs_to(store: Store) -> None:
    _, (spawning, own) = await calls(store, 2)
    wanted = NewSubagent(agent="helper", task="t", title="", max_result_chars=500, awaited=False)
    spawned = await store.runs.spawn(spawning, wanted)
    assert isinstance(spawned, Spawned)
    taken = await store.inbox.take(spawned.session)
    assert isinstance(taken, Taken)
    await scene.step(store, taken.turn, scene.planned(Effect.ONCE))
    assert await store.actions.reserve(ids.call_id(taken.turn, 0, 0), 1) is None
    assert await store.actions.reserve(own, 1) is not None
    _, (elsewhere,) = await calls(store, 1)
    assert await store.actions.reserve(elsewhere, 1) is None, "another job has an hour of its own"


@requirement("X-11")
async def test_a_limit_of_none_lets_nothing_pass(store: Store) -> None:
    _, (one,) = await calls(store, 1)
    assert await store.actions.reserve(one, 0) is not None
