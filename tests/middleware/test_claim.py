"""The innermost layer: a call that must not be repeated runs in one attempt only, or says honestly that nobody knows."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from roundturn.call import CallContext, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.middleware import claim as claims
from roundturn.middleware.claim import Claim
from roundturn.tool import Effect, ToolResult
from tests.middleware.scene import Change, Clock, FakeLedger, Look, call_row, context, done

ONCE, PURE = Change().spec(), Look().spec()
KEYED = replace(ONCE, effect=Effect.KEYED)


class Counted:
    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, ctx: CallContext) -> ToolExecutionResult:
        self.runs += 1
        return await done(ctx)


async def run(ledger: FakeLedger, inner: Any = done, **changes: Any) -> ToolExecutionResult:
    return await Claim(ledger, Clock())(context("change", **{"spec": ONCE, **changes}), inner)


@pytest.mark.parametrize("spec", [PURE, KEYED])
async def test_a_repeatable_call_without_a_grant_needs_no_claim(spec: Any) -> None:
    ledger = FakeLedger(call_row())
    assert (await run(ledger, spec=spec)).result.output == "done"
    assert ledger.claims == []


@pytest.mark.parametrize("spec", [PURE, KEYED])
async def test_a_repeatable_call_with_a_grant_uses_it_up_and_holds_no_lease(spec: Any) -> None:
    ledger = FakeLedger(call_row())
    await run(ledger, spec=spec, grant="ap_1")
    assert ledger.claims == [("attempt", None, "ap_1")]


@pytest.mark.parametrize("spec", [ONCE, None])
async def test_what_must_not_be_repeated_is_held_with_a_lease_while_it_runs(spec: Any) -> None:
    ledger = FakeLedger(call_row())
    await run(ledger, spec=spec)
    assert ledger.claims == [("attempt", claims.LEASE, None)]
    assert ledger.row.owner == "attempt"


async def test_a_tool_that_became_stricter_is_held_although_its_row_says_pure() -> None:
    ledger = FakeLedger(call_row(effect=Effect.PURE))
    await run(ledger, spec=ONCE)
    second = Counted()
    ledger.row = replace(ledger.row, status="completed", output="of the first")
    assert (await run(ledger, second, attempt="second")).result.output == "of the first"
    assert second.runs == 0


@pytest.mark.parametrize(
    ("answer", "kind"), [("stopped", "turn_stopping"), ("ungranted", "approval_cancelled")]
)
async def test_what_may_not_begin_is_denied_and_does_not_run(answer: Any, kind: str) -> None:
    inner = Counted()
    result = await run(FakeLedger(call_row(), forced=answer), inner)
    assert (result.status, result.metadata, inner.runs) == ("denied", {"error_type": kind}, 0)


async def test_a_result_that_stands_is_returned_without_running() -> None:
    inner = Counted()
    ledger = FakeLedger(call_row(status="completed", output="stands", metadata={"a": 1}))
    result = await run(ledger, inner)
    assert (result.result.output, result.metadata, inner.runs) == ("stands", {"a": 1}, 0)


async def test_while_another_attempt_runs_it_its_result_is_waited_for() -> None:
    ledger = FakeLedger(call_row(status="claimed", owner="another", lease_live=True))
    inner = Counted()
    waiting = asyncio.create_task(run(ledger, inner))
    await asyncio.sleep(0)
    assert not waiting.done()
    ledger.row = replace(ledger.row, status="completed", output="of another")
    assert (await asyncio.wait_for(waiting, 5)).result.output == "of another"
    assert inner.runs == 0


async def test_a_dead_attempt_is_settled_as_unknown_and_the_tool_is_not_run_again() -> None:
    ledger = FakeLedger(call_row(status="claimed", owner="dead", lease_live=False))
    inner = Counted()
    result = await run(ledger, inner)
    assert (result.result.output, result.result.is_error, inner.runs) == ("unknown", True, 0)
    assert [(each.id, each.error_type) for each in ledger.audited] == [("dead-lapsed", "outcome_unknown")]


async def test_a_store_that_is_locked_at_the_claim_is_asked_again_by_the_same_owner() -> None:
    ledger = FakeLedger(call_row(), refuse=2)
    inner = Counted()
    await run(ledger, inner)
    assert (inner.runs, [owner for owner, _, _ in ledger.claims]) == (1, ["attempt"])


async def test_a_cancelled_call_says_that_it_began() -> None:
    began = asyncio.Event()

    async def slow(ctx: CallContext) -> ToolExecutionResult:
        began.set()
        await asyncio.Event().wait()
        return await done(ctx)

    running = asyncio.create_task(run(FakeLedger(call_row()), slow))
    await began.wait()
    running.cancel()
    result = await running
    assert (result.status, result.metadata) == ("completed", {"error_type": "outcome_unknown"})
    assert "It may have run" in result.result.output


async def test_a_repeatable_call_that_is_cancelled_is_just_cancelled() -> None:
    began = asyncio.Event()

    async def slow(ctx: CallContext) -> ToolExecutionResult:
        began.set()
        await asyncio.Event().wait()
        return await done(ctx)

    running = asyncio.create_task(run(FakeLedger(call_row()), slow, spec=PURE))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_call_that_cannot_be_repeated_is_not_tried_again_for_what_may_pass() -> None:
    async def away(ctx: CallContext) -> ToolExecutionResult:
        raise Unavailable("mail server is away")

    result = await run(FakeLedger(call_row()), away)
    assert (result.result.is_error, result.metadata) == (True, {"error_type": "outcome_unknown"})
    assert "mail server is away" in result.result.output
    with pytest.raises(Unavailable):
        await run(FakeLedger(call_row()), away, spec=PURE)


async def test_the_lease_is_renewed_while_the_tool_runs_and_a_locked_store_is_no_death() -> None:
    renewed = asyncio.Event()

    class Renewing(FakeLedger):
        tries = 0

        async def renew(self, call: str, owner: str, lease: Any) -> bool:
            self.tries += 1
            if self.tries == 1:
                raise Unavailable("locked")
            renewed.set()
            return True

    async def until_renewed(ctx: CallContext) -> ToolExecutionResult:
        await renewed.wait()
        return ToolExecutionResult.completed(ToolResult(output="lived"))

    result = await asyncio.wait_for(run(Renewing(call_row()), until_renewed), 10)
    assert result.result.output == "lived"
