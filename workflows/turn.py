"""A Turn is the step loop: model, tool calls, results, model, until an answer; and nothing else.

The conversation stays in SQL; here are ids, counters and which calls are open. A step runs as one task, so that a stop
can cancel it; beside it `_attend` answers wake-ups by looking at the rows. Every way out of the loop leads to one
`finish_turn`, whose transaction is the turn's only terminal event.
"""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from workflows import approval, calls
from workflows.state import OpenCall, TurnState, TurnStatus

with workflow.unsafe.imports_passed_through():
    from activities.model import CallPlan, ModelStep
    from activities.turns import Ending
    from roundturn.approval import SignalledVerdict
    from roundturn.event import TurnState as EndState

MOST_PARALLEL_CALLS = 64  # the commands of one workflow task share 4 MiB


class Ended(Exception):  # noqa: N818 - a way out of the loop, not an error
    def __init__(self, state: EndState, reason: str = "") -> None:
        self.state = state
        self.reason = reason


@workflow.defn(name="Turn")
class Turn:
    @workflow.init
    def __init__(self, state: TurnState) -> None:
        self._state = state
        self._phase = "starting"
        # What happened before this run began is in the rows: a continued run looks, a first one is told by its steps.
        self._woken = bool(state.step or state.calls)
        self._running = 0  # tool calls in flight, as opposed to waiting for a person
        self._decided: set[str] = set()
        self._stopped: Ended | None = None
        self._slots = asyncio.Semaphore(MOST_PARALLEL_CALLS)

    @workflow.signal
    def wake(self) -> None:
        self._woken = True

    @workflow.signal
    def verdict(self, payload: Any) -> None:
        approval.keep_offer(self._state, payload)

    @workflow.query
    def status(self) -> TurnStatus:
        waiting = [
            f"{call.plan.tool}: approval {call.approval}" for call in self._state.calls if call.approval
        ]
        return TurnStatus(phase=self._phase, step=self._state.step, waiting_for=waiting)

    @workflow.run
    async def run(self, state: TurnState) -> None:
        attend = asyncio.create_task(self._attend())
        try:
            ended = await self._until_ended(attend)
        except asyncio.CancelledError:
            ended = Ended("cancelled", "its workflow was cancelled from outside")
        except ActivityError as failed:
            ended = _failure(failed)
        except Exception as defect:  # noqa: BLE001 - a defect of ours ends the turn with its name, never hangs it (P109)
            workflow.logger.exception("turn failed by a defect")
            ended = Ended("failed", f"defect: {type(defect).__name__}")
        attend.cancel()
        self._phase = "ended"
        await calls.finish_turn(
            Ending(turn=state.turn, state=ended.state, reason=ended.reason, steps=self._state.step)
        )

    async def _until_ended(self, attend: asyncio.Task[None]) -> Ended:
        while True:
            step = asyncio.create_task(self._step())
            try:
                await workflow.wait_condition(
                    lambda: (
                        step.done() or attend.done() or self._stopped is not None or self._may_roll_waiting()
                    )
                )
            except asyncio.CancelledError:
                await _cancelled(step)
                raise
            if attend.done() and not step.done():
                await _cancelled(step)
                attend.result()
            if self._stopped is not None:
                await _cancelled(step)
                return self._stopped
            if step.done():
                try:
                    step.result()
                except Ended as ended:
                    return ended
                self._state.step += 1
            else:
                await _cancelled(step)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)

    def _may_roll_waiting(self) -> bool:
        """While every open call waits for a person, a long wait with many wake-ups may continue as new (Q-04)."""
        all_wait = (
            bool(self._state.calls)
            and self._running == 0
            and all(call.approval for call in self._state.calls)
        )
        return all_wait and workflow.info().is_continue_as_new_suggested()

    async def _step(self) -> None:
        """One model call and the tool calls it asked for; raises `Ended` when there is nothing more to do."""
        if not self._state.calls:  # a run that was continued while its calls waited goes on with them
            self._state.calls = [OpenCall(plan=plan) for plan in await self._ask_model()]
        opened = list(self._state.calls)
        self._phase = "tools"
        beside = all(call.plan.brief for call in opened)
        results = await asyncio.gather(
            *(self._settle(call, beside) for call in opened), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _ask_model(self) -> tuple[CallPlan, ...]:
        if self._state.step >= self._state.max_steps:
            raise Ended("incomplete", f"max_steps: {self._state.max_steps} steps were used up")
        self._phase = "model"
        while True:
            said = await calls.call_model(
                ModelStep(turn=self._state.turn, step=self._state.step), self._state.options
            )
            match said.kind:
                case "calls":
                    return said.calls
                case "final":
                    self._state.step += 1
                    raise Ended("completed")
                case "cut" | "filtered":
                    self._state.step += 1
                    raise Ended("incomplete", said.reason)
                case "refused":
                    raise Ended("failed", said.reason)
                case "limited":
                    self._phase = "rate limited"
                    await workflow.sleep(
                        timedelta(seconds=said.wait_s), summary="the model endpoint asked to wait"
                    )
                case "fenced":
                    await self._explained()

    async def _settle(self, call: OpenCall, beside: bool) -> None:
        """A call until it has its result in the ledger, over as many approvals as it takes."""
        while True:
            if call.approval:
                await approval.decided(call, self._decided)
            grant, call.approval = call.approval or None, ""
            self._running += 1
            try:
                async with self._slots:
                    if beside and grant is None:
                        outcome = await calls.call_tool_beside(call.plan, self._state.options)
                    else:
                        outcome = await calls.call_tool(call.plan, grant, self._state.options)
            finally:
                self._running -= 1
            if outcome.status == "fenced":
                await self._explained()
            if outcome.status != "suspended":
                self._state.calls.remove(call)
                return
            approval.suspend(call, outcome.approval_id, outcome.expires_at)
            self._woken = True  # it may have been decided before we heard of it

    async def _attend(self) -> None:
        """Answers wake-ups for as long as the turn runs: is it stopped, is something decided, is a verdict offered."""
        while True:
            await workflow.wait_condition(lambda: self._woken or self._offer() is not None)
            if (offer := self._offer()) is not None:
                await calls.offer_verdict(offer)
                self._state.offers.remove(offer)
            self._woken = False
            seen = await calls.look(self._state.turn)
            self._decided.update(seen.decided)
            if not seen.running:
                self._stopped = Ended("failed", "its row was settled by somebody else")
            elif seen.stop_origin is not None:
                self._stopped = Ended("cancelled", f"stopped by {seen.stop_origin}")

    def _offer(self) -> SignalledVerdict | None:
        return approval.next_offer(self._state, calls_in_flight=self._running > 0 or self._phase == "model")

    async def _explained(self) -> None:
        """An activity found the turn's row closed or stopping: look, and wait until `_attend` has said so."""
        self._woken = True
        await workflow.wait_condition(lambda: self._stopped is not None)
        assert self._stopped is not None
        raise self._stopped


async def _cancelled(step: asyncio.Task[None]) -> None:
    """Cancels a step and waits until its activities have ended; what it raised then no longer matters."""
    step.cancel()
    await workflow.wait([step])
    if not step.cancelled():
        step.exception()


def _failure(failed: ActivityError) -> Ended:
    if is_cancelled_exception(failed):
        return Ended("cancelled", "its workflow was cancelled from outside")
    cause = failed.cause
    kind = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
    return Ended("failed", f"{failed.activity_type} failed: {kind}: {cause}"[:300])
