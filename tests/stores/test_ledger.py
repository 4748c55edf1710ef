"""The ledger: who may run a call is decided by compare-and-swap, and a result that stands is never overwritten."""

import asyncio

import pytest

from roundturn import ids
from roundturn.approval import State
from roundturn.store import Store
from roundturn.stores.engine import Database
from roundturn.tool import Effect
from tests import rows
from tests.requirements import requirement
from tests.stores import scene
from tests.stores.scene import DIGEST, LAPSED, LEASE


async def granted(store: Store, effect: Effect = Effect.ONCE) -> tuple[str, str, str]:
    turn, call = await scene.one_call(store, effect)
    row = await scene.asked(store, turn, call)
    assert await scene.approve(store, row.id) == "decided"
    return turn, call, row.id


async def state(store: Store, approval: str) -> State:
    row = await store.approvals.read(approval)
    assert row is not None
    return row.state


async def test_one_of_many_owners_gets_the_call(stores: list[Store]) -> None:
    _, call = await scene.one_call(stores[0])
    claims = await asyncio.gather(
        *(stores[n % 4].ledger.claim(call, f"owner{n}", LEASE, None, DIGEST) for n in range(12))
    )
    assert sorted(claims) == ["busy"] * 11 + ["won"]
    row = await stores[0].ledger.read(call)
    assert row is not None
    assert (row.status, row.owner, row.lease_live) == ("claimed", f"owner{claims.index('won')}", True)


async def test_the_owner_may_ask_again_after_a_commit_of_unknown_fate(store: Store) -> None:
    _, call = await scene.one_call(store)
    assert [await store.ledger.claim(call, "owner", LEASE, None, DIGEST) for _ in range(2)] == ["won", "won"]
    assert await store.ledger.claim(call, "other", LEASE, None, DIGEST) == "busy"


@pytest.mark.parametrize("effect", [Effect.PURE, Effect.KEYED, Effect.ONCE])
async def test_a_lease_holds_the_call_whatever_effect_it_was_stored_with(
    store: Store, effect: Effect
) -> None:
    """The tool may have become stricter since."""
    _, call = await scene.one_call(store, effect)
    assert await store.ledger.claim(call, "owner", LEASE, None, DIGEST) == "won"
    assert await store.ledger.claim(call, "other", LEASE, None, DIGEST) == "busy"


async def test_only_the_owner_renews_its_lease(store: Store) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LAPSED, None, DIGEST)
    assert not await store.ledger.renew(call, "other", LEASE)
    row = await store.ledger.read(call)
    assert row is not None
    assert not row.lease_live
    assert await store.ledger.renew(call, "owner", LEASE)
    row = await store.ledger.read(call)
    assert row is not None
    assert row.lease_live


async def test_a_settled_call_is_neither_claimed_nor_renewed(store: Store) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LEASE, None, DIGEST)
    await store.ledger.settle(call, "owner", scene.outcome(), scene.attempt("owner"))
    assert await store.ledger.claim(call, "owner", LEASE, None, DIGEST) == "final"
    assert not await store.ledger.renew(call, "owner", LEASE)


async def test_a_result_is_written_with_its_audit_row_and_event(store: Store, database: Database) -> None:
    turn, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LEASE, None, DIGEST)
    row = await store.ledger.settle(
        call, "owner", scene.outcome("done", metadata={"a": [1]}), scene.attempt("owner", grant="ap_x")
    )
    assert (row.status, row.output, row.metadata, row.is_error) == ("completed", "done", {"a": [1]}, False)
    assert await rows.attempts(database, call) == [scene.attempt("owner", grant="ap_x")]
    assert (await scene.events(store, turn))[-2:] == ["tool.started", "tool.settled"]


@requirement("R-15")
async def test_the_journal_names_the_rule_and_layer_that_refused_a_call_and_no_more(store: Store) -> None:
    turn, call = await scene.one_call(store)
    why = {"error_type": "tool_policy_denied", "rule_id": "r" * 300, "layer": "operator", "reason": "no"}
    denied = scene.outcome("Denied", status="denied", metadata=why)
    row = await store.ledger.settle(call, "owner", denied, scene.attempt("owner"))
    assert row.metadata == why
    data = (await store.journal.read(turn, 0, 100))[-1].data
    assert (data["status"], data["rule"], data["layer"]) == ("denied", "r" * 64, "operator")
    assert "reason" not in data


async def test_settling_twice_by_the_same_attempt_is_once(store: Store, database: Database) -> None:
    turn, call = await scene.one_call(store)
    for output in ("first", "second"):
        row = await store.ledger.settle(call, "owner", scene.outcome(output), scene.attempt("owner"))
        assert row.output == "first"
    assert len(await rows.attempts(database, call)) == 1
    assert (await scene.events(store, turn)).count("tool.settled") == 1


async def test_a_live_lease_is_not_settled_as_unknown(store: Store, database: Database) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LEASE, None, DIGEST)
    row = await store.ledger.settle_unknown(call, "owner", scene.attempt("gone"))
    assert (row.status, row.lease_live) == ("claimed", True)
    assert await rows.attempts(database, call) == []


async def test_a_lapsed_lease_is_settled_as_unknown_once_by_whoever_finds_it(
    stores: list[Store], database: Database
) -> None:
    turn, call = await scene.one_call(stores[0])
    await stores[0].ledger.claim(call, "dead", LAPSED, None, DIGEST)
    settled = await asyncio.gather(
        *(stores[n % 4].ledger.settle_unknown(call, "dead", scene.attempt("dead-lapsed")) for n in range(8))
    )
    assert {(row.status, row.metadata["error_type"]) for row in settled} == {("completed", "outcome_unknown")}
    assert all(row.is_error and "may have run" in row.output for row in settled)
    assert len(await rows.attempts(database, call)) == 1
    assert (await scene.events(stores[0], turn)).count("tool.settled") == 1


async def test_another_owners_claim_is_not_settled_as_unknown(store: Store) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LAPSED, None, DIGEST)
    assert (await store.ledger.settle_unknown(call, "another", scene.attempt("x"))).status == "claimed"


async def test_a_late_result_is_audited_and_does_not_overwrite_the_unknown(
    store: Store, database: Database
) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "slow", LAPSED, None, DIGEST)
    await store.ledger.settle_unknown(call, "slow", scene.attempt("slow-lapsed", "unknown"))
    row = await store.ledger.settle(call, "slow", scene.outcome("late"), scene.attempt("slow"))
    assert row.metadata == {"error_type": "outcome_unknown"}
    assert {each.id for each in await rows.attempts(database, call)} == {"slow-lapsed", "slow"}


async def test_a_result_of_somebody_who_does_not_own_the_claim_changes_nothing(
    store: Store, database: Database
) -> None:
    _, call = await scene.one_call(store)
    await store.ledger.claim(call, "owner", LEASE, None, DIGEST)
    row = await store.ledger.settle(call, "other", scene.outcome("stolen"), scene.attempt("other"))
    assert (row.status, row.owner) == ("claimed", "owner")
    assert [each.id for each in await rows.attempts(database, call)] == ["other"]


@pytest.mark.parametrize("effect", [Effect.PURE, Effect.KEYED])
async def test_a_repeatable_call_has_no_owner_and_its_first_result_stands(
    store: Store, effect: Effect
) -> None:
    _, call = await scene.one_call(store, effect)
    claims = [await store.ledger.claim(call, owner, None, None, DIGEST) for owner in ("a", "b")]
    assert claims == ["won", "won"]
    await store.ledger.settle(call, "b", scene.outcome("b"), scene.attempt("b"))
    assert (await store.ledger.settle(call, "a", scene.outcome("a"), scene.attempt("a"))).output == "b"


async def test_no_call_of_an_ended_turn_begins(store: Store) -> None:
    turn = await scene.running_turn(store)
    await scene.step(store, turn, scene.planned(Effect.ONCE), scene.planned(Effect.ONCE))
    await store.turns.finish(turn, "completed", "", 1)
    claim = await store.ledger.claim(ids.call_id(turn, 0, 1), "owner", LEASE, None, DIGEST)
    assert claim == "final", "the end has answered it"


@requirement("M-25")
async def test_the_claim_uses_the_grant_up_and_the_same_call_may_show_it_again(store: Store) -> None:
    _, call, grant = await granted(store)
    assert await store.ledger.claim(call, "owner", LEASE, grant, DIGEST) == "won"
    row = await store.approvals.read(grant)
    assert row is not None
    assert row.state == "consumed"
    assert row.consumed_at is not None
    assert await store.ledger.claim(call, "owner", LEASE, grant, DIGEST) == "won"


@requirement("M-25")
async def test_a_repeatable_call_may_show_its_grant_again_after_a_crash(store: Store) -> None:
    _, call, grant = await granted(store, Effect.KEYED)
    claims = [await store.ledger.claim(call, owner, None, grant, DIGEST) for owner in ("a", "b")]
    assert claims == ["won", "won"]


@requirement("M-25", "P37")
async def test_a_grant_does_not_fit_other_arguments_or_another_call(store: Store) -> None:
    turn, call, grant = await granted(store)
    assert await store.ledger.claim(call, "owner", LEASE, grant, "e" * 64) == "ungranted"
    assert await state(store, grant) == "approved"
    await scene.step(store, turn, scene.planned(Effect.ONCE), n=1)
    assert await store.ledger.claim(ids.call_id(turn, 1, 0), "owner", LEASE, grant, DIGEST) == "ungranted"
    row = await store.ledger.read(call)
    assert row is not None
    assert row.status == "suspended"


@requirement("M-25", "P46")
@pytest.mark.parametrize("verdict", ["deny", None])
async def test_what_nobody_allowed_is_no_grant(store: Store, verdict: str | None) -> None:
    turn, call = await scene.one_call(store)
    row = await scene.asked(store, turn, call)
    if verdict:
        await scene.approve(store, row.id, verdict=verdict)
    assert await store.ledger.claim(call, "owner", LEASE, row.id, DIGEST) == "ungranted"
    assert await store.ledger.claim(call, "owner", LEASE, "ap_invented", DIGEST) == "ungranted"


@requirement("P47")
async def test_a_stop_and_a_claim_at_the_same_time_agree(stores: list[Store]) -> None:
    """Either the grant was used and the call runs, or the approval was cancelled and it does not."""
    for _ in range(10):
        turn, call, grant = await granted(stores[0])
        claim, _ = await asyncio.gather(
            stores[1].ledger.claim(call, "owner", LEASE, grant, DIGEST),
            stores[2].turns.request_stop(turn, "ann"),
        )
        assert (claim, await state(stores[0], grant)) in [("won", "consumed"), ("stopped", "cancelled")]


@requirement("M-15")
async def test_a_suspended_attempt_is_audited_without_settling_the_call(
    store: Store, database: Database
) -> None:
    _, call = await scene.one_call(store)
    for _ in range(2):
        await store.ledger.audit(call, scene.attempt("a", "suspended"))
    assert await rows.attempts(database, call) == [scene.attempt("a", "suspended")]
    row = await store.ledger.read(call)
    assert row is not None
    assert row.status == "requested"


async def test_an_unknown_call_is_not_there(store: Store, database: Database) -> None:
    assert await store.ledger.read("s_x/1.0.0") is None
    assert await rows.attempts(database, "s_x/1.0.0") == []
