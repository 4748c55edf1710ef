"""The inbox: a message is handled once and in order, whoever sends, rings and takes how often."""

import asyncio
from datetime import timedelta

from roundturn import ids
from roundturn.store import Store
from roundturn.stores.engine import Database
from tests import rows
from tests.requirements import requirement
from tests.stores import scene


async def finish_next(store: Store, session: str) -> str | None:
    taken = await store.inbox.take(session)
    if taken is not None:
        assert (await store.turns.finish(taken.turn, "completed", "", 1)).first
    return taken.turn if taken else None


async def test_a_message_gets_a_turn_id_of_its_session_and_a_place_in_the_queue(store: Store) -> None:
    session = await scene.session(store)
    first, second = [await store.inbox.accept(session, text) for text in ("a", "b")]
    assert first is not None
    assert second is not None
    assert (first.turn, first.position) == (f"{session}/1", 0)
    assert (second.turn, second.position) == (f"{session}/2", 1)
    assert not first.repeated


async def test_a_message_to_no_session_is_not_accepted(store: Store) -> None:
    assert await store.inbox.accept(ids.session_id(b"x" * 16), "hello") is None


@requirement("J-20", "P119")
async def test_messages_are_taken_in_the_order_in_which_they_were_accepted(
    store: Store, database: Database
) -> None:
    session = await scene.session(store)
    for text in ("a", "b", "c"):
        await store.inbox.accept(session, text)
    taken = [await finish_next(store, session) for _ in range(4)]
    assert taken == [f"{session}/1", f"{session}/2", f"{session}/3", None]
    said = [entry.text for entry in (await rows.transcript(database, session)).entries]
    assert said == ["a", "b", "c"]


@requirement("P119")
async def test_the_same_key_twice_is_one_turn(store: Store) -> None:
    session = await scene.session(store)
    first = await store.inbox.accept(session, "a", "key-1")
    again = await store.inbox.accept(session, "another text", "key-1")
    assert first is not None
    assert again is not None
    assert (again.turn, again.repeated) == (first.turn, True)
    assert [await finish_next(store, session) for _ in range(2)] == [first.turn, None]


@requirement("P119")
async def test_the_same_key_at_the_same_time_is_one_turn(stores: list[Store]) -> None:
    session = await scene.session(stores[0])
    accepted = await asyncio.gather(*(store.inbox.accept(session, "a", "key") for store in stores * 3))
    assert {each.turn for each in accepted if each} == {f"{session}/1"}
    assert sorted(each.repeated for each in accepted if each) == [False] + [True] * 11


async def test_the_same_key_in_two_sessions_is_two_turns(store: Store) -> None:
    turns = set()
    for _ in range(2):
        accepted = await store.inbox.accept(await scene.session(store), "a", "key")
        assert accepted is not None
        turns.add(accepted.turn)
    assert len(turns) == 2


async def test_taking_again_gives_the_same_turn_until_it_has_ended(store: Store) -> None:
    session = await scene.session(store)
    for text in ("a", "b"):
        await store.inbox.accept(session, text)
    first = await store.inbox.take(session)
    assert first is not None
    assert await store.inbox.take(session) == first
    await store.turns.finish(first.turn, "completed", "", 1)
    second = await store.inbox.take(session)
    assert second is not None
    assert second.turn != first.turn


async def test_takers_at_the_same_time_get_the_same_turn_which_starts_once(
    stores: list[Store], database: Database
) -> None:
    session = await scene.session(stores[0])
    for text in ("a", "b"):
        await stores[0].inbox.accept(session, text)
    taken = await asyncio.gather(*(store.inbox.take(session) for store in stores * 3))
    assert {each.turn for each in taken if each} == {f"{session}/1"}
    assert (await scene.events(stores[0], f"{session}/1")).count("turn.started") == 1
    assert len((await rows.transcript(database, session)).entries) == 1


@requirement("P119")
async def test_concurrent_messages_are_all_kept_and_handled_in_order_of_acceptance(
    stores: list[Store], database: Database
) -> None:
    session = await scene.session(stores[0])
    accepted = await asyncio.gather(
        *(stores[n % 4].inbox.accept(session, f"text {n}") for n in range(20)),
    )
    by_turn = {each.turn: f"text {n}" for n, each in enumerate(accepted) if each}
    assert len(by_turn) == 20
    assert sorted(each.position for each in accepted if each) == list(range(20))
    taken = [await finish_next(stores[0], session) for _ in range(20)]
    assert taken == [f"{session}/{n}" for n in range(1, 21)]
    said = [entry.text for entry in (await rows.transcript(database, session)).entries]
    assert said == [by_turn[turn] for turn in taken if turn]


async def test_the_first_message_rings_and_those_behind_a_rung_one_need_not(store: Store) -> None:
    session = await scene.session(store)
    for text in ("a", "b"):
        await store.inbox.accept(session, text)
    first, second = f"{session}/1", f"{session}/2"
    assert await store.inbox.should_ring(first)
    assert await store.inbox.should_ring(second), "nobody has rung for the older one"
    await store.inbox.mark_rung(first)
    assert not await store.inbox.should_ring(second)


async def test_a_ring_for_a_taken_message_does_not_count_for_the_next(store: Store) -> None:
    session = await scene.session(store)
    for text in ("a", "b"):
        await store.inbox.accept(session, text)
    await store.inbox.mark_rung(f"{session}/1")
    await store.inbox.take(session)
    assert await store.inbox.should_ring(f"{session}/2")


async def test_a_ring_in_another_session_does_not_count(store: Store) -> None:
    rung, quiet = await scene.session(store), await scene.session(store)
    await store.inbox.accept(rung, "a")
    await store.inbox.mark_rung(f"{rung}/1")
    await store.inbox.accept(quiet, "b")
    assert await store.inbox.should_ring(f"{quiet}/1")


async def test_a_stopped_turn_that_waits_ends_at_once_and_is_never_taken(store: Store) -> None:
    session = await scene.session(store)
    for text in ("a", "b"):
        await store.inbox.accept(session, text)
    stopped = await store.turns.request_stop(f"{session}/1", "ann")
    assert stopped is not None
    assert (stopped.turn.state, stopped.turn.reason) == ("cancelled", "stopped by ann before it started")
    taken = await store.inbox.take(session)
    assert taken is not None
    assert taken.turn == f"{session}/2"
    assert (await scene.events(store, f"{session}/1"))[-2:] == ["turn.ended", "run.ended"]


async def test_a_stop_and_a_take_at_the_same_time_agree(stores: list[Store]) -> None:
    """Either it never began, or it began and carries the stop."""
    for _ in range(10):
        session = await scene.session(stores[0])
        await stores[0].inbox.accept(session, "a")
        turn = f"{session}/1"
        taken, _ = await asyncio.gather(
            stores[1].inbox.take(session), stores[2].turns.request_stop(turn, "ann")
        )
        row = await stores[0].turns.read(turn)
        assert row is not None
        assert row.stop_origin == "ann"
        assert row.state == ("running" if taken else "cancelled")
        assert (await scene.events(stores[0], turn)).count("turn.ended") == (0 if taken else 1)


async def test_failed_starts_are_counted(store: Store) -> None:
    turn = await scene.running_turn(store)
    assert [await store.inbox.count_start(turn) for _ in range(3)] == [1, 2, 3]


async def test_sessions_with_old_work_that_nobody_does_are_found(store: Store) -> None:
    waiting, busy, idle = [await scene.session(store) for _ in range(3)]
    for session in (waiting, busy, busy):
        await store.inbox.accept(session, "a")
    await store.inbox.take(busy)
    now = timedelta(0)
    assert await store.inbox.untaken(now, 10) == [waiting], "a busy session's own turn moves its queue on"
    assert await store.inbox.untaken(timedelta(hours=1), 10) == []
    assert idle not in await store.inbox.untaken(now, 10)
    await store.turns.finish(f"{busy}/1", "completed", "", 1)
    assert await store.inbox.untaken(now, 1) == [waiting], "bounded, oldest first"
    assert await store.inbox.untaken(now, 10) == [waiting, busy]
