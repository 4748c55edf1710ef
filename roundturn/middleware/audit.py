"""Outermost: what came back is written to the ledger with one audit row for the attempt, and what stands is returned."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Literal, cast

from roundturn.call import Attempt, CallContext, Next, ToolExecutionResult
from roundturn.errors import Unavailable
from roundturn.ledger import FINAL, CallRow, Outcome
from roundturn.store import Ledger, insist
from roundturn.tool import ToolResult, directive_of


class Audit:
    """`clock` gives aware UTC times; the elapsed time comes from it too."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        started = self._clock()
        result = await next(ctx)
        attempt = Attempt(
            id=ctx.attempt,
            status=result.status,
            error_type=str(result.metadata.get("error_type", "")),
            started_at=started,
            elapsed_ms=round((self._clock() - started).total_seconds() * 1000),
            grant=ctx.grant,
        )
        directive = directive_of(result.metadata)
        if result.status == "suspended" or (directive is not None and directive.wait_s is not None):
            await insist(partial(self._ledger.audit, ctx.tool_call_id, attempt), asyncio.sleep)
            return result
        outcome = Outcome(result.status, result.result.output, result.result.is_error, result.metadata)
        write = partial(self._ledger.settle, ctx.tool_call_id, ctx.attempt, outcome, attempt)
        row = await insist(write, asyncio.sleep)
        if row.status not in FINAL:  # another attempt runs it, and that one's result will stand
            raise Unavailable(f"call {ctx.tool_call_id} is being run by another attempt")
        return standing_result(row)


def standing_result(row: CallRow) -> ToolExecutionResult:
    """A final row as the chain's result, whoever wrote it."""
    return ToolExecutionResult(
        status=cast(Literal["completed", "denied"], row.status),
        result=ToolResult(output=row.output, is_error=row.is_error),
        metadata=dict(row.metadata),
    )
