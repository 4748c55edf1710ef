"""Waiting for a person: a decided row ends it, or the row's own time does, and the row has the last word."""

import asyncio
from collections.abc import Callable, Container
from datetime import timedelta

from temporalio import workflow

from workflows import calls
from workflows.state import OpenCall, TurnState

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from activities.tools import ToolOutcome
    from roundturn.approval import SignalledVerdict

MOST_OFFERS = 32  # a flood of signals must not grow the state; the approvals' rows lose nothing by it
CLOCK_SLACK = timedelta(seconds=1)


async def decided(call: OpenCall, known: Container[str], given_up: Callable[[], bool]) -> None:
    """Returns when the call's approval is no longer pending; costs no worker slot meanwhile (Q-02, P48).

    `known` is filled by the turn's looks after wake-ups; a lost wake-up is repeated by the reconciler.
    """
    assert call.expires_at is not None
    while not (call.approval in known or given_up()):
        left = max(call.expires_at - workflow.now(), CLOCK_SLACK)
        try:
            await workflow.wait_condition(
                lambda: call.approval in known or given_up(),
                timeout=left,
                timeout_summary=f"{call.plan.tool} waits for a person",
            )
        except asyncio.TimeoutError:
            if await calls.expire_approval(call.approval):
                return


def suspend(call: OpenCall, outcome: ToolOutcome) -> None:
    call.approval = outcome.approval_id
    call.expires_at = outcome.expires_at


def keep_offer(state: TurnState, payload: object) -> None:
    """A signalled verdict is kept until its request has reached us: it may have been seen and answered before (Q-03).

    A payload that is none is dropped alone (P109).
    """
    try:
        offer = SignalledVerdict.model_validate(payload)
    except ValidationError:
        workflow.logger.warning("a verdict signal was not understood and is dropped")
        return
    if offer not in state.offers:
        state.offers.append(offer)
        # The oldest go first: a flood of strays must neither grow the state nor keep a real answer out.
        del state.offers[:-MOST_OFFERS]


def offered(state: TurnState) -> SignalledVerdict | None:
    """The next offer whose approval waits in this very turn; any other is dropped without an activity in time."""
    waiting = {call.approval for call in state.calls if call.approval}
    return next((offer for offer in state.offers if offer.approval_id in waiting), None)
