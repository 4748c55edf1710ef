"""Every activity that a workflow calls, with its limits and retries; the only file here that names activities.

The numbers are measured ones (design section 3): control SQL is local and never gives up; model and tool calls have
finite attempts and a heartbeat; a payload that is too big is never tried again.
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, CancelledError

with workflow.unsafe.imports_passed_through():
    from activities.failures import NEVER_RETRIED
    from activities.inbox import CallOptions, InboxActivities, Pause, TakenItem
    from activities.model import CallPlan, ModelActivities, ModelOutcome, ModelStep
    from activities.reconcile import ReconcileActivities, Repairs
    from activities.tools import BriefCalls, ToolActivities, ToolOutcome, ToolStep
    from activities.turns import Collect, Ending, Look, LookAt, TurnActivities
    from roundturn.approval import SignalledVerdict
    from roundturn.tool import Effect

Returned = TypeVar("Returned")

CONTROL = workflow.LocalActivityConfig(
    start_to_close_timeout=timedelta(seconds=10),
    local_retry_threshold=timedelta(seconds=1),
    retry_policy=RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        maximum_interval=timedelta(seconds=10),
        non_retryable_error_types=NEVER_RETRIED,
    ),
)
LONGEST_SUMMARY = 100
BRIEF_LIMIT = timedelta(seconds=5)
TOOL_ATTEMPTS = 100  # only a store or server that is away, or a worker's death, uses one up
QUICK_S = 30  # a side effect that may take longer has a queue of its own, so that it delays nobody
GRACE = timedelta(seconds=60)  # what an attempt may need beyond the tool's own limit: store, claim, shutdown


async def next_inbox_item(session: str) -> TakenItem | Pause | None:
    return await workflow.execute_local_activity_method(InboxActivities.next_inbox_item, session, **CONTROL)


async def note_failed_start(turn: str) -> bool:
    return await workflow.execute_local_activity_method(InboxActivities.note_failed_start, turn, **CONTROL)


async def look(at: LookAt) -> Look:
    return await workflow.execute_local_activity_method(TurnActivities.look, at, **CONTROL)


async def offer_verdict(offer: SignalledVerdict) -> None:
    await workflow.execute_local_activity_method(TurnActivities.offer_verdict, offer, **CONTROL)


async def expire_approval(approval: str) -> bool:
    return await workflow.execute_local_activity_method(TurnActivities.expire_approval, approval, **CONTROL)


async def collect(wanted: Collect) -> bool:
    return await workflow.execute_local_activity_method(TurnActivities.collect, wanted, **CONTROL)


async def finish_turn(ending: Ending) -> bool:
    """Whether the session's inbox is empty now."""
    return await workflow.execute_local_activity_method(TurnActivities.finish_turn, ending, **CONTROL)


async def call_model(at: ModelStep, options: CallOptions) -> ModelOutcome:
    """Cancellation waits until the stream is closed."""
    call = workflow.execute_activity_method(
        ModelActivities.call_model,
        at,
        start_to_close_timeout=timedelta(seconds=options.model_limit_s) + GRACE,
        heartbeat_timeout=timedelta(seconds=options.heartbeat_s),
        retry_policy=RetryPolicy(
            maximum_attempts=options.model_attempts, non_retryable_error_types=NEVER_RETRIED
        ),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"step {at.step}",
    )
    return await _or_cancelled(call)


async def call_brief_tools(brief: BriefCalls, tools: set[str]) -> list[ToolOutcome | None]:
    """Brief pure calls in one local activity; None: not done in time there, a normal one does it once more."""
    try:
        return await workflow.execute_local_activity_method(
            ToolActivities.call_tools,
            brief,
            start_to_close_timeout=BRIEF_LIMIT,
            retry_policy=RetryPolicy(maximum_attempts=1),
            summary=", ".join(sorted(tools))[:LONGEST_SUMMARY],
        )
    except ActivityError as failed:
        if isinstance(failed.cause, CancelledError):
            raise
        return [None] * len(brief.indexes)


async def call_tool(plan: CallPlan, grant: str | None, options: CallOptions) -> ToolOutcome:
    call = workflow.execute_activity_method(
        ToolActivities.call_tool,
        ToolStep(call=plan.id, grant=grant),
        task_queue=None if plan.effect is Effect.PURE or plan.limit_s <= QUICK_S else options.tools_queue,
        start_to_close_timeout=timedelta(seconds=plan.limit_s) + GRACE,
        heartbeat_timeout=timedelta(seconds=options.heartbeat_s),
        retry_policy=RetryPolicy(
            initial_interval=timedelta(milliseconds=200),
            maximum_interval=timedelta(seconds=10),
            maximum_attempts=TOOL_ATTEMPTS,
            non_retryable_error_types=NEVER_RETRIED,
        ),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=plan.tool,
    )
    return await _or_cancelled(call)


async def reconcile() -> Repairs:
    return await workflow.execute_activity_method(
        ReconcileActivities.reconcile,
        start_to_close_timeout=timedelta(seconds=60),
        retry_policy=RetryPolicy(maximum_attempts=3),
    )


async def _or_cancelled(call: Awaitable[Returned]) -> Returned:
    """Temporal drops the cancellation of an activity that ends well in spite of it: whoever waited must not go on."""
    done = await call
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    return done
