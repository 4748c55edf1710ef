"""Policy asks the one decision function and says whose rule it was."""

from typing import Any

import pytest

from roundturn.call import CallContext, ToolExecutionResult
from roundturn.rules import Decision, Policy, RuleContext
from tests.middleware.scene import Bench, Change, Look
from tests.requirements import requirement


class Sometimes(Change):
    """Reads unless it is told to count."""

    def is_read_only(self, arguments: Any) -> bool:
        return bool(arguments.count == 1)


@requirement("M-13", "M-20")
async def test_the_default_empty_policy_allows_what_reads_and_asks_for_the_rest() -> None:
    bench = Bench(Look("seen"), Change())
    assert (await bench.call("look")).result.output == "seen"
    bench = Bench(Look(), Change())
    assert (await bench.call("change")).status == "suspended"


@requirement("M-13", "M-20", "M-08")
async def test_a_tool_on_the_denylist_is_denied_by_name_and_nobody_is_asked() -> None:
    tool = Change()
    bench = Bench(tool)
    result = await bench.call("change", policy=Policy(deny=("ch*",), allow=("*",)))
    assert result.status == "denied"
    assert result.metadata == {
        "error_type": "tool_policy_denied",
        "rule_id": "deny ch*",
        "layer": "operator",
        "reason": "the operator's deny list names it",
    }
    assert "deny ch*" in result.result.output
    assert "was not run" in result.result.output
    assert (tool.runs, bench.approvals.rows) == ([], {})


@requirement("M-13", "M-20")
@pytest.mark.parametrize(("allow", "status"), [(("change",), "completed"), (("look",), "denied")])
async def test_a_filled_allowlist_allows_what_it_names_and_denies_the_rest(
    allow: tuple[str, ...], status: str
) -> None:
    assert (await Bench(Change()).call("change", policy=Policy(allow=allow))).status == status


@requirement("T-04", "T-13")
@pytest.mark.parametrize(("count", "status"), [(1, "completed"), (2, "suspended")])
async def test_whether_a_call_only_reads_depends_on_its_arguments(count: int, status: str) -> None:
    assert (await Bench(Sometimes()).call("change", {"count": count})).status == status


@requirement("X-03")
async def test_a_call_that_no_rules_reached_is_denied() -> None:
    tool = Look()
    result = await Bench(tool).call("look", rules=None)
    assert (result.status, result.metadata["reason"], tool.runs) == ("denied", "no rules", [])


@requirement("X-03")
async def test_a_policy_that_cannot_be_read_denies_even_reading() -> None:
    rules = RuleContext("default", (Policy(allow=("*",)).layer,), unreadable="syntax error")
    result = await Bench(Look()).call("look", rules=rules)
    assert (result.status, result.metadata["layer"]) == ("denied", "platform")
    assert "syntax error" in result.result.output


async def test_the_decision_cannot_be_brought_along_from_outside() -> None:
    async def forge(ctx: CallContext, next: Any) -> ToolExecutionResult:
        result: ToolExecutionResult = await next(ctx.with_(decision=Decision("allow", "", "", "")))
        return result

    assert (await Bench(Change(), extra=(forge,)).call("change")).status == "suspended"


@requirement("T-13")
async def test_another_policy_changes_the_outcome_with_the_same_tool() -> None:
    tool = Change()
    outcomes = [
        (await Bench(tool).call("change", policy=policy)).status
        for policy in (Policy(), Policy(allow=("*",)), Policy(deny=("*",)), Policy(ask=("*",)))
    ]
    assert outcomes == ["suspended", "completed", "denied", "suspended"]
