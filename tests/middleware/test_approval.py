"""A call that needs a person waits for one, and runs on that person's yes and on nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from roundturn.approval import ApprovalRow, binding_digest, refusal_text
from roundturn.call import CallContext, SessionRef, Suspension, ToolExecutionResult
from roundturn.middleware.approval import MOST_BYTES, Approval
from roundturn.rules import Decision, Policy
from tests.middleware.scene import CALL, NOW, SESSION, TURN, Bench, Change, FakeApprovals, Look, context, done
from tests.requirements import requirement

ASK = Decision("ask", "side-effect", "default", "it changes something")


async def through(
    approvals: FakeApprovals, arguments: Mapping[str, Any] | None = None, **changes: Any
) -> tuple[ToolExecutionResult, list[CallContext]]:
    entered: list[CallContext] = []

    async def inner(ctx: CallContext) -> ToolExecutionResult:
        entered.append(ctx)
        return await done(ctx)

    ctx = context("change", arguments or {"a": 1}, **{"decision": ASK, **changes})

    async def masked(given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "masked": True}

    layer = Approval(approvals, timedelta(hours=1), masked)
    return await layer(ctx, inner), entered


@requirement("M-14", "M-09")
async def test_a_question_is_stored_and_the_call_suspended_until_its_expiry() -> None:
    approvals = FakeApprovals()
    result, entered = await through(approvals)
    (row,) = approvals.rows.values()
    assert (result.status, entered) == ("suspended", [])
    assert result.suspension == Suspension(approval=row.id, expires_at=NOW + timedelta(hours=1))
    assert (row.session, row.turn, row.call, row.workflow_id) == (SESSION, TURN, CALL, f"turn/{TURN}")
    assert (row.rule, row.layer, row.reason) == ("side-effect", "default", "it changes something")


@requirement("P131")
async def test_people_see_a_masked_copy_and_the_digest_binds_the_exact_arguments() -> None:
    approvals = FakeApprovals()
    await through(approvals, {"a": 1})
    (row,) = approvals.rows.values()
    assert row.arguments == {"a": 1, "masked": True}
    assert row.digest == binding_digest(context("change", {"a": 1}))


@requirement("M-14")
async def test_what_a_person_could_not_read_whole_is_not_put_before_one() -> None:
    approvals = FakeApprovals()
    whole, _ = await through(approvals, {"a": "x" * (MOST_BYTES - 8)})
    refused, entered = await through(approvals, {"a": "x" * (MOST_BYTES - 7)})
    assert (whole.status, refused.status, entered) == ("suspended", "denied", [])
    assert refused.metadata == {"error_type": "too_long_to_judge"}
    assert [len(row.arguments["a"]) for row in approvals.rows.values()] == [MOST_BYTES - 8], (
        "and nothing is cut"
    )


async def test_an_allowed_call_goes_on_without_a_question_or_grant() -> None:
    approvals = FakeApprovals()
    _, entered = await through(approvals, decision=replace(ASK, effect="allow"), grant="ap_old")
    assert (approvals.rows, [ctx.grant for ctx in entered]) == ({}, [None])


async def test_a_call_that_nobody_decided_about_is_asked_about() -> None:
    approvals = FakeApprovals()
    result, _ = await through(approvals, decision=None)
    assert result.status == "suspended"
    assert next(iter(approvals.rows.values())).rule == "undecided"


@requirement("M-24", "M-25")
@pytest.mark.parametrize("state", ["approved", "consumed"])
async def test_with_its_grant_the_call_goes_on_also_after_a_crash(state: Any) -> None:
    approvals = FakeApprovals()
    approval = (await through(approvals))[0].suspension.approval
    approvals.answer(approval, state)
    _, entered = await through(approvals, grant=approval)
    assert [ctx.grant for ctx in entered] == [approval]


async def test_without_the_grant_an_approved_call_waits_under_the_same_request() -> None:
    approvals = FakeApprovals()
    first, _ = await through(approvals)
    approvals.answer(first.suspension.approval, "approved")
    again, entered = await through(approvals)
    assert (again.status, again.metadata, entered) == ("suspended", first.metadata, [])


@requirement("M-25", "P37")
@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"a": 2}},
        {"arguments": {"a": "1"}},
        {"arguments": {"a": True}},
        {"tool_call_id": f"{TURN}.0.1"},
        {"tool_name": "other"},
        {"session": SessionRef("s_other", TURN, TURN, "default")},
        {"spec": replace(Look().spec(), name="change", origin="mcp:server")},
    ],
)
async def test_a_grant_for_anything_else_is_a_new_question(changes: dict[str, Any]) -> None:
    approvals = FakeApprovals()
    approval = (await through(approvals, spec=Change().spec()))[0].suspension.approval
    approvals.answer(approval, "approved")
    given = {"spec": Change().spec(), "grant": approval, **changes}
    result, entered = await through(approvals, given.pop("arguments", {"a": 1}), **given)
    assert (result.status, entered, len(approvals.rows)) == ("suspended", [], 2)
    assert result.suspension.approval != approval


@requirement("M-25")
async def test_the_order_of_keys_is_not_another_question() -> None:
    approvals = FakeApprovals()
    approval = (await through(approvals, {"a": 1, "b": 2}))[0].suspension.approval
    approvals.answer(approval, "approved")
    _, entered = await through(approvals, {"b": 2, "a": 1}, grant=approval)
    assert len(entered) == 1


async def test_a_grant_that_nobody_knows_is_a_new_question() -> None:
    result, entered = await through(FakeApprovals(), grant="ap_invented")
    assert (result.status, entered) == ("suspended", [])


@requirement("P46", "P42", "P47")
@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("denied", "A person refused this call: not on a Friday."),
        ("expired", "Nobody answered"),
        ("cancelled", "was cancelled"),
    ],
)
async def test_no_yes_is_a_denial_in_its_own_words_with_and_without_the_id(state: Any, said: str) -> None:
    approvals = FakeApprovals()
    approval = (await through(approvals))[0].suspension.approval
    approvals.answer(approval, state, note="not on a Friday")
    for grant in (approval, None):
        result, entered = await through(approvals, grant=grant)
        assert (result.status, entered) == ("denied", [])
        assert result.metadata == {"error_type": f"approval_{state}", "approval_id": approval}
        assert result.result.output.startswith(said) or said in result.result.output
        assert "not run" in result.result.output


@requirement("P47")
async def test_a_turn_that_is_being_stopped_asks_nobody() -> None:
    result, entered = await through(FakeApprovals(stopping=True))
    assert (result.status, result.metadata, entered) == ("denied", {"error_type": "turn_stopping"}, [])


@requirement("M-14")
async def test_what_always_asks_cannot_be_waived_by_an_allowlist() -> None:
    class Shell(Change):
        approval = "always"

    assert (await Bench(Shell()).call("change", {}, Policy(allow=("*",)))).status == "suspended"


@requirement("P42")
def test_an_expired_request_does_not_say_that_a_person_refused() -> None:
    row = ApprovalRow(
        "ap", "s", "t", "r", "w", "c", "a", "tool", "builtin", {}, "d", "r", "l", "why", "expired", NOW, NOW
    )
    assert "refused" not in refusal_text(row)
    assert "2026-01-02 03:04 UTC" in refusal_text(row)
    assert refusal_text(replace(row, state="denied")).startswith("A person refused this call. ")
