"""The outermost layer: what came back is written with who, when and how long, and what stands is returned."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from roundturn.call import Attempt, CallContext, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.middleware.audit import Audit
from roundturn.tool import ToolResult
from tests.middleware.scene import NOW, Clock, FakeLedger, call_row, context, done
from tests.requirements import requirement

LATER = datetime(2099, 1, 1, tzinfo=UTC)


@requirement("M-15")
async def test_a_result_and_its_attempt_are_written() -> None:
    ledger = FakeLedger(call_row())

    async def deny(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.denied("no", "tool_policy_denied")

    result = await Audit(ledger, Clock())(context("change", grant="ap_1"), deny)
    assert (result.status, result.result.output) == ("denied", "no")
    assert (ledger.row.status, ledger.row.is_error) == ("denied", True)
    (attempt,) = ledger.audited
    assert attempt == Attempt("attempt", "denied", "tool_policy_denied", attempt.started_at, 250, "ap_1")
    assert attempt.started_at > NOW


@requirement("M-09", "M-15")
async def test_a_suspension_is_audited_and_leaves_the_call_open() -> None:
    ledger = FakeLedger(call_row(status="suspended"))

    async def suspend(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.suspended("ap_1", LATER)

    result = await Audit(ledger, Clock())(context("change"), suspend)
    assert result.suspension.approval == "ap_1"
    assert [each.status for each in ledger.audited] == ["suspended"]
    assert ledger.row.status == "suspended"


async def test_a_result_that_stands_is_returned_instead_of_a_later_one() -> None:
    ledger = FakeLedger(call_row(status="completed", output="first", metadata={"a": 1}))
    result = await Audit(ledger, Clock())(context("change"), done)
    assert (result.result.output, result.metadata) == ("first", {"a": 1})
    assert len(ledger.audited) == 1


async def test_a_refusal_while_another_attempt_runs_the_call_is_tried_again_later() -> None:
    """A layer of the operator's may refuse the second attempt; only the first one's result can stand."""
    ledger = FakeLedger(call_row(status="claimed", owner="another", lease_live=True))

    async def busy(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.denied("too many at once", "rate_limited")

    with pytest.raises(Unavailable, match="another attempt"):
        await Audit(ledger, Clock())(context("change"), busy)
    assert ledger.row == call_row(status="claimed", owner="another", lease_live=True)


@requirement("R-18", "P-01")
async def test_a_refusal_of_a_call_that_a_dead_attempt_began_is_an_unknown_outcome() -> None:
    """Rules that changed meanwhile say no; that it was not run is more than anybody knows."""
    ledger = FakeLedger(call_row(status="claimed", owner="another"))

    async def deny(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.denied("no", "tool_policy_denied")

    result = await Audit(ledger, Clock())(context("change"), deny)
    assert (result.status, result.result.output) == ("completed", "unknown")
    assert [(each.id, each.status) for each in ledger.audited] == [
        ("attempt", "denied"),
        ("another-lapsed", "unknown"),
    ]


@pytest.mark.parametrize("suspended", [True, False])
async def test_a_locked_store_is_waited_for(suspended: bool) -> None:
    ledger = FakeLedger(call_row(), refuse=1)

    async def inner(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.suspended("ap_1", LATER) if suspended else await done(ctx)

    await Audit(ledger, Clock())(context("change"), inner)
    assert len(ledger.audited) == 1


@requirement("P31")
async def test_odd_metadata_is_no_obstacle() -> None:
    ledger = FakeLedger(call_row())
    odd: dict[str, Any] = {"error_type": 7, "object": object()}

    async def inner(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.completed(ToolResult(output="x"), **odd)

    await Audit(ledger, Clock())(context("change"), inner)
    assert replace(ledger.audited[0], started_at=NOW).error_type == "7"


@requirement("B-05", "M-15")
@pytest.mark.parametrize(
    ("directive", "status"), [({"start": "s_b"}, "completed"), ({"start": "s_b", "wait_s": 5.0}, "requested")]
)
async def test_a_call_that_waits_for_a_subagent_is_audited_and_left_open(
    directive: dict[str, Any], status: str
) -> None:
    ledger = FakeLedger(call_row())

    async def direct(ctx: CallContext) -> ToolExecutionResult:
        return ToolExecutionResult.completed(ToolResult(output="ref"), directive=directive)

    result = await Audit(ledger, Clock())(context("change"), direct)
    assert result.metadata["directive"] == directive
    assert [each.status for each in ledger.audited] == ["completed"]
    assert ledger.row.status == status


@requirement("M-15", "M-24", "X-11")
@pytest.mark.parametrize(
    "refusal",
    [
        ToolExecutionResult.denied("Not run: plan mode.", "tool_policy_denied"),
        ToolExecutionResult.failed("It does not fit. The tool was not run.", "invalid_arguments"),
        ToolExecutionResult.failed("There is no such tool.", "tool_not_found"),
    ],
)
@pytest.mark.parametrize("may_have_run", [True, False])
async def test_of_a_call_that_may_have_run_nobody_is_told_that_it_did_not(
    refusal: ToolExecutionResult, may_have_run: bool
) -> None:
    ledger = FakeLedger(call_row())

    async def refuse(ctx: CallContext) -> ToolExecutionResult:
        return refusal

    result = await Audit(ledger, Clock())(context("change", may_have_run=may_have_run), refuse)
    if may_have_run:
        assert (result.status, result.error_type) == ("completed", "outcome_unknown")
        assert "It may have run" in ledger.row.output
        assert "not run" not in ledger.row.output
    else:
        assert result == refusal


@requirement("M-15")
async def test_a_call_that_may_have_run_and_is_run_again_has_its_result() -> None:
    ledger = FakeLedger(call_row())
    result = await Audit(ledger, Clock())(context("change", may_have_run=True), done)
    assert result.result.output == "done"
