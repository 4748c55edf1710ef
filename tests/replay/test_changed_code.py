"""Code that was changed under open runs: what breaks them is found before a deploy, what does not is let through (P105)."""

from datetime import timedelta

import pytest
from temporalio import workflow

from gateway.replay import Difference, replay
from tests.replay import stored
from tests.requirements import requirement
from workflows import calls
from workflows.reconcile import Reconcile
from workflows.session import Session
from workflows.state import OpenCall, TurnState
from workflows.turn import Turn

with workflow.unsafe.imports_passed_through():
    from activities.model import CallPlan
    from activities.tools import ToolOutcome
    from activities.turns import LookAt


@workflow.defn(name="Turn", sandboxed=False)
class OneMoreActivity(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        await calls.look(LookAt(turn=state.turn, waiting=()))
        await super().run(state)


@workflow.defn(name="Turn", sandboxed=False)
class OneMoreTimer(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        await workflow.sleep(timedelta(seconds=1))
        await super().run(state)


@workflow.defn(name="Turn", sandboxed=False)
class OneMoreActivityForNewRuns(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        if workflow.patched("look-first"):
            await calls.look(LookAt(turn=state.turn, waiting=()))
        await super().run(state)


@workflow.defn(name="Turn", sandboxed=False)
class OneMoreLineInTheLog(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        workflow.logger.info("a turn of %s steps at most", state.max_steps)
        await super().run(state)


@workflow.defn(name="Turn", sandboxed=False)
class OneMoreRandomNumber(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        workflow.random().randint(0, 9)
        workflow.uuid4()
        await super().run(state)


@workflow.defn(name="Turn", sandboxed=False)
class AsksTwice(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        await super().run(state)

    async def _ask_model(self) -> tuple[CallPlan, ...]:
        await super()._ask_model()
        return await super()._ask_model()


@workflow.defn(name="Turn", sandboxed=False)
class CallsBeside(Turn):
    """Every call as a local activity."""

    @workflow.run
    async def run(self, state: TurnState) -> None:
        await super().run(state)

    async def _call(self, call: OpenCall, grant: str | None, beside: bool) -> ToolOutcome:
        return await super()._call(call, grant, beside=True)


@workflow.defn(name="Turn", sandboxed=False)
class Broken(Turn):
    @workflow.run
    async def run(self, state: TurnState) -> None:
        raise ValueError("not this way")


async def difference(name: str, changed: type) -> Difference | None:
    (found,) = await replay([stored.history(name)], sandboxed=False, workflows=[Session, changed, Reconcile])
    return found.difference


@requirement("P105", "Q-05")
@pytest.mark.parametrize(
    "name", ["turn-plain-answer", "turn-still-waiting", "turn-continued-while-waiting.1"]
)
@pytest.mark.parametrize("changed", [OneMoreActivity, OneMoreTimer])
async def test_one_more_command_is_a_difference_in_closed_and_open_runs(name: str, changed: type) -> None:
    found = await difference(name, changed)
    assert found is not None
    assert (found.event, found.recorded) == (5, "ActivityTaskScheduled call_model")
    assert "patched" in found.hint
    if changed is OneMoreTimer:
        assert found.code.startswith("starts a timer")


@requirement("P105")
async def test_another_order_and_another_kind_of_call_are_differences() -> None:
    order = await difference("turn-still-waiting", AsksTwice)
    assert order is not None
    assert "'call_tool' does not match activity type of activity command 'call_model'" in order.code
    kind = await difference("turn-still-waiting", CallsBeside)
    assert kind is not None
    assert kind.recorded == "ActivityTaskScheduled call_tool"


@requirement("P105")
@pytest.mark.parametrize("name", stored.names())
@pytest.mark.parametrize("changed", [OneMoreActivityForNewRuns, OneMoreLineInTheLog, OneMoreRandomNumber])
async def test_a_patch_a_line_in_the_log_and_a_random_number_are_none(name: str, changed: type) -> None:
    assert await difference(name, changed) is None


async def test_code_that_fails_and_a_type_that_is_not_there_are_named() -> None:
    failing = await difference("turn-plain-answer", Broken)
    assert failing is not None
    assert (failing.event, failing.code) == (None, "fails: not this way")
    (unknown,) = await replay([stored.history("turn-plain-answer")], sandboxed=False, workflows=[Session])
    assert unknown.difference is not None
    assert unknown.difference.code == "has no workflow type Turn"
