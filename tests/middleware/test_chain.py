"""The chain as a whole: its order, what a layer may do, and a call that goes through all of them."""

import asyncio
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from roundturn.call import CallContext, Middleware, Next, Status, ToolExecutionResult
from roundturn.errors import AuthorError, Unavailable
from roundturn.registry import ToolRegistry
from roundturn.rules import Policy
from roundturn.tool import ToolResult
from tests.middleware.scene import CALL, Bench, Change, Look, context
from tests.requirements import requirement

ALLOWED = Policy(allow=("*",))


@requirement("M-12", "M-22")
def test_the_chain_stands_in_its_documented_order() -> None:
    async def mine(ctx: CallContext, next: Next) -> ToolExecutionResult:
        return await next(ctx)

    assert Bench(extra=(mine,)).registry.chain == [
        "audit", "recovery", "shaping", "mine", "focus", "validation", "published", "policy", "action_budget", "approval", "claim",
    ]  # fmt: skip


@requirement("M-03", "M-20")
async def test_layers_are_entered_in_order_of_registration_and_left_in_reverse() -> None:
    seen: list[str] = []

    def layer(name: str) -> Any:
        async def run(ctx: CallContext, next: Next) -> ToolExecutionResult:
            seen.append(f"{name} before")
            result = await next(ctx)
            seen.append(f"{name} after")
            return result

        return run

    class Seen(Look):
        async def execute(self, arguments: Any, context: Any) -> ToolResult:
            seen.append("tool")
            return ToolResult(output="x")

    registry = ToolRegistry()
    registry.register(Seen())
    registry.use(layer("first"))
    registry.use(layer("second"))
    await registry.execute(context("look"))
    assert seen == ["first before", "second before", "tool", "second after", "first after"]


@requirement("M-05", "M-20")
async def test_a_layer_that_does_not_go_on_keeps_everything_inside_from_running() -> None:
    tool, entered = Change(), []

    async def stop(ctx: CallContext, next: Next) -> ToolExecutionResult:
        return ToolExecutionResult.denied("no", "tool_policy_denied")

    async def inner(ctx: CallContext, next: Next) -> ToolExecutionResult:
        entered.append(ctx)
        return await next(ctx)

    registry = ToolRegistry()
    registry.register(tool)
    registry.use(stop)
    registry.use(inner)
    result = await registry.execute(context("change"))
    assert result.status == "denied"
    assert tool.runs == []
    assert entered == []


@requirement("M-02")
async def test_a_function_of_five_lines_is_a_middleware() -> None:
    async def loud(ctx: CallContext, next: Next) -> ToolExecutionResult:
        result = await next(ctx)
        loud_result = result.result.model_copy(update={"output": result.result.output.upper()})
        return result.model_copy(update={"result": loud_result})

    bench = Bench(Look("quiet"), extra=(loud,))
    assert (await bench.call("look")).result.output == "QUIET"


@requirement("M-04", "M-20")
async def test_without_middleware_the_chain_is_the_tool_with_its_output_wrapped() -> None:
    registry = ToolRegistry()
    registry.register(Change("plain"))
    result = await registry.execute(context("change", {"text": "a"}))
    assert result == ToolExecutionResult.completed(ToolResult(output="plain"))


@requirement("M-06")
async def test_a_probe_sees_all_seven_fields_for_every_call() -> None:
    seen: list[CallContext] = []

    async def probe(ctx: CallContext, next: Next) -> ToolExecutionResult:
        seen.append(ctx)
        return await next(ctx)

    bench = Bench(Look(), Change(), extra=(probe,))
    await bench.call("look", {"text": "a"}, metadata={"trace": "t"})
    await bench.call("invented", {"x": 1}, metadata={"trace": "t"})
    for ctx, name in zip(seen, ("look", "invented"), strict=True):
        assert ctx.tool_call_id == CALL
        assert ctx.tool_name == name
        assert ctx.arguments
        assert ctx.session.session
        assert ctx.workdir.is_absolute()
        assert ctx.visible_tool_names
        assert ctx.metadata == {"trace": "t"}


@requirement("M-06")
def test_metadata_is_an_empty_mapping_unless_given_and_the_context_cannot_be_changed() -> None:
    ctx = context("look")
    assert ctx.metadata == {}
    with pytest.raises(AttributeError):
        ctx.tool_name = "other"  # type: ignore[misc]
    assert ctx.with_(tool_name="other").tool_name == "other"
    assert ctx.tool_name == "look"


@requirement("M-07")
def test_there_are_exactly_three_statuses_each_with_its_factory() -> None:
    assert set(get_args(Status)) == {"completed", "denied", "suspended"}
    made = [
        ToolExecutionResult.completed(ToolResult(output="")),
        ToolExecutionResult.denied("no", "x"),
        ToolExecutionResult.suspended("ap_1", datetime(2099, 1, 1, tzinfo=UTC)),
    ]
    assert [result.status for result in made] == ["completed", "denied", "suspended"]
    with pytest.raises(ValidationError):
        ToolExecutionResult(status="running", result=ToolResult(output=""))  # type: ignore[arg-type]


@requirement("M-08")
def test_a_denial_has_a_text_for_the_model_and_its_class_as_metadata() -> None:
    denied = ToolExecutionResult.denied("Denied by rule x.", "tool_policy_denied", rule_id="x")
    assert denied.result == ToolResult(output="Denied by rule x.", is_error=True)
    assert denied.metadata == {"error_type": "tool_policy_denied", "rule_id": "x"}


@requirement("M-23")
async def test_a_tool_that_raises_becomes_an_audited_classified_result_and_nothing_to_try_again() -> None:
    tool = Change(fault=ValueError("bad luck"))
    bench = Bench(tool)
    result = await bench.call("change", policy=ALLOWED)
    assert (result.status, result.result.is_error) == ("completed", True)
    assert result.result.output == "ValueError: bad luck"
    assert result.metadata["error_type"] == "tool_error"
    assert [(each.status, each.error_type) for each in bench.ledger.audited] == [("completed", "tool_error")]
    assert len(tool.runs) == 1
    await bench.call("change", policy=ALLOWED)
    assert len(tool.runs) == 1, "a result stands: the tool is not run again"


@requirement("M-24")
async def test_going_in_again_after_a_yes_runs_once_and_shows_two_attempts() -> None:
    tool = Change()
    bench = Bench(tool)
    first = await bench.call("change", {"text": "a"})
    assert first.status == "suspended"
    assert tool.runs == []
    approval = first.suspension.approval
    bench.approvals.answer(approval, "approved")
    second = await bench.call("change", {"text": "a"}, grant=approval)
    assert (second.status, second.result.output) == ("completed", "changed")
    assert [run.text for run in tool.runs] == ["a"]
    attempts = [(each.id, each.status, each.grant) for each in bench.ledger.audited]
    assert attempts == [("attempt1", "suspended", None), ("attempt2", "completed", approval)]


@requirement("M-25", "P37")
async def test_an_old_grant_with_changed_arguments_is_a_new_suspension() -> None:
    tool = Change()
    bench = Bench(tool)
    first = (await bench.call("change", {"text": "a"})).suspension.approval
    bench.approvals.answer(first, "approved")
    second = await bench.call("change", {"text": "b"}, grant=first)
    assert second.status == "suspended"
    assert second.suspension.approval != first
    assert tool.runs == []


def rewriting(*words: str) -> Middleware:
    """Puts the next of `words` into the arguments, each time it is asked."""
    left = iter(words)

    async def rewrite(ctx: CallContext, next: Next) -> ToolExecutionResult:
        return await next(ctx.with_(arguments={**ctx.arguments, "text": left.__next__()}))

    return rewrite


@requirement("P37")
async def test_what_a_middleware_rewrites_is_what_is_asked_about_and_what_runs() -> None:
    tool = Change()
    bench = Bench(tool, extra=(rewriting("rewritten", "rewritten"),))
    approval = (await bench.call("change", {"text": "original"})).suspension.approval
    assert bench.approvals.rows[approval].arguments["text"] == "rewritten"
    bench.approvals.answer(approval, "approved")
    assert (await bench.call("change", {"text": "original"}, grant=approval)).status == "completed"
    assert [run.text for run in tool.runs] == ["rewritten"]


@requirement("P37")
async def test_what_a_middleware_rewrites_differently_after_the_yes_is_asked_about_anew() -> None:
    tool = Change()
    bench = Bench(tool, extra=(rewriting("seen", "not seen"),))
    approval = (await bench.call("change", {"text": "original"})).suspension.approval
    bench.approvals.answer(approval, "approved")
    again = await bench.call("change", {"text": "original"}, grant=approval)
    assert (again.status, len(bench.approvals.rows)) == ("suspended", 2)
    assert tool.runs == []


@requirement("P37")
def test_nothing_gets_inside_the_approval_once_the_chain_stands() -> None:
    async def late(ctx: CallContext, next: Next) -> ToolExecutionResult:
        return await next(ctx)

    with pytest.raises(AuthorError, match="chain is closed"):
        Bench().registry.use(late)


@requirement("R-01")
async def test_a_call_that_a_layer_renames_is_judged_as_the_tool_that_would_run() -> None:
    async def rename(ctx: CallContext, next: Next) -> ToolExecutionResult:
        return await next(ctx.with_(tool_name="change"))

    tool = Change()
    bench = Bench(Look(), tool, extra=(rename,))
    assert (await bench.call("look")).status == "suspended"
    denied = await bench.call("look", policy=Policy(deny=("change",)))
    assert denied.status == "denied"
    assert tool.runs == []


@requirement("M-15")
@pytest.mark.parametrize(
    ("policy", "status"), [(ALLOWED, "completed"), (Policy(deny=("*",)), "denied"), (Policy(), "suspended")]
)
async def test_every_attempt_is_audited_with_outcome_and_duration(policy: Policy, status: str) -> None:
    bench = Bench(Change())
    await bench.call("change", policy=policy)
    (attempt,) = bench.ledger.audited
    assert (attempt.id, attempt.status, attempt.elapsed_ms) == ("attempt1", status, 250)


@requirement("P12")
async def test_an_invented_tool_is_answered_and_audited() -> None:
    bench = Bench(Look())
    result = await bench.call("loook")
    assert result.metadata["error_type"] == "tool_not_found"
    assert "did you mean look?" in result.result.output
    assert bench.ledger.audited[0].error_type == "tool_not_found"


async def test_a_store_that_is_away_is_waited_for_when_the_tool_has_run() -> None:
    tool = Change()

    async def lock_later(ctx: CallContext, next: Next) -> ToolExecutionResult:
        result = await next(ctx)
        bench.ledger.refuse = 2
        return result

    bench = Bench(tool, extra=(lock_later,))
    assert (await asyncio.wait_for(bench.call("change", policy=ALLOWED), 5)).result.output == "changed"
    assert len(tool.runs) == 1


async def test_what_may_pass_goes_out_to_be_tried_again() -> None:
    bench = Bench(Look(fault=Unavailable("no network")))
    with pytest.raises(Unavailable):
        await bench.call("look")
    assert bench.ledger.row.status == "requested"
