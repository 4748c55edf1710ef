"""Innermost: a `once` call is claimed before it runs and never runs again; a grant is used up in the same transaction."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

from roundturn.approval import binding_digest
from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.ledger import FINAL
from roundturn.middleware.audit import settle_lapsed
from roundturn.store import Ledger, insist
from roundturn.tool import Effect

# A killed worker's call is settled once its lease has lapsed; a locked store must not look like a death.
LEASE = timedelta(seconds=6)
RENEW_S = 1.5
LOOK_S = 0.25


class Claim:
    """At most once, over attempts and processes (design section 1, decision 5)."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        once = ctx.spec is None or ctx.spec.effect is Effect.ONCE
        if not once and ctx.grant is None:
            return await next(ctx)
        bound = binding_digest(ctx)
        lease = LEASE if once else None
        claim = partial(self._ledger.claim, ctx.tool_call_id, ctx.attempt, lease, ctx.grant, bound)
        match await insist(claim, asyncio.sleep):  # the same owner may ask again after an ambiguous commit
            case "won":
                return await self._run_once(ctx, next) if once else await next(ctx)
            case "stopped":
                return ToolExecutionResult.stopping()
            case "ungranted":
                return ToolExecutionResult.denied(
                    "Not run: the approval no longer holds.", "approval_cancelled"
                )
            case "final" | "busy":
                return await self._await_owner(ctx)

    async def _run_once(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        async with self._renewed(ctx):
            try:
                return await next(ctx)
            except asyncio.CancelledError:
                # Whoever cancelled wants it over; that it began is a fact and goes into the ledger.
                return ToolExecutionResult.unknown("this was stopped while it was running.")
            except Unavailable as fault:  # others are tried again; a call that runs once cannot be
                return ToolExecutionResult.unknown(f"what this needs could not be reached ({fault.detail}).")

    @asynccontextmanager
    async def _renewed(self, ctx: CallContext) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEW_S)
                with suppress(Unavailable):  # the next beat tries again; the lease outlives several
                    await self._ledger.renew(ctx.tool_call_id, ctx.attempt, LEASE)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()

    async def _await_owner(self, ctx: CallContext) -> ToolExecutionResult:
        """Another attempt has it: wait for its result, or for its lease to lapse, and then say so honestly."""
        while True:
            row = await insist(partial(self._ledger.read, ctx.tool_call_id), asyncio.sleep)
            assert row is not None
            if row.status not in FINAL:
                row = await settle_lapsed(self._ledger, row, self._clock(), ctx.grant)
            if row.status in FINAL:
                return ToolExecutionResult.standing(row)
            await asyncio.sleep(LOOK_S)
