"""A call that a person must allow is stored as a request and suspended; with the person's yes it goes on (M-14)."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from roundturn import ids
from roundturn.approval import ApprovalRow, NewApproval, binding_digest, refusal_text
from roundturn.call import CallContext, Next, ToolExecutionResult
from roundturn.jsontext import dump
from roundturn.rules import Decision
from roundturn.store import Approvals

MOST_BYTES = 256 * 1024  # of arguments: what a person could not read whole is not put before one
TOO_LONG = (
    f"Not run: a person must allow this call and be able to read all of it, at most {MOST_BYTES} bytes of arguments. "
    "Do it in smaller parts."
)
UNDECIDED = Decision("ask", "undecided", "platform", "no policy layer decided about this call")


class Approval:
    """`redact` makes the copy of the arguments that people see, and lets the event loop go on meanwhile.

    It is whole, however long; the digest binds the exact ones.
    """

    def __init__(self, approvals: Approvals, ttl: timedelta, redact: Callable[[Any], Awaitable[Any]]) -> None:
        self._approvals = approvals
        self._ttl = ttl
        self._redact = redact

    async def __call__(self, ctx: CallContext, next: Next) -> ToolExecutionResult:
        decision = ctx.decision or UNDECIDED
        if decision.effect == "allow":
            return await next(ctx.with_(grant=None))
        bound = binding_digest(ctx)
        row = await self._granted(ctx, bound)
        if row is None:
            sent = dict(
                ctx.arguments if ctx.sent is None else ctx.sent
            )  # without the defaults; the digest binds all
            if len(dump(sent).encode()) > MOST_BYTES:
                return ToolExecutionResult.denied(TOO_LONG, "too_long_to_judge")
            question = self._question(ctx, decision, bound, await self._redact(sent))
            row = await self._approvals.request(question, self._ttl)
        if row is None:
            return ToolExecutionResult.stopping()
        if row.state == "consumed" or (row.state == "approved" and ctx.grant == row.id):
            # A consumed one is this call's own, begun before: the claim knows what became of it.
            return await next(ctx.with_(grant=row.id))
        if row.state in ("pending", "approved"):
            return ToolExecutionResult.suspended(row.id, row.expires_at)
        return ToolExecutionResult.denied(refusal_text(row), f"approval_{row.state}", approval_id=row.id)

    async def _granted(self, ctx: CallContext, bound: str) -> ApprovalRow | None:
        """The row behind the grant, if it is for this very call and these very arguments (M-25)."""
        row = await self._approvals.read(ctx.grant) if ctx.grant else None
        return row if row is not None and row.call == ctx.tool_call_id and row.digest == bound else None

    def _question(
        self, ctx: CallContext, decision: Decision, bound: str, shown: dict[str, Any]
    ) -> NewApproval:
        return NewApproval(
            session=ctx.session.session,
            turn=ctx.session.turn,
            run=ctx.session.run,
            workflow_id=ids.turn_workflow(ctx.session.turn),
            call=ctx.tool_call_id,
            agent=ctx.session.agent,
            tool=ctx.tool_name,
            origin=ctx.spec.origin if ctx.spec else "",
            arguments=shown,
            digest=bound,
            rule=decision.rule,
            layer=decision.layer,
            reason=decision.reason,
        )
