"""A Turn is the step loop: model, tool calls, results, model, until an answer; and nothing else.

The conversation stays in SQL; here are ids, counters and which calls are open. A step runs as one task, so that a stop
can cancel it; beside it `_attend` answers wake-ups by looking at the rows. Every way out of the loop leads to one
`finish_turn`, whose transaction is the turn's only terminal event.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from workflows import approval, calls, delegation
from workflows.state import OpenCall, TurnState, TurnStatus

with workflow.unsafe.imports_passed_through():
    from activities.model import CallPlan, ModelStep
    from activities.tools import BriefCalls, ToolOutcome
    from activities.turns import Ending, LookAt
    from roundturn import ids
    from roundturn.event import RunState
    from roundturn.tool import Directive

MOST_RATE_LIMITS = 24  # long waits of one model call; shorter ones are the activity's attempts
MOST_PARALLEL_CALLS = 64  # the commands of one workflow task share 4 MiB


class Ended(Exception):  # noqa: N818 - a way out of the loop, not an error
    def __init__(self, state: RunState, reason: str = "") -> None:
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
        self._wakes = 0
        self._running = 0  # tool calls in flight, as opposed to waiting for a person
        self._lost = False  # a call failed for good, so that the turn will
        self._decided: set[str] = set()
        self._stopped: Ended | None = None
        self._slots = asyncio.Semaphore(MOST_PARALLEL_CALLS)

    @workflow.signal
    def wake(self) -> None:
        self._woken = True
        self._wakes += 1

    @workflow.signal
    def verdict(self, *payloads: Any) -> None:
        """Whatever number comes: a handler that raised would stop the turn for good (P109)."""
        if len(payloads) == 1:
            approval.keep_offer(self._state, payloads[0])

    @workflow.query
    def status(self) -> TurnStatus:
        waiting = [
            f"{call.plan.tool}: {f'approval {call.approval}' if call.approval else 'a subagent'}"
            for call in self._state.calls
            if call.waits
        ]
        return TurnStatus(phase=self._phase, step=self._state.step, waiting_for=waiting)

    @workflow.run
    async def run(self, state: TurnState) -> bool:
        """Whether the session's inbox was empty when the turn ended."""
        attend = asyncio.create_task(self._attend())
        try:
            ended = await self._until_ended()
        except Exception as fault:  # noqa: BLE001 - whatever it was, the turn ends with its name (P109)
            ended = _ended_by(fault)
        except asyncio.CancelledError:
            ended = Ended("cancelled", "its workflow was cancelled from outside")
        attend.cancel()
        self._phase = "ended"
        return await _finished(
            Ending(turn=state.turn, state=ended.state, reason=ended.reason, steps=self._state.step)
        )

    async def _until_ended(self) -> Ended:
        while True:
            step = asyncio.create_task(self._step())
            try:
                await workflow.wait_condition(
                    lambda: step.done() or self._stopped is not None or self._may_roll_waiting()
                )
            except asyncio.CancelledError:
                await _cancelled(step)
                raise
            if step.done():
                if (ended := _way_out(step)) is not None:
                    return ended
                self._state.step += 1
                self._state.offers.clear()  # no call is left that one of them could be for
            else:  # it is stopped, or rolls over while all its calls wait
                await _cancelled(step)
            if self._stopped is not None:
                return self._stopped
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)

    def _may_roll_waiting(self) -> bool:
        """While every open call waits, a long wait with many wake-ups may continue as new (Q-04)."""
        all_wait = (
            bool(self._state.calls) and self._running == 0 and all(call.waits for call in self._state.calls)
        )
        return all_wait and workflow.info().is_continue_as_new_suggested()

    async def _step(self) -> None:
        """One model call and the tool calls it asked for; raises `Ended` when there is nothing more to do."""
        if not self._state.calls:  # a run that was continued while its calls waited goes on with them
            self._state.calls = [OpenCall(plan=plan) for plan in await self._ask_model()]
        opened = list(self._state.calls)
        self._phase = "tools"
        brief = await self._brief(opened) if all(call.plan.brief for call in opened) else {}
        results = await asyncio.gather(
            *(self._settle(call, brief.get(call.plan.id)) for call in opened), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _ask_model(self) -> tuple[CallPlan, ...]:
        if self._state.step >= self._state.max_steps:
            raise Ended("incomplete", f"max_steps: {self._state.max_steps} steps were used up")
        at = ModelStep(turn=self._state.turn, step=self._state.step)
        for _ in range(MOST_RATE_LIMITS):
            self._phase = "model"
            said = await calls.call_model(at, self._state.options)
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
        raise Ended("incomplete", f"limited: the endpoint asked {MOST_RATE_LIMITS} times in a row to wait")

    async def _brief(self, opened: list[OpenCall]) -> dict[str, ToolOutcome]:
        """The first outcome of each call of a step that is all brief, made together beside the workflow."""
        plans = [call.plan for call in opened if not call.waits]
        if not plans:
            return {}
        indexes = tuple(ids.CallPosition.parse(plan.id).index for plan in plans)
        brief = BriefCalls(turn=self._state.turn, step=self._state.step, indexes=indexes)
        self._running += 1
        try:
            done = await calls.call_brief_tools(brief, {plan.tool for plan in plans})
        finally:
            self._running -= 1
        return {plan.id: outcome for plan, outcome in zip(plans, done, strict=True) if outcome is not None}

    async def _settle(self, call: OpenCall, outcome: ToolOutcome | None) -> None:
        """A call until it has its result in the ledger, over as many approvals as it takes; `outcome`: its first."""
        try:
            while True:
                if call.approval:
                    await approval.decided(call, self._decided, lambda: self._lost)
                if call.until is not None:
                    await delegation.collected(call, lambda: self._wakes, lambda: self._lost)
                if self._lost:
                    return  # a sibling failed for good: nobody is asked for a turn that is over
                if call.until is not None:
                    self._state.calls.remove(call)
                    return
                grant, call.approval = call.approval or None, ""
                outcome = outcome or await self._call(call, grant)
                if outcome.status == "fenced":
                    await self._explained()
                if outcome.status == "suspended":
                    approval.suspend(call, outcome)
                    self._woken = True  # it may have been decided before we heard of it
                    outcome = None
                    continue
                asked = outcome.directive or Directive()
                if asked.start:
                    await delegation.start(asked.start)
                if asked.wait_s is None:
                    self._state.calls.remove(call)
                    return
                call.until = workflow.now() + timedelta(seconds=asked.wait_s)
        except BaseException:
            self._lost = True
            raise

    async def _call(self, call: OpenCall, grant: str | None) -> ToolOutcome:
        self._running += 1
        try:
            async with self._slots:
                return await calls.call_tool(call.plan, grant, self._state.options)
        finally:
            self._running -= 1

    async def _attend(self) -> None:
        """Answers wake-ups for as long as the turn runs: is it stopped, is something decided, is a verdict offered."""
        try:
            while True:
                await workflow.wait_condition(
                    lambda: self._woken or approval.offered(self._state) is not None
                )
                if (offer := approval.offered(self._state)) is not None:
                    await calls.offer_verdict(offer)
                    self._state.offers.remove(offer)
                self._woken = False
                waiting = tuple(call.approval for call in self._state.calls if call.approval)
                seen = await calls.look(LookAt(turn=self._state.turn, waiting=waiting))
                self._decided.update(seen.decided)
                if not seen.running:
                    self._stopped = Ended("failed", "its row was settled by somebody else")
                elif seen.stop_origin is not None:
                    self._stopped = Ended("cancelled", f"stopped by {seen.stop_origin}")
        except Exception as fault:  # noqa: BLE001 - whatever it was, the turn ends with its name (P109)
            self._stopped = _ended_by(fault)

    async def _explained(self) -> NoReturn:
        """An activity found the turn's row closed or stopping: look, and wait until `_attend` has said so."""
        self._woken = True
        await workflow.wait_condition(lambda: self._stopped is not None)
        assert self._stopped is not None
        raise self._stopped


def _way_out(step: asyncio.Task[None]) -> Ended | None:
    """How the step ended the turn, None when the next one follows. Raises what it failed by."""
    try:
        step.result()
    except Ended as ended:
        return ended
    return None


async def _cancelled(step: asyncio.Task[None]) -> None:
    """Cancels a step and waits until its activities have ended, also when we are cancelled meanwhile."""
    step.cancel()
    while not step.done():
        with suppress(asyncio.CancelledError):
            await workflow.wait([step])
    if not step.cancelled():
        step.exception()  # what it raised no longer matters


async def _finished(ending: Ending) -> bool:
    """The last transaction is repeated when a cancellation falls into it: it changes nothing the second time."""
    while True:
        try:
            return await calls.finish_turn(ending)
        except (asyncio.CancelledError, ActivityError) as cut:
            if not is_cancelled_exception(cut):
                raise


def _ended_by(fault: Exception) -> Ended:
    """A fault that nobody caught ends the turn with its name; it never leaves it hanging (P109)."""
    if is_cancelled_exception(fault):
        return Ended("cancelled", "its workflow was cancelled from outside")
    where = f"{fault.activity_type} failed: " if isinstance(fault, ActivityError) else ""
    cause = (fault.cause if isinstance(fault, ActivityError) else None) or fault
    if isinstance(cause, FailureError):
        kind = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
        return Ended("failed", f"{where}{kind}: {cause.message}"[:300])
    workflow.logger.error("turn failed by a defect", exc_info=fault)
    return Ended("failed", f"defect: {type(cause).__name__}")
