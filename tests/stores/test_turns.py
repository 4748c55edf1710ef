"""Turns: the one transaction that ends one, and the stop that comes before it."""

import asyncio
from datetime import timedelta

import pytest

from roundturn import ids
from roundturn.store import Store
from roundturn.tool import Effect
from tests.requirements import requirement
from tests.stores import scene


@requirement("P109")
async def test_a_turn_ends_once(store: Store) -> None:
    turn = await scene.running_turn(store)
    assert (await store.turns.finish(turn, "completed", "answered", 3)).first
    assert not (await store.turns.finish(turn, "failed", "too late", 9)).first
    row = await store.turns.read(turn)
    assert row is not None
    assert (row.state, row.reason, row.steps) == ("completed", "answered", 3)
    assert row.started_at is not None
    assert row.ended_at is not None
    assert row.created_at <= row.started_at <= row.ended_at


@requirement("P109")
async def test_there_is_one_terminal_event_however_many_end_the_turn_at_once(stores: list[Store]) -> None:
    turn = await scene.running_turn(stores[0])
    states = ("completed", "failed", "cancelled", "incomplete") * 3
    ended = await asyncio.gather(
        *(stores[n % 4].turns.finish(turn, state, state, 1) for n, state in enumerate(states))
    )
    first = [finished.first for finished in ended]
    assert first.count(True) == 1
    row = await stores[0].turns.read(turn)
    assert row is not None
    assert row.state == states[first.index(True)]
    assert (await scene.events(stores[0], turn)).count("turn.ended") == 1


async def test_a_turn_that_is_unknown_or_waits_cannot_end(store: Store) -> None:
    session = await scene.session(store)
    await store.inbox.accept(session, "a")
    assert not (await store.turns.finish(f"{session}/1", "completed", "", 0)).first
    assert not (await store.turns.finish(f"{session}/9", "completed", "", 0)).first


@requirement("P91")
@pytest.mark.parametrize(
    ("effect", "claimed", "status", "kind"),
    [
        (Effect.PURE, False, "denied", "turn_ended"),
        (Effect.ONCE, False, "denied", "turn_ended"),
        (Effect.ONCE, True, "completed", "outcome_unknown"),
        (Effect.KEYED, False, "completed", "outcome_unknown"),  # it is not claimed: it may be running
    ],
)
async def test_open_calls_of_an_ended_turn_get_an_honest_answer(
    store: Store, effect: Effect, claimed: bool, status: str, kind: str
) -> None:
    turn, call = await scene.one_call(store, effect)
    if claimed:
        await store.ledger.claim(call, "owner", scene.LEASE, None, scene.DIGEST)
    await store.turns.finish(turn, "cancelled", "stopped", 1)
    row = await store.ledger.read(call)
    assert row is not None
    assert (row.status, row.is_error, row.metadata) == (status, True, {"error_type": kind})
    assert row.output
    assert "tool.settled" in await scene.events(store, turn)


@requirement("P91")
async def test_a_keyed_call_that_a_person_allowed_and_that_runs_is_not_said_to_have_never_run(
    store: Store,
) -> None:
    turn, call = await scene.one_call(store, Effect.KEYED)
    row = await scene.asked(store, turn, call)
    await scene.approve(store, row.id)
    assert await store.ledger.claim(call, "owner", None, row.id, scene.DIGEST) == "won"
    await store.turns.finish(turn, "cancelled", "stopped", 1)
    settled = await store.ledger.read(call)
    assert settled is not None
    assert settled.metadata == {"error_type": "outcome_unknown"}


async def test_a_call_that_waits_for_a_person_is_answered_as_not_run(store: Store) -> None:
    turn, call = await scene.one_call(store, Effect.KEYED)
    await scene.asked(store, turn, call)
    await store.turns.finish(turn, "cancelled", "stopped", 1)
    row = await store.ledger.read(call)
    assert row is not None
    assert (row.status, row.metadata) == ("denied", {"error_type": "turn_ended"})


@requirement("P91")
async def test_results_that_stand_are_not_touched_by_the_end(store: Store) -> None:
    turn, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", scene.LEASE, None, scene.DIGEST)
    await store.ledger.settle(call, "owner", scene.outcome("kept"), scene.attempt("owner"))
    await store.turns.finish(turn, "completed", "", 1)
    row = await store.ledger.read(call)
    assert row is not None
    assert (row.output, row.is_error) == ("kept", False)


@requirement("P47")
@pytest.mark.parametrize("by_stop", [True, False])
async def test_open_approvals_are_cancelled_and_used_ones_are_not(store: Store, by_stop: bool) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *[scene.planned(Effect.ONCE) for _ in range(4)])
    pending, approved, used, denied = [
        (await scene.asked(store, turn, ids.call_id(turn, 0, n))).id for n in range(4)
    ]
    for approval in (approved, used):
        await scene.approve(store, approval)
    await scene.approve(store, denied, verdict="deny")
    await store.ledger.claim(ids.call_id(turn, 0, 2), "owner", scene.LEASE, used, scene.DIGEST)
    if by_stop:
        await store.turns.request_stop(turn, "ann")
    else:
        await store.turns.finish(turn, "failed", "", 1)
    found = {
        row.id: row.state for row in await store.approvals.page(("cancelled", "consumed", "denied"), turn, 9)
    }
    assert found == {pending: "cancelled", approved: "cancelled", used: "consumed", denied: "denied"}
    assert (await scene.events(store, turn)).count("approval.cancelled") == 2


@requirement("P47")
async def test_after_a_stop_no_call_may_begin_and_no_question_is_asked(store: Store) -> None:
    turn, call = await scene.one_call(store)
    await store.turns.request_stop(turn, "ann")
    assert await store.ledger.claim(call, "owner", scene.LEASE, None, scene.DIGEST) == "stopped"
    assert await store.approvals.request(scene.question(turn, call), timedelta(hours=1)) is None


async def test_a_stop_is_written_once_and_says_who(store: Store) -> None:
    turn = await scene.running_turn(store)
    first = await store.turns.request_stop(turn, "ann")
    again = await store.turns.request_stop(turn, "bob")
    assert first is not None
    assert again is not None
    assert (first.turn.state, first.turn.stop_origin) == ("running", "ann")
    assert again.turn.stop_origin == "ann"
    assert (await scene.events(store, turn)).count("turn.stop_requested") == 1


async def test_a_stop_of_an_ended_or_unknown_turn_changes_nothing(store: Store) -> None:
    turn = await scene.running_turn(store)
    await store.turns.finish(turn, "completed", "", 1)
    stopped = await store.turns.request_stop(turn, "ann")
    assert stopped is not None
    assert (stopped.turn.state, stopped.turn.stop_origin) == ("completed", None)
    assert await store.turns.request_stop(f"{ids.session_of(turn)}/77", "ann") is None


@requirement("P47")
async def test_a_look_shows_stop_end_and_decided_approvals(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    assert (await store.turns.look(turn, [row.id])).decided == {}
    await scene.approve(store, row.id)
    seen = await store.turns.look(turn, [row.id])
    assert (seen.running, seen.stop_origin, seen.decided) == (True, None, {row.id: "approved"})
    await store.turns.request_stop(turn, "ann")
    seen = await store.turns.look(turn, [row.id])
    assert (seen.running, seen.stop_origin, seen.decided) == (True, "ann", {row.id: "cancelled"})
    await store.turns.finish(turn, "cancelled", "", 1)
    assert not (await store.turns.look(turn, [row.id])).running
    assert not (await store.turns.look("s_nobody/1", [])).running
    assert (await store.turns.look(turn, [])).decided == {}, "only those that are asked about"


async def test_the_last_turn_is_the_running_one_then_the_oldest_queued_then_the_latest(store: Store) -> None:
    session = await scene.session(store)
    assert await store.turns.last_of(session) is None
    for text in ("a", "b", "c"):
        await store.inbox.accept(session, text)

    async def last() -> str:
        row = await store.turns.last_of(session)
        assert row is not None
        return row.id

    assert await last() == f"{session}/1"
    await store.inbox.take(session)
    assert await last() == f"{session}/1"
    await store.turns.finish(f"{session}/1", "completed", "", 1)
    assert await last() == f"{session}/2"
    for n in (2, 3):
        await store.inbox.take(session)
        await store.turns.finish(f"{session}/{n}", "completed", "", 1)
    assert await last() == f"{session}/3"


async def test_a_turn_shows_what_the_model_said_last(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, scene.planned(Effect.PURE), text="first")
    await scene.step(store, turn, n=1, text="second")
    await scene.step(store, turn, scene.planned(Effect.PURE), n=2, text="")
    row = await store.turns.read(turn)
    assert row is not None
    assert row.text == "second"


async def test_a_turn_that_runs_on_after_a_stop_is_found_until_it_has_ended(store: Store) -> None:
    stopped, _ = [await scene.running_turn(store) for _ in range(2)]
    assert await store.turns.stopping(10) == []
    await store.turns.request_stop(stopped, "ada")
    assert await store.turns.stopping(10) == [stopped]
    await store.turns.finish(stopped, "cancelled", "", 1)
    assert await store.turns.stopping(10) == []


async def test_turns_that_run_are_looked_after_in_turn(store: Store) -> None:
    first, second = [await scene.running_turn(store) for _ in range(2)]
    assert await store.turns.running_since(timedelta(hours=1), 10) == []
    asked = [await store.turns.running_since(timedelta(0), 1) for _ in range(2)]
    assert sorted(asked) == sorted([[first], [second]]), "asking marks them as checked"
    await store.turns.finish(first, "completed", "", 1)
    assert await store.turns.running_since(timedelta(0), 10) == [second]
