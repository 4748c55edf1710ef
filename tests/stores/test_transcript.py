"""The transcript: a step has one reply, a turn that is over gets none, results stand in call order."""

import asyncio
from datetime import timedelta

from sqlalchemy import update

from roundturn import ids
from roundturn.ledger import StoredReply
from roundturn.message import Usage
from roundturn.store import Store
from roundturn.stores.engine import Database
from roundturn.stores.tables import sessions
from roundturn.tool import Effect
from tests import rows
from tests.requirements import requirement
from tests.stores import scene


async def reply(store: Store, turn: str) -> StoredReply | None:
    opened = await store.transcript.open_step(turn, 0, -1, 0)
    return opened.stored if opened else None


async def usage(store: Store, turn: str) -> Usage:
    row = await store.turns.read(turn)
    assert row is not None
    return row.usage


async def test_the_first_reply_of_a_step_wins_and_later_attempts_get_it(
    store: Store, database: Database
) -> None:
    turn = await scene.running_turn(store)
    first = await scene.step(store, turn, scene.planned(Effect.PURE, "a"), text="first")
    later = await scene.step(store, turn, scene.planned(Effect.ONCE, "b"), text="later")
    assert first is not None
    assert later == first
    assert (later.reply.text, [call.tool for call in later.calls]) == ("first", ["a"])
    assert await reply(store, turn) == first
    assert len((await rows.transcript(database, ids.session_of(turn))).entries) == 2


async def test_replies_at_the_same_time_give_one_entry_and_one_set_of_calls(stores: list[Store]) -> None:
    turn = await scene.running_turn(stores[0])
    kept = await asyncio.gather(
        *(
            scene.step(stores[n % 4], turn, scene.planned(Effect.ONCE, f"tool{n}"), text=f"{n}")
            for n in range(8)
        )
    )
    assert len({each.reply.text for each in kept if each}) == 1
    assert len({call.tool for each in kept if each for call in each.calls}) == 1
    assert (await scene.events(stores[0], turn)).count("model.replied") == 1


async def test_what_the_losing_attempt_cost_is_counted_too(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, text="a", usage=Usage(input_tokens=10, output_tokens=2))
    later = scene.AT + timedelta(milliseconds=1)
    await scene.step(store, turn, text="a", at=later, usage=Usage(input_tokens=7, cached_tokens=4))
    assert await usage(store, turn) == Usage(input_tokens=17, output_tokens=2, cached_tokens=4)


async def test_an_attempt_that_writes_again_after_a_commit_of_unknown_fate_is_charged_once(
    store: Store,
) -> None:
    turn = await scene.running_turn(store)
    at = scene.AT + timedelta(microseconds=1_600)
    for _ in range(3):
        stored = await scene.step(
            store, turn, scene.planned(Effect.ONCE), text="a\x00", at=at, usage=Usage(input_tokens=10)
        )
        assert stored is not None
    assert await usage(store, turn) == Usage(input_tokens=10)
    assert (await scene.events(store, turn)).count("model.replied") == 1


async def test_usage_that_the_endpoint_did_not_tell_stays_unknown(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, text="a")
    assert await usage(store, turn) == Usage()
    await scene.step(store, turn, n=1, text="b", usage=Usage(output_tokens=3))
    assert await usage(store, turn) == Usage(output_tokens=3)


async def test_a_reply_for_an_ended_turn_is_not_stored_but_its_cost_is(store: Store) -> None:
    turn = await scene.running_turn(store)
    await store.turns.finish(turn, "cancelled", "", 1)
    assert await scene.step(store, turn, scene.planned(Effect.ONCE), usage=Usage(input_tokens=5)) is None
    assert await reply(store, turn) is None
    assert await store.ledger.read(ids.call_id(turn, 0, 0)) is None
    assert (await usage(store, turn)).input_tokens == 5
    assert (await scene.events(store, turn))[-1] == "run.ended"


async def test_a_reply_for_another_generation_is_not_stored(store: Store, database: Database) -> None:
    turn = await scene.running_turn(store)
    await database.write(lambda tx: tx.execute(update(sessions).values(generation=1)))
    assert await scene.step(store, turn, text="stale") is None
    assert len((await rows.transcript(database, ids.session_of(turn))).entries) == 1


@requirement("P84")
async def test_results_stand_in_call_order_whichever_came_first(store: Store, database: Database) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *[scene.planned(Effect.PURE, f"t{n}") for n in range(12)])
    calls = [ids.call_id(turn, 0, n) for n in range(12)]
    for call in reversed(calls):
        await store.ledger.settle(call, "o", scene.outcome(f"of {call}"), scene.attempt(call[-30:]))
    stored = await reply(store, turn)
    assert stored is not None
    assert [call.id for call in stored.calls] == calls
    assert [call.output for call in stored.calls] == [f"of {call}" for call in calls]
    heard = await rows.transcript(database, ids.session_of(turn))
    assert heard.results == {call: f"of {call}" for call in calls}


async def test_calls_without_a_result_are_not_among_the_results(store: Store, database: Database) -> None:
    turn, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", scene.LEASE, None, scene.DIGEST)
    assert (await rows.transcript(database, ids.session_of(turn))).results == {}


@requirement("P04")
async def test_a_call_that_came_with_its_answer_is_settled_and_never_runs(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, scene.planned(Effect.ONCE, refusal=("truncated", "cut off")))
    call = ids.call_id(turn, 0, 0)
    assert await store.ledger.claim(call, "owner", scene.LEASE, None, scene.DIGEST) == "final"
    row = await store.ledger.read(call)
    assert row is not None
    assert (row.status, row.output, row.is_error) == ("denied", "cut off", True)


async def test_a_reply_with_two_hundred_calls_is_one_step(store: Store, database: Database) -> None:
    turn = await scene.running_turn(store)
    stored = await scene.step(store, turn, *[scene.planned(Effect.KEYED, f"t{n}") for n in range(200)])
    assert stored is not None
    assert [call.index for call in stored.calls] == list(range(200))
    assert (await store.turns.finish(turn, "cancelled", "", 1)).first
    heard = await rows.transcript(database, ids.session_of(turn))
    assert len(heard.results) == 200
    offsets = [event.offset for event in await store.journal.read(turn, 0, 1_000)]
    assert offsets == list(range(1, len(offsets) + 1))


@requirement("P01", "P03")
async def test_calls_with_the_same_or_no_provider_id_are_rows_of_their_own(store: Store) -> None:
    turn = await scene.running_turn(store)
    stored = await scene.step(
        store,
        turn,
        scene.planned(Effect.PURE, arguments='{"a":1}'),
        scene.planned(Effect.PURE, arguments="{}"),
    )
    assert stored is not None
    assert [(call.id, call.arguments) for call in stored.calls] == [
        (f"{turn}.0.0", '{"a":1}'),
        (f"{turn}.0.1", "{}"),
    ]


@requirement("P12")
async def test_a_tool_name_of_ten_thousand_characters_is_stored_whole_and_shown_short(store: Store) -> None:
    turn = await scene.running_turn(store)
    stored = await scene.step(store, turn, scene.planned(Effect.PURE, "n" * 10_000))
    assert stored is not None
    assert len(stored.calls[0].tool) == 10_000
    await store.turns.finish(turn, "cancelled", "", 1)
    named = [event.data["tool"] for event in await store.journal.read(turn, 0, 99) if "tool" in event.data]
    assert named == ["n" * 64] * 2


async def test_the_snapshot_that_was_frozen_first_holds(stores: list[Store]) -> None:
    session = await scene.session(stores[0])
    assert await stores[0].sessions.snapshot(session) is None
    held = await asyncio.gather(
        *(store.sessions.freeze(session, f'{{"n":{n}}}') for n, store in enumerate(stores))
    )
    assert len(set(held)) == 1
    assert await stores[0].sessions.snapshot(session) == held[0]


async def test_a_client_key_makes_one_session_even_at_the_same_time(stores: list[Store]) -> None:
    made = await asyncio.gather(
        *(store.sessions.open("default", "/w/{session}", "key") for store in stores * 2)
    )
    assert len({row.id for row in made}) == 1
    assert made[0].action_dir == f"/w/{made[0].id}"
