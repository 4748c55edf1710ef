"""A Session hands the rows of its inbox to Turns, one at a time, and completes when the inbox is empty.

A message is a row before the doorbell rings, so the doorbell carries nothing and may be lost or repeated. The one rule:
the flag is cleared before the inbox is asked, by itself or by a turn's last transaction, and an empty answer ends the
workflow only while the flag is still clear, with no await in between. Whoever rings after that starts the workflow anew.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, ChildWorkflowError, WorkflowAlreadyStartedError

from workflows import calls
from workflows.state import TurnState
from workflows.turn import Turn

with workflow.unsafe.imports_passed_through():
    from activities.inbox import Pause, TakenItem
    from activities.turns import Ending
    from roundturn import ids

TURNS_IN_ONE_RUN = 200
LONGEST_LOOK = timedelta(seconds=60)


@workflow.defn(name="Session")
class Session:
    @workflow.init
    def __init__(self, session: str) -> None:
        self._session = session
        self._rung = False

    @workflow.signal
    def doorbell(self) -> None:
        self._rung = True

    @workflow.run
    async def run(self, session: str) -> None:
        for _ in range(TURNS_IN_ONE_RUN):
            self._rung = False
            item = await calls.next_inbox_item(session)
            if isinstance(item, TakenItem):
                was_last = await self._turn(item)
                if was_last and not self._rung:
                    return
            elif isinstance(item, Pause):
                await self._rung_within(timedelta(seconds=item.pause_s))
            elif not self._rung:
                return
            if workflow.info().is_continue_as_new_suggested():
                break
        workflow.continue_as_new(session)

    async def _turn(self, item: TakenItem) -> bool:
        """True when the turn's last transaction found the inbox empty: the flag is older than that."""
        try:
            turn = await workflow.start_child_workflow(
                Turn.run,
                TurnState(turn=item.turn, max_steps=item.max_steps, options=item.options),
                id=ids.turn_workflow(item.turn),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                task_timeout=workflow.info().task_timeout,
                static_summary=item.agent,
            )
        except WorkflowAlreadyStartedError:
            await self._await_settlement(item)  # an earlier Session started it and was ended from outside
            return False
        except ChildWorkflowError:
            await calls.note_failed_start(item.turn)
            return False
        try:
            return await turn
        except ChildWorkflowError as closed:
            if isinstance(closed.cause, CancelledError):
                # We were cancelled, the turn was not: stopping it is a row. It is one turn at a time all the same.
                await self._await_settlement(item)
                return False
            reason = f"its workflow did not end by itself: {type(closed.cause).__name__}"
            await calls.finish_turn(Ending(turn=item.turn, state="failed", reason=reason, steps=0))
            return False

    async def _await_settlement(self, item: TakenItem) -> None:
        """The turn's own last transaction, or the reconciler, settles the row; nobody tells us, so look."""
        pause = timedelta(seconds=1)
        while isinstance(again := await calls.next_inbox_item(self._session), TakenItem):
            if again.turn != item.turn:
                return
            self._rung = False
            if not await self._rung_within(pause):
                pause = min(pause * 2, LONGEST_LOOK)

    async def _rung_within(self, limit: timedelta) -> bool:
        try:
            await workflow.wait_condition(lambda: self._rung, timeout=limit)
        except asyncio.TimeoutError:
            return False
        return True
