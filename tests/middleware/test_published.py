"""Each of the two gates holds alone: what the session was given, and what the rules say."""

import pytest

from roundturn.middleware.published import published
from roundturn.rules import Policy
from tests.middleware.scene import Bench, Change, Look, context, done
from tests.requirements import requirement


@requirement("X-01", "M-20")
@pytest.mark.parametrize(
    ("visible", "unlisted", "status"),
    [
        (("change",), (), "completed"),
        ((), ("change",), "completed"),
        (("look",), ("other",), "denied"),
        ((), (), "denied"),
    ],
)
async def test_without_any_rules_only_what_the_session_was_given_passes(
    visible: tuple[str, ...], unlisted: tuple[str, ...], status: str
) -> None:
    result = await published(context("change", visible_tool_names=visible, unlisted=unlisted), done)
    assert result.status == status
    if status == "denied":
        assert result.metadata == {"error_type": "tool_not_published"}
        assert "was not run" in result.result.output


@requirement("X-01", "M-22")
async def test_a_tool_that_the_rules_would_let_pass_is_refused_when_it_was_not_given() -> None:
    tool = Change()
    bench = Bench(tool, Look())
    result = await bench.call("change", policy=Policy(allow=("*",)), visible_tool_names=("look",))
    assert (result.metadata["error_type"], tool.runs, bench.approvals.rows) == ("tool_not_published", [], {})
    assert "available: look" in result.result.output


@requirement("X-01")
async def test_a_tool_that_was_given_is_refused_when_the_rules_say_so() -> None:
    tool = Change()
    result = await Bench(tool).call("change", policy=Policy(deny=("change",)))
    assert (result.metadata["error_type"], tool.runs) == ("tool_policy_denied", [])
