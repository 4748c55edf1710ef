"""Waiting for a person: a decided row ends it, or the row's own time does, and the row has the last word."""

import asyncio
from collections.abc import Container
from datetime import datetime, timedelta

from temporalio import workflow

from workflows import calls
from workflows.state import OpenCall, TurnState

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from roundturn.approval import SignalledVerdict

MOST_OFFERS = 32  # a flood of signals must not grow the state; the approvals' rows lose nothing by it
CLOCK_SLACK = timedelta(seconds=1)


async def decided(call: OpenCall, known: Container[str]) -> None:
    """Returns when the call's approval is no longer pending; costs no worker slot meanwhile (Q-02, P48).

    `known` is filled by the turn's looks after wake-ups; a lost wake-up is repeated by the reconciler.
    """
    assert call.expires_at is not None
    while call.approval not in known:
        left = max(call.expires_at - workflow.now(), CLOCK_SLACK)
        try:
            await workflow.wait_condition(
                lambda: call.approval in known,
                timeout=left,
                timeout_summary=f"{call.plan.tool} waits for a person",
            )
        except asyncio.TimeoutError:
            if await calls.expire_approval(call.approval):
                return


def suspend(call: OpenCall, approval: str, expires_at: str) -> None:
    call.approval = approval
    call.expires_at = datetime.fromisoformat(expires_at)


def keep_offer(state: TurnState, payload: object) -> None:
    """A signalled verdict is kept until it can be judged; a payload that is none is dropped alone (P109)."""
    try:
        offer = SignalledVerdict.model_validate(payload)
    except ValidationError:
        workflow.logger.warning("a verdict signal was not understood and is dropped")
        return
    if len(state.offers) < MOST_OFFERS and offer not in state.offers:
        state.offers.append(offer)


def next_offer(state: TurnState, calls_in_flight: bool) -> SignalledVerdict | None:
    """The next offer whose approval waits in this very turn. Others are dropped, unless a call is still on its way
    to its suspension: its request may have been seen and answered before we heard of it (Q-03).
    """
    waiting = {call.approval for call in state.calls if call.approval}
    if not calls_in_flight:
        state.offers[:] = [offer for offer in state.offers if offer.approval_id in waiting]
    return next((offer for offer in state.offers if offer.approval_id in waiting), None)
