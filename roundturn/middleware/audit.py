"""Outermost: what came back is written to the ledger with one audit row for the attempt, and what stands is returned."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from roundturn.call import MAY_HAVE_RUN, OUTCOME_UNKNOWN, Attempt, CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.ledger import FINAL, CallRow, Outcome
from roundturn.store import Ledger, insist

REFUSED = frozenset(
    {"invalid_json", "invalid_arguments", "tool_not_found"}
)  # failures of calls that were not begun


class Audit:
    """`clock` gives aware UTC times; the elapsed time comes from it too."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        started = self._clock()
        result = await next(ctx)
        if ctx.may_have_run and (result.status == "denied" or result.error_type in REFUSED):
            # Whoever refuses it now knows nothing of the try before; nobody may be told that it did not run (M-15).
            result = ToolExecutionResult.unknown(
                f"a try of this was cut off, and now it is refused ({result.error_type})."
            )
        attempt = Attempt(
            id=ctx.attempt,
            status=result.status,
            error_type=MAY_HAVE_RUN if ctx.may_have_run and result.suspension else result.error_type,
            started_at=started,
            elapsed_ms=round((self._clock() - started).total_seconds() * 1000),
            grant=ctx.grant,
        )
        waits = result.directive is not None and result.directive.wait_s is not None
        if result.status == "suspended" or waits:
            await insist(partial(self._ledger.audit, ctx.tool_call_id, attempt), asyncio.sleep)
            return result
        outcome = Outcome(result.status, result.result.output, result.result.is_error, result.metadata)
        write = partial(self._ledger.settle, ctx.tool_call_id, ctx.attempt, outcome, attempt)
        row = await insist(write, asyncio.sleep)
        if row.status not in FINAL:  # refused now, and begun before
            row = await settle_lapsed(self._ledger, row, self._clock(), ctx.grant)
        if row.status not in FINAL:  # another attempt runs it, and that one's result will stand
            raise Unavailable(f"call {ctx.tool_call_id} is being run by another attempt")
        return ToolExecutionResult.standing(row)


async def settle_lapsed(ledger: Ledger, row: CallRow, at: datetime, grant: str | None) -> CallRow:
    """A claimed call that nobody runs any more ends as an honest `unknown`; while its owner lives, it is left alone."""
    if row.lease_live or row.owner is None:
        return row
    gone = Attempt(f"{row.owner}-lapsed", "unknown", OUTCOME_UNKNOWN, at, 0, grant)
    return await insist(partial(ledger.settle_unknown, row.id, row.owner, gone), asyncio.sleep)
