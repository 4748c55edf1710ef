"""A full hour refuses what changes something, before anybody is asked; what reads goes on."""

from dataclasses import replace

import pytest

from roundturn.middleware.action_budget import ActionBudget
from roundturn.rules import Policy
from tests.middleware.scene import CALL, NOW, Bench, Change, FakeActions, Look, context, done
from tests.requirements import requirement

ALLOWED = Policy(allow=("*",))


@requirement("X-11", "M-20")
async def test_a_side_effect_takes_a_place_and_a_read_takes_none() -> None:
    bench = Bench(Change(), Look())
    await bench.call("look", policy=ALLOWED)
    assert bench.actions.reserved == []
    await bench.call("change", policy=ALLOWED)
    assert bench.actions.reserved == [(CALL, 10)]


@requirement("X-11", "X-01")
async def test_a_full_hour_refuses_and_asks_nobody_and_says_when_there_is_room() -> None:
    tool = Change()
    bench = Bench(tool)
    bench.actions.free_at = NOW
    result = await bench.call("change")
    assert (result.status, result.metadata["error_type"]) == ("denied", "action_budget")
    assert (tool.runs, bench.approvals.rows) == ([], {})
    assert "10 actions an hour (max_actions_per_hour)" in result.result.output
    assert "2026-01-02 03:04:05 UTC" in result.result.output


@requirement("X-11")
@pytest.mark.parametrize("changes", [{"read_only": True}, {"spec": replace(Change().spec(), directive=True)}])
async def test_neither_reading_nor_asking_the_workflow_is_an_action(changes: dict[str, object]) -> None:
    actions = FakeActions(free_at=NOW)
    result = await ActionBudget(actions, 10)(context("change", **changes), done)
    assert (result.status, actions.reserved) == ("completed", [])


async def test_a_call_whose_nature_nobody_judged_counts() -> None:
    actions = FakeActions(free_at=NOW)
    assert (await ActionBudget(actions, 10)(context("change"), done)).status == "denied"


@requirement("M-24")
async def test_on_the_way_back_in_the_same_place_is_asked_for() -> None:
    bench = Bench(Change())
    suspended = await bench.call("change")
    assert suspended.suspension is not None
    bench.approvals.answer(suspended.suspension.approval, "approved")
    assert (await bench.call("change", grant=suspended.suspension.approval)).status == "completed"
    assert bench.actions.reserved == [(CALL, 10), (CALL, 10)]
    assert [attempt.status for attempt in bench.ledger.audited] == ["suspended", "completed"]


@requirement("X-11")
async def test_where_no_action_is_allowed_no_hour_is_promised() -> None:
    result = await ActionBudget(FakeActions(free_at=NOW), 0)(context("change"), done)
    assert "0 actions an hour (max_actions_per_hour). None is allowed." in result.result.output
