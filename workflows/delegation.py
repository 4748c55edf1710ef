"""Carrying out what the delegation tools ask for: a subagent's session is started, a call waits for its result."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

from workflows import calls
from workflows.state import OpenCall

with workflow.unsafe.imports_passed_through():
    from activities.turns import Collect
    from roundturn import ids

SESSION = "Session"  # by its name: sessions run turns, and turns start sessions


async def start(session: str) -> None:
    """Begins the subagent's own session, which outlives this turn; its message is in its inbox already."""
    try:
        await workflow.start_child_workflow(
            SESSION,
            session,
            id=ids.session_workflow(session),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            task_timeout=workflow.info().task_timeout,
            static_summary="subagent",
        )
    except WorkflowAlreadyStartedError:
        pass  # somebody rang for it first
    except ChildWorkflowError:
        workflow.logger.warning("a subagent's session was not started; the reconciler rings for it")


async def collected(call: OpenCall, wakes: Callable[[], int], given_up: Callable[[], bool]) -> None:
    """Returns when the call has its result in the ledger, or its time is over; costs no worker slot meanwhile."""
    assert call.until is not None
    while not given_up():
        heard = wakes()  # before the rows are asked: a wake-up meanwhile asks again
        left = call.until - workflow.now()
        if await calls.collect(Collect(call=call.plan.id, last=left <= timedelta(0))):
            return
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda heard=heard: wakes() != heard or given_up(),  # type: ignore[misc]
                timeout=max(left, timedelta(milliseconds=1)),
                timeout_summary=f"{call.plan.tool} waits for a subagent",
            )
