"""Runs and subagents in rows: spawned once, ended once, their results delivered or collected once."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from roundturn import ids
from roundturn.delegation import LIVE_PER_PARENT, SPAWNS_A_MINUTE, TOTAL_PER_ROOT
from roundturn.event import RunState
from roundturn.run import NewSubagent, Refusal, Spawned
from roundturn.store import NotYet, Store, Taken
from roundturn.stores.engine import Database
from roundturn.stores.tables import completions, inbox, runs, sessions
from roundturn.tool import Effect
from tests.requirements import requirement
from tests.stores import scene

WANTED = NewSubagent("helper", "look", "a look", max_result_chars=16_000, awaited=False)


async def parent(store: Store, calls: int = 1) -> tuple[str, list[str]]:
    """A running turn that asked for so many delegations."""
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *[scene.planned(Effect.KEYED) for _ in range(calls)])
    return turn, [ids.call_id(turn, 0, n) for n in range(calls)]


async def spawned(store: Store, call: str, **changes: Any) -> Spawned:
    made = await store.runs.spawn(call, replace(WANTED, **changes))
    assert isinstance(made, Spawned), made
    return made


async def work(store: Store, child: Spawned, text: str = "found it", state: RunState = "completed") -> None:
    """The subagent's one turn, from its taking to its end."""
    assert await store.inbox.take(child.session) == Taken(child.run)
    await scene.step(store, child.run, text=text)
    await store.turns.finish(child.run, state, "", 1)


async def taken(store: Store, session: str) -> str:
    found = await store.inbox.take(session)
    assert isinstance(found, Taken), found
    return found.turn


async def heard(store: Store, turn: str) -> list[tuple[str, str]]:
    opened = await store.transcript.open_step(turn, 99, -1, 0)
    assert opened is not None
    return [(entry.role, entry.text) for entry in opened.news.entries]


async def deliveries(database: Database) -> dict[str, str]:
    query = select(completions.c.run, completions.c.delivery)
    return await database.read(lambda tx: {row.run: row.delivery for row in tx.execute(query)})


async def aged(database: Database, by: timedelta) -> None:
    """As if everything had happened so long ago."""

    def shift(tx: Any) -> None:
        for table in (completions, runs, inbox):
            for row in tx.execute(select(*table.primary_key.columns, table.c.created_at)).all():
                key = next(iter(table.primary_key.columns))
                mine = update(table).where(key == row[0])
                tx.execute(mine.values(created_at=row.created_at - by))

    await database.write(shift)


@requirement("A-23", "P119")
async def test_a_spawn_that_is_tried_again_makes_one_subagent(stores: list[Store]) -> None:
    turn, (call,) = await parent(stores[0])
    made = await asyncio.gather(*(store.runs.spawn(call, WANTED) for store in stores * 2))
    assert len(set(made)) == 1
    child = await stores[0].sessions.read(made[0].session)
    assert child is not None
    assert (child.parent, child.depth, child.agent) == (ids.session_of(turn), 1, "helper")
    assert child.action_dir == "/work"
    assert (await scene.events(stores[0], turn)).count("subagent.spawned") == 1
    assert await scene.events(stores[0], made[0].run) == ["message.accepted"]


@requirement("B-02", "B-03", "A-03", "A-38")
async def test_a_result_and_the_row_that_delivers_it_come_together_and_become_a_system_turn(
    store: Store,
) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    run = await store.runs.read(turn)
    assert run is not None
    assert run.state == "active"  # its subagent is at work
    await work(store, child)
    delivery = await taken(store, ids.session_of(turn))
    row = await store.turns.read(delivery)
    assert row is not None
    assert (row.run, row.state) == (turn, "running")
    role, text = (await heard(store, delivery))[-1]
    assert role == "system"
    assert "found it" in text
    assert child.session in text
    assert "look" not in text.replace("a look", "")  # what it was told stays with it
    await store.turns.finish(delivery, "completed", "", 1)
    types = await scene.events(store, turn)
    assert types.count("turn.ended") == 2
    assert types.count("subagent.ended") == 1
    assert types[-1] == "run.ended"
    run = await store.runs.read(turn)
    assert run is not None
    assert run.state == "completed"


@requirement("B-08")
async def test_results_that_come_together_are_one_turn_and_the_first_waits_for_its_siblings(
    store: Store, database: Database
) -> None:
    turn, calls = await parent(store, 3)
    session = ids.session_of(turn)
    children = [await spawned(store, call) for call in calls]
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, children[0], "one")
    waits = await store.inbox.take(session)
    assert isinstance(waits, NotYet)
    assert timedelta(0) < waits.wait <= timedelta(seconds=3)
    await work(store, children[1], "two")
    assert isinstance(await store.inbox.take(session), NotYet)
    await work(store, children[2], "three")  # nobody is at work any more: nothing to wait for
    delivery = await taken(store, session)
    text = (await heard(store, delivery))[-1][1]
    assert all(word in text for word in ("one", "two", "three"))
    assert set((await deliveries(database)).values()) == {"taken"}
    await store.turns.finish(delivery, "completed", "", 1)
    assert set((await deliveries(database)).values()) == {"delivered"}
    assert await store.inbox.take(session) is None


@requirement("B-08")
async def test_three_seconds_of_quiet_are_enough_while_others_are_at_work(
    store: Store, database: Database
) -> None:
    turn, calls = await parent(store, 2)
    children = [await spawned(store, call) for call in calls]
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, children[0], "one")
    await aged(database, timedelta(seconds=3))
    delivery = await taken(store, ids.session_of(turn))
    await store.turns.finish(delivery, "completed", "", 1)
    run = await store.runs.read(turn)
    assert run is not None
    assert run.state == "active"
    await work(store, children[1], "two")
    second = await taken(store, ids.session_of(turn))
    assert "one" not in (await heard(store, second))[-1][1].replace("None", "")
    await store.turns.finish(second, "completed", "", 1)
    assert (await scene.events(store, turn)).count("run.ended") == 1


@requirement("B-08")
async def test_a_steady_trickle_delays_the_first_result_fifteen_seconds_at_most(
    store: Store, database: Database
) -> None:
    turn, calls = await parent(store, 3)
    children = [await spawned(store, call) for call in calls]
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, children[0], "one")
    await aged(database, timedelta(seconds=12, milliseconds=500))
    await work(store, children[1], "two")
    waits = await store.inbox.take(ids.session_of(turn))
    assert isinstance(waits, NotYet)
    assert waits.wait <= timedelta(seconds=2, milliseconds=500)  # not another three
    await aged(database, timedelta(seconds=2, milliseconds=500))
    await taken(store, ids.session_of(turn))


async def test_a_persons_message_goes_before_results(store: Store) -> None:
    turn, (call,) = await parent(store)
    session = ids.session_of(turn)
    child = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, child)
    accepted = await store.inbox.accept(session, "hello again")
    assert accepted is not None
    assert await taken(store, session) == accepted.turn
    await store.turns.finish(accepted.turn, "completed", "", 1)
    delivery = await taken(store, session)
    row = await store.turns.read(delivery)
    assert row is not None
    assert row.run == turn  # not of the message that came between
    other = await store.runs.read(accepted.turn)
    assert other is not None
    assert other.state == "completed"


async def test_results_of_different_runs_are_never_in_one_turn(store: Store) -> None:
    turn, (call,) = await parent(store)
    session = ids.session_of(turn)
    first = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    accepted = await store.inbox.accept(session, "more")
    assert accepted is not None
    await taken(store, session)
    await scene.step(store, accepted.turn, scene.planned(Effect.KEYED))
    second = await spawned(store, ids.call_id(accepted.turn, 0, 0))
    await store.turns.finish(accepted.turn, "completed", "", 1)
    await work(store, first, "one")
    await work(store, second, "two")
    found = []
    for _ in range(2):
        delivery = await taken(store, session)
        row = await store.turns.read(delivery)
        assert row is not None
        found.append((row.run, "one" in (await heard(store, delivery))[-1][1]))
        await store.turns.finish(delivery, "completed", "", 1)
    assert found == [(turn, True), (accepted.turn, False)]


@requirement("B-04", "P109")
async def test_a_run_ends_once_and_has_one_result_however_many_end_it(
    stores: list[Store], database: Database
) -> None:
    turn, (call,) = await parent(stores[0])
    child = await spawned(stores[0], call)
    await taken(stores[0], child.session)
    ended = await asyncio.gather(*(store.turns.finish(child.run, "completed", "", 1) for store in stores * 2))
    assert [finished.first for finished in ended].count(True) == 1
    # Whoever asks again calls again: the first call may have been lost with its caller.
    assert {finished.wakeups.sessions for finished in ended} == {(ids.session_of(turn),)}
    assert await deliveries(database) == {child.run: "waiting"}
    assert (await scene.events(stores[0], child.run)).count("run.ended") == 1
    assert (await scene.events(stores[0], turn)).count("subagent.ended") == 1


@requirement("B-05")
async def test_a_collected_result_is_not_delivered_and_says_who_took_it(
    store: Store, database: Database
) -> None:
    turn, calls = await parent(store, 2)
    child = await spawned(store, calls[0])
    assert await store.runs.wait_for(calls[1], child.session) is None
    assert not await store.runs.collect(calls[1], last=False)
    await taken(store, child.session)
    await scene.step(store, child.run, text="found it")
    finished = await store.turns.finish(child.run, "completed", "", 1)
    assert finished.wakeups.turns == (turn,)
    assert await store.runs.unheard(timedelta(0), 9) == [turn]
    assert await store.runs.collect(calls[1], last=False)
    assert await store.runs.collect(calls[1], last=False)
    row = await store.ledger.read(calls[1])
    assert row is not None
    assert row.status == "completed"
    assert "found it" in row.output
    assert await deliveries(database) == {child.run: "collected"}
    assert await store.runs.unheard(timedelta(0), 9) == []
    await store.turns.finish(turn, "completed", "", 1)
    assert await store.inbox.take(ids.session_of(turn)) is None
    assert (await scene.events(store, turn))[-1] == "run.ended"


@requirement("B-05")
async def test_a_wait_whose_time_is_over_leaves_the_result_to_its_delivery(store: Store) -> None:
    turn, calls = await parent(store, 2)
    child = await spawned(store, calls[0])
    await store.runs.wait_for(calls[1], child.session)
    waits = await store.ledger.read(calls[1])
    assert waits is not None
    assert waits.status == "awaiting"
    assert await store.runs.collect(calls[1], last=True)
    row = await store.ledger.read(calls[1])
    assert row is not None
    assert "still at work" in row.output
    await work(store, child)
    await store.turns.finish(turn, "completed", "", 1)
    delivery = await taken(store, ids.session_of(turn))
    assert "found it" in (await heard(store, delivery))[-1][1]


async def test_only_a_subagent_of_ones_own_can_be_waited_for(store: Store) -> None:
    _, (call,) = await parent(store)
    child = await spawned(store, call)
    _, (foreign,) = await parent(store)
    refusal = await store.runs.wait_for(foreign, child.session)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "no_such_subagent"


async def test_two_calls_cannot_wait_for_one_result(store: Store) -> None:
    _, calls = await parent(store, 3)
    child = await spawned(store, calls[0])
    assert await store.runs.wait_for(calls[1], child.session) is None
    refusal = await store.runs.wait_for(calls[2], child.session)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "already_awaited"


@requirement("A-23")
async def test_the_fourth_delegation_downwards_is_refused(store: Store) -> None:
    turn, (call,) = await parent(store)
    for _ in range(3):
        child = await spawned(store, call)
        turn = await taken(store, child.session)
        await scene.step(store, turn, scene.planned(Effect.KEYED))
        call = ids.call_id(turn, 0, 0)
    refusal = await store.runs.spawn(call, WANTED)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "SpawnDepthExceeded"


async def test_beyond_the_places_of_a_parent_a_subagent_waits_and_goes_on_when_one_is_free(
    store: Store,
) -> None:
    _, calls = await parent(store, LIVE_PER_PARENT + 2)
    children = [await spawned(store, call) for call in calls]
    assert [child.held for child in children] == [False] * LIVE_PER_PARENT + [True] * 2
    assert await store.inbox.take(children[-1].session) is None
    assert await store.inbox.take(children[0].session) == Taken(children[0].run)
    finished = await store.turns.finish(children[0].run, "completed", "", 1)
    assert children[LIVE_PER_PARENT].session in finished.wakeups.sessions
    assert await store.inbox.take(children[LIVE_PER_PARENT].session) == Taken(children[LIVE_PER_PARENT].run)
    assert await store.inbox.take(children[-1].session) is None


async def test_a_run_spawns_so_many_a_minute_and_so_many_in_all(store: Store, database: Database) -> None:
    turn, calls = await parent(store, TOTAL_PER_ROOT + 1)
    for call in calls[:SPAWNS_A_MINUTE]:
        await spawned(store, call)
    refusal = await store.runs.spawn(calls[SPAWNS_A_MINUTE], WANTED)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "spawn_rate"
    for n in range(SPAWNS_A_MINUTE, TOTAL_PER_ROOT):
        if n % SPAWNS_A_MINUTE == 0:
            await aged(database, timedelta(seconds=61))
        await spawned(store, calls[n])
    await aged(database, timedelta(seconds=61))
    refusal = await store.runs.spawn(calls[TOTAL_PER_ROOT], WANTED)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "too_many_subagents"
    assert len(await store.runs.children(turn)) == TOTAL_PER_ROOT


@requirement("I-03", "B-05")
async def test_a_stop_reaches_every_subagent_and_nothing_is_delivered_afterwards(
    store: Store, database: Database
) -> None:
    turn, calls = await parent(store, 3)
    ended, running, queued = [await spawned(store, call) for call in calls]
    await work(store, ended)
    await taken(store, running.session)
    await scene.step(store, running.run, scene.planned(Effect.KEYED))
    below = await spawned(store, ids.call_id(running.run, 0, 0))
    stopped = await store.turns.request_stop(turn, "ann")
    assert stopped is not None
    assert set(stopped.wakeups.turns) == {turn, running.run}
    for child in (queued, below):
        row = await store.turns.read(child.run)
        assert row is not None
        assert row.state == "cancelled"
    await store.turns.finish(turn, "cancelled", "stopped by ann", 1)
    assert (await scene.events(store, turn))[-1] == "run.ended"
    await store.turns.finish(running.run, "cancelled", "stopped by ann", 1)
    assert await store.inbox.take(ids.session_of(turn)) is None
    assert await store.inbox.take(running.session) is None
    assert set((await deliveries(database)).values()) == {"discarded"}
    assert (await scene.events(store, turn))[-1] == "run.ended"


@requirement("I-03")
async def test_a_run_that_only_waits_for_subagents_can_be_stopped(store: Store) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    await taken(store, child.session)
    await store.turns.finish(turn, "completed", "", 1)
    stopped = await store.turns.request_stop(turn, "ann")
    assert stopped is not None
    assert stopped.wakeups.turns == (child.run,)
    run = await store.runs.read(turn)
    assert run is not None
    assert (run.state, run.reason) == ("cancelled", "stopped by ann")
    await store.turns.finish(child.run, "cancelled", "", 1)
    assert (await scene.events(store, turn))[-1] == "run.ended"


async def test_a_subagent_that_alone_is_stopped_tells_its_parent(store: Store) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    stopped = await store.turns.request_stop(child.run, "ann")
    assert stopped is not None
    assert stopped.wakeups.sessions == (ids.session_of(turn),)
    delivery = await taken(store, ids.session_of(turn))
    assert "cancelled (stopped by ann)" in (await heard(store, delivery))[-1][1]


@requirement("B-06", "B-07")
async def test_a_delivery_whose_turn_failed_is_tried_again_without_telling_it_twice_and_then_given_up(
    store: Store, database: Database
) -> None:
    turn, (call,) = await parent(store)
    session = ids.session_of(turn)
    child = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, child, "found it")

    def at_once(tx: Any) -> None:
        tx.execute(update(inbox).values(not_before=None))

    for attempt in range(1, 6):
        delivery = await taken(store, session)
        texts = [text for role, text in await heard(store, delivery) if role == "system"]
        assert len(texts) == attempt
        assert sum("found it" in text for text in texts) == 1
        assert await store.inbox.take(session) == Taken(delivery)  # leased until it has landed
        await store.turns.finish(delivery, "failed", "the endpoint is away", 0)
        if attempt < 5:
            assert isinstance(await store.inbox.take(session), NotYet)
            await database.write(at_once)
    assert await deliveries(database) == {child.run: "abandoned"}
    assert await store.inbox.take(session) is None
    run = await store.runs.read(turn)
    assert run is not None
    assert run.state == "failed"


@pytest.mark.parametrize("state", ["completed", "awaiting_user", "incomplete", "cancelled", "failed"])
async def test_how_a_subagent_ended_is_told_with_its_result(store: Store, state: RunState) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, child, state=state)
    delivery = await taken(store, ids.session_of(turn))
    assert f"· {state}" in (await heard(store, delivery))[-1][1]


async def test_a_result_is_cut_to_its_agents_limit_and_says_where_the_rest_is(store: Store) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call, max_result_chars=200)
    await store.turns.finish(turn, "completed", "", 1)
    await work(store, child, "x" * 1000)
    delivery = await taken(store, ids.session_of(turn))
    text = (await heard(store, delivery))[-1][1]
    assert text.count("x" * 200) == 1
    assert f"[cut: 800 more characters in session {child.session}]" in text


@requirement("P38")
async def test_subagents_that_end_at_the_same_moment_lose_nothing(
    stores: list[Store], database: Database
) -> None:
    turn, calls = await parent(stores[0], 6)
    children = [await spawned(stores[0], call) for call in calls]
    for child in children:
        await taken(stores[0], child.session)
    await asyncio.gather(
        stores[0].turns.finish(turn, "completed", "", 1),
        *(stores[n % 4].turns.finish(child.run, "completed", str(n), 1) for n, child in enumerate(children)),
    )
    delivery = await taken(stores[0], ids.session_of(turn))
    text = (await heard(stores[0], delivery))[-1][1]
    assert all(child.session in text for child in children)
    rows = await database.read(
        lambda tx: tx.execute(select(inbox.c.id).where(inbox.c.kind == "results")).all()
    )
    assert len(rows) == 1


async def test_a_message_from_outside_to_a_subagent_is_a_run_of_its_own(store: Store) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    accepted = await store.inbox.accept(child.session, "how far are you?")
    assert accepted is not None
    await work(store, child)
    mine = await store.runs.read(child.run)
    assert mine is not None
    assert mine.state == "completed"  # the other message does not hold it back
    assert await taken(store, child.session) == accepted.turn
    await store.turns.finish(accepted.turn, "completed", "", 1)
    assert (await scene.events(store, turn)).count("subagent.ended") == 1


async def test_depth_and_parent_stand_in_the_childs_session(store: Store, database: Database) -> None:
    turn, (call,) = await parent(store)
    child = await spawned(store, call)
    row = await database.read(
        lambda tx: tx.execute(select(sessions).where(sessions.c.id == child.session)).one()
    )
    assert (row.parent, row.depth) == (ids.session_of(turn), 1)
