"""One decision for every tool and argument; the strictest opinion wins and a wish to be stricter never loosens."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.rules import STRICTNESS, Decision, Policy, RuleContext, decide, first_match
from roundturn.tool import Effect, ToolSpec
from tests.requirements import requirement

names = st.text("abAB_-", min_size=1, max_size=8)
globs = st.text("abAB_-*?", min_size=0, max_size=8)
lists = st.lists(globs, max_size=3).map(tuple)
specs = st.builds(
    ToolSpec,
    name=names,
    description=st.just("d"),
    input_schema=st.just({}),
    effect=st.sampled_from(Effect),
    limit_s=st.just(1.0),
    brief=st.booleans(),
    always_ask=st.booleans(),
    directive=st.booleans(),
)
policies = st.builds(Policy, allow=lists, ask=lists, deny=lists)
contexts = st.builds(
    RuleContext,
    agent=st.just("agent"),
    agent_tools=lists,
    operator=policies,
    read_only=st.booleans(),
    unreadable=st.sampled_from(["", "", "", "syntax"]),
)


def matches(pattern: str, name: str) -> bool:
    """Globs by recursion on the first character: an oracle that shares nothing with the matcher."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return matches(pattern[1:], name) or (bool(name) and matches(pattern, name[1:]))
    return bool(name) and pattern[0].lower() in ("?", name[0].lower()) and matches(pattern[1:], name[1:])


@requirement("R-13")
@given(st.text("aA*?[]!.^$\\+(){}-", max_size=8), st.text("aA*?[]!.^$\\+(){}-\n", max_size=8))
def test_a_glob_matches_as_an_independent_matcher_says(pattern: str, name: str) -> None:
    assert (first_match([pattern], name) is not None) == matches(pattern, name)


@requirement("R-13")
@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("*", "bash", True), ("BASH", "bash", True), ("ba", "bash", False), ("b?sh", "bash", True), ("*_file", "read_file", True),
        ("[rw]*", "read", False), ("a.b", "axb", False), ("K", "\u212a", False), ("s", "\u017f", False), ("", "bash", False),
    ],
)  # fmt: skip
def test_globs_know_star_and_question_mark_only_and_ascii_case(
    pattern: str, name: str, matched: bool
) -> None:
    assert (first_match([pattern], name) is not None) == matched


def test_a_glob_with_many_stars_answers_at_once() -> None:
    assert first_match(["*a" * 30 + "*b"], "a" * 64) is None


def test_the_first_pattern_that_matches_is_named() -> None:
    assert first_match(["x", "b*", "*"], "bash") == "b*"


@requirement("R-15")
@given(specs, contexts)
def test_every_tool_gets_a_decision_with_its_reasons(spec: ToolSpec, context: RuleContext) -> None:
    decision = decide(spec, {}, context)
    assert decision.effect in STRICTNESS
    assert decision.rule
    assert decision.layer
    assert decision.reason
    assert decision.listed == (decision.effect != "deny")


def strictness(spec: ToolSpec, context: RuleContext) -> int:
    return STRICTNESS[decide(spec, {}, context).effect]


def with_operator(context: RuleContext, **changes: Any) -> RuleContext:
    return replace(context, operator=context.operator.model_copy(update=changes))


@given(specs, contexts, globs)
def test_one_more_deny_never_loosens_a_decision(spec: ToolSpec, context: RuleContext, glob: str) -> None:
    stricter = with_operator(context, deny=(*context.operator.deny, glob))
    assert strictness(spec, stricter) >= strictness(spec, context)


@given(specs, contexts, globs)
def test_one_more_ask_never_allows_what_was_not_allowed(
    spec: ToolSpec, context: RuleContext, glob: str
) -> None:
    """It may turn the denial of what no list names into a question: `ask` is a list of what may be asked for."""
    asking = with_operator(context, ask=(*context.operator.ask, glob))
    before, after = strictness(spec, context), strictness(spec, asking)
    assert after >= min(before, STRICTNESS["ask"])
    if not context.operator.allow or first_match(context.operator.allow, spec.name):
        assert after >= before


@given(specs, contexts)
@pytest.mark.parametrize(
    "narrow",
    [
        lambda spec, context: (spec, replace(context, unreadable="syntax")),
        lambda spec, context: (replace(spec, always_ask=True), context),
        lambda spec, context: (spec, replace(context, read_only=False)),
        lambda spec, context: (spec, replace(context, agent_tools=context.agent_tools[1:])),
    ],
)
def test_whatever_narrows_never_loosens(
    narrow: Callable[..., Any], spec: ToolSpec, context: RuleContext
) -> None:
    assert strictness(*narrow(spec, context)) >= strictness(spec, context)


OPEN = Policy()
BASH = ToolSpec("bash", "d", {}, Effect.ONCE, 1, brief=False, always_ask=False)


def decided(policy: Policy = OPEN, spec: ToolSpec = BASH, **changes: Any) -> Decision:
    context = RuleContext("agent", ("*",), policy, read_only=False)
    return decide(spec, {}, replace(context, **changes))


@requirement("M-13")
def test_without_rules_reading_is_allowed_and_everything_else_asked() -> None:
    assert decided(read_only=True) == Decision("allow", "read-only", "default", "it only reads")
    asked = decided()
    assert (asked.effect, asked.layer) == ("ask", "default")
    assert "bash changes something (once)" in asked.reason


@requirement("M-13", "R-15")
@pytest.mark.parametrize(
    ("policy", "effect", "rule"),
    [
        (Policy(deny=("ba*",)), "deny", "deny ba*"),
        (Policy(allow=("bash",)), "allow", "allow bash"),
        (Policy(allow=("other",)), "deny", "allow"),
        (Policy(allow=("other",), ask=("bash",)), "ask", "ask bash"),
        (Policy(allow=("bash",), ask=("bash",)), "ask", "ask bash"),
        (Policy(allow=("bash",), deny=("bash",)), "deny", "deny bash"),
    ],
)
def test_deny_beats_ask_beats_allow(policy: Policy, effect: str, rule: str) -> None:
    decision = decided(policy)
    assert (decision.effect, decision.rule, decision.layer) == (effect, rule, "operator")


def test_no_allowlist_waives_the_person_where_the_platform_wants_one() -> None:
    assert decided(Policy(allow=("*",)), replace(BASH, always_ask=True)).layer == "platform"


def test_a_tool_that_the_agent_does_not_list_is_denied_in_its_name() -> None:
    decision = decided(Policy(allow=("*",)), agent_tools=("read_*",))
    assert (decision.effect, decision.layer) == ("deny", "agent")
    assert "the agent agent does not list it" in decision.reason
