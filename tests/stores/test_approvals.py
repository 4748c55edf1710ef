"""Approvals: one answer decides, every answer is on record, and time is the database's."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from roundturn import ids
from roundturn.store import Store
from roundturn.stores.engine import Database, now
from roundturn.stores.tables import approvals, verdicts
from roundturn.tool import Effect
from tests.requirements import requirement
from tests.stores import scene
from tests.stores.scene import DIGEST

PAST = timedelta(seconds=-1)


async def on_record(database: Database, approval: str) -> list[tuple[str, str, str]]:
    query = select(verdicts.c.verdict, verdicts.c.standing, verdicts.c.actor)
    query = query.where(verdicts.c.approval == approval).order_by(verdicts.c.id)
    rows = await database.read(lambda tx: tx.execute(query).all())
    return [(row.verdict, row.standing, row.actor) for row in rows]


async def state(store: Store, approval: str) -> str:
    row = await store.approvals.read(approval)
    assert row is not None
    return row.state


async def test_a_request_is_stored_with_its_expiry_and_suspends_the_call(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call, timedelta(hours=2))
    assert (row.state, row.call, row.digest, row.arguments) == ("pending", call, DIGEST, {"path": "a"})
    assert row.expires_at - row.created_at == timedelta(hours=2)
    assert row.id.startswith("ap_")
    assert len(row.id) == 29
    suspended = await store.ledger.read(call)
    assert suspended is not None
    assert suspended.status == "suspended"
    assert (await scene.events(store, turn))[-1] == "approval.requested"


@requirement("P33")
async def test_requests_for_the_same_call_at_the_same_time_are_one_row(stores: list[Store]) -> None:
    turn, call = await scene.one_call(stores[0])
    rows = await asyncio.gather(*(scene.asked(store, turn, call) for store in stores * 3))
    assert len({row.id for row in rows}) == 1
    assert (await scene.events(stores[0], turn)).count("approval.requested") == 1


@requirement("P33")
async def test_parallel_calls_with_equal_arguments_are_requests_of_their_own(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *[scene.planned(Effect.ONCE) for _ in range(3)])
    rows = [await scene.asked(store, turn, ids.call_id(turn, 0, n)) for n in range(3)]
    assert len({row.id for row in rows}) == 3
    answers = [await scene.approve(store, rows[n].id, verdict=v) for n, v in ((1, "approve"), (0, "deny"))]
    assert answers == ["decided", "decided"]
    assert [await state(store, row.id) for row in rows] == ["denied", "approved", "pending"]


@requirement("M-25", "P37")
async def test_other_arguments_of_the_same_call_are_another_request(store: Store) -> None:
    turn, call = await scene.one_call(store)
    first = await scene.asked(store, turn, call)
    second = await scene.asked(store, turn, call, digest="e" * 64)
    assert first.id != second.id
    assert second.state == "pending"


@pytest.mark.parametrize("settled", [True, False])
async def test_nobody_is_asked_about_a_call_that_runs_or_has_its_result(store: Store, settled: bool) -> None:
    turn, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", scene.LEASE, None, DIGEST)
    if settled:
        await store.ledger.settle(call, "owner", scene.outcome(), scene.attempt("owner"))
    assert await store.approvals.request(scene.question(turn, call), timedelta(hours=1)) is None
    row = await store.ledger.read(call)
    assert row is not None
    assert row.status == ("completed" if settled else "claimed")
    assert await store.approvals.page(("pending",), turn, 9) == []


@requirement("P39")
@pytest.mark.parametrize(
    ("first", "second", "standing"),
    [
        ("approve", "approve", "repeated"),
        ("approve", "deny", "contradicted"),
        ("deny", "deny", "repeated"),
        ("deny", "approve", "contradicted"),
    ],
)
async def test_the_first_answer_decides_and_a_second_is_told_how_it_stands(
    store: Store, database: Database, first: str, second: str, standing: str
) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    assert await scene.approve(store, row.id, verdict=first, actor="ann", note="why") == "decided"
    assert await scene.approve(store, row.id, verdict=second, actor="bob") == standing
    held = await store.approvals.read(row.id)
    assert held is not None
    assert (held.actor, held.note, held.state) == (
        "ann",
        "why",
        "approved" if first == "approve" else "denied",
    )
    assert await on_record(database, row.id) == [(first, "decided", "ann"), (second, standing, "bob")]
    assert (await scene.events(store, turn)).count("approval.decided") == 1


@requirement("P39")
async def test_approve_and_deny_at_the_same_time_have_one_winner(
    stores: list[Store], database: Database
) -> None:
    for _ in range(5):
        turn, call = await scene.one_call(stores[0])
        row = await scene.asked(stores[0], turn, call)
        answers = ("approve", "deny", "approve", "deny")
        standings = await asyncio.gather(
            *(scene.approve(store, row.id, verdict=v) for store, v in zip(stores, answers, strict=True))
        )
        assert standings.count("decided") == 1
        won = answers[standings.index("decided")]
        assert await state(stores[0], row.id) == ("approved" if won == "approve" else "denied")
        assert sorted(standings) == sorted(["decided", "repeated", "contradicted", "contradicted"])
        assert len(await on_record(database, row.id)) == 4


async def test_an_answer_after_the_call_used_it_is_a_repetition_or_a_contradiction(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    await scene.approve(store, row.id)
    await store.ledger.claim(call, "owner", scene.LEASE, row.id, DIGEST)
    assert await scene.approve(store, row.id) == "repeated"
    assert await scene.approve(store, row.id, verdict="deny") == "contradicted"
    assert await state(store, row.id) == "consumed"


@requirement("P42")
async def test_an_answer_after_the_time_is_late_and_the_row_says_expired(
    store: Store, database: Database
) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call, PAST)
    assert await scene.approve(store, row.id) == "late"
    assert await state(store, row.id) == "expired"
    assert await on_record(database, row.id) == [("approve", "late", "ann")]
    assert (await scene.events(store, turn))[-1] == "approval.expired"
    assert await store.ledger.claim(call, "owner", scene.LEASE, row.id, DIGEST) == "ungranted"


@requirement("P42")
async def test_the_instant_of_expiry_is_already_too_late(store: Store, database: Database) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    await database.write(lambda tx: tx.execute(update(approvals).values(expires_at=now(tx))))
    assert await scene.approve(store, row.id) == "late"


@requirement("P42")
async def test_only_what_is_past_its_time_expires_and_once(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, *[scene.planned(Effect.ONCE) for _ in range(3)])
    calls = [ids.call_id(turn, 0, n) for n in range(3)]
    fresh, old = await scene.asked(store, turn, calls[0]), await scene.asked(store, turn, calls[1], PAST)
    answered = await scene.asked(store, turn, calls[2])
    await scene.approve(store, answered.id)
    for _ in range(2):
        rows = [await store.approvals.expire(each.id) for each in (fresh, old, answered)]
        assert [row.state for row in rows if row] == ["pending", "expired", "approved"]
    assert (await scene.events(store, turn)).count("approval.expired") == 1
    assert await store.approvals.expire("ap_none") is None


@requirement("P42")
async def test_expiry_and_answer_at_the_same_time_agree(stores: list[Store]) -> None:
    for _ in range(10):
        turn, call = await scene.one_call(stores[0])
        row = await scene.asked(stores[0], turn, call, timedelta(milliseconds=10))
        standing, lapsed = await asyncio.gather(
            scene.approve(stores[1], row.id), stores[2].approvals.expire(row.id)
        )
        assert lapsed is not None
        assert await state(stores[0], row.id) == ("approved" if standing == "decided" else "expired")


@requirement("P47")
async def test_an_answer_after_a_stop_is_told_that_it_was_cancelled(store: Store, database: Database) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    await store.turns.request_stop(turn, "ann")
    assert await scene.approve(store, row.id) == "cancelled"
    assert await state(store, row.id) == "cancelled"
    assert await on_record(database, row.id) == [("approve", "cancelled", "ann")]


async def test_an_answer_to_no_request_is_unknown(store: Store, database: Database) -> None:
    assert await scene.approve(store, "ap_none") == "unknown"
    assert await on_record(database, "ap_none") == []


@pytest.mark.parametrize(
    ("shown", "standing"), [(DIGEST, "decided"), (DIGEST[:12], "decided"), ("e" * 12, "changed")]
)
async def test_an_answer_that_names_what_was_seen_must_name_this(
    store: Store, shown: str, standing: str
) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    assert await scene.approve(store, row.id, digest=shown) == standing
    assert await state(store, row.id) == ("approved" if standing == "decided" else "pending")


async def test_that_nobody_checked_the_actor_is_kept(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    await scene.approve(store, row.id, unverified=True)
    held = await store.approvals.read(row.id)
    assert held is not None
    assert held.unverified


async def test_requests_are_found_by_the_beginning_of_their_id_taken_literally(store: Store) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    assert await store.approvals.find(row.id[:8], 9) == [row]
    for wildcard in ("%", "ap%", "apx", "ap_" + "_" * 26):
        assert await store.approvals.find(wildcard, 9) == []


async def test_a_page_is_filtered_bounded_and_oldest_first(store: Store) -> None:
    turns: dict[str, Any] = {}
    for _ in range(3):
        turn, call = await scene.one_call(store)
        turns[turn] = (await scene.asked(store, turn, call)).id
    await scene.approve(store, turns[turn])
    pending = [row.id for row in await store.approvals.page(("pending",), None, 9)]
    assert sorted(pending) == sorted(list(turns.values())[:2])
    assert [row.id for row in await store.approvals.page(("pending", "approved"), turn, 9)] == [turns[turn]]
    found = await store.approvals.page(("pending", "approved"), None, 2)
    assert len(found) == 2
    assert [row.created_at for row in found] == sorted(row.created_at for row in found)


@requirement("P41")
@pytest.mark.parametrize(("answer", "found"), [("approve", True), ("deny", True), (None, False)])
async def test_turns_that_did_not_hear_of_a_decision_are_found(
    store: Store, answer: str | None, found: bool
) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    if answer:
        await scene.approve(store, row.id, verdict=answer)
    assert await store.approvals.undelivered(timedelta(0), 9) == ([turn] if found else [])
    assert await store.approvals.undelivered(timedelta(hours=1), 9) == []
    await store.turns.finish(turn, "cancelled", "", 1)
    assert await store.approvals.undelivered(timedelta(0), 9) == []


async def test_a_turn_whose_request_lapsed_unnoticed_is_found(store: Store) -> None:
    turn, call = await scene.one_call(store)
    await scene.asked(store, turn, call, PAST)
    assert await store.approvals.undelivered(timedelta(0), 9) == [turn]


async def test_a_turn_that_used_its_grant_is_not_woken_again(store: Store) -> None:
    turn, call = await scene.one_call(store, Effect.KEYED)
    row = await scene.asked(store, turn, call)
    await scene.approve(store, row.id)
    await store.ledger.claim(call, "owner", None, row.id, DIGEST)
    assert await store.approvals.undelivered(timedelta(0), 9) == []
