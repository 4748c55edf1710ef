"""Live rules are one layer more: read totally, held to the form of every rule, and never allowing more than others do."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roundturn.errors import ConfigurationError
from roundturn.live_rules import MOST_BYTES, NOTHING, LiveRulesRow, parse_rules, understood, written
from roundturn.rules import STRICTNESS, Layer, Match, Policy, Rule, RuleContext, decide
from roundturn.tool import Asking, Effect, Permission, ToolSpec
from tests.requirements import requirement
from tests.system import ROOT
from tests.test_rules import arguments, contexts, rules, specs
from tests.workflows.test_readme import BLOCK

GUIDE = (ROOT / "docs" / "guides" / "tools.md").read_text()
AT = datetime(2026, 1, 2, tzinfo=UTC)
EVERYTHING = Match(name=("*",))


def row(text: str) -> LiveRulesRow:
    return LiveRulesRow(text, 1, "ada", AT)


def live(*given_: Rule) -> RuleContext:
    return under(RuleContext("agent"), *given_)


def under(context: RuleContext, *given_: Rule) -> RuleContext:
    return understood(row(written(given_))).over(context)


def rule(effect: Any, match: Match = EVERYTHING, id_: str = "now", **more: Any) -> Rule:
    return Rule(id=id_, effect=effect, match=match, reason="because", **more)


def spec(
    name: str = "change", effect: Effect = Effect.ONCE, approval: Asking = "by_effect", **more: Any
) -> ToolSpec:
    return ToolSpec(
        name=name, description="d", input_schema={}, effect=effect, limit_s=1, brief=False, category="files",
        approval=approval, permission=Permission.WRITE, **more,
    )  # fmt: skip


LOOK = spec("look", Effect.PURE)


@requirement("R-18", "R-15")
def test_they_deny_ask_and_list_as_every_layer_does() -> None:
    stop = live(rule("deny", Match(side_effects=True)))
    told = decide(spec(), {}, stop)
    assert (told.effect, told.rule, told.layer, told.reason) == ("deny", "now", "live", "because")
    assert decide(LOOK, {}, stop).effect == "allow"

    asking = live(rule("require_approval"))
    assert (decide(LOOK, {}, asking).effect, decide(LOOK, {}, asking).layer) == ("ask", "live")

    listed = live(rule("allow", Match(name=("look",))))
    told = decide(spec(), {}, listed)
    assert (told.effect, told.layer) == ("deny", "live")
    assert told.reason == "the allow list of the live rules does not name it"
    assert decide(LOOK, {}, listed).effect == "allow"


@requirement("R-18", "R-12")
def test_they_waive_what_the_tool_declares_and_the_default_asks_and_nothing_else() -> None:
    waived = live(rule("auto_approve"))
    for asks in (spec(), spec(approval="required")):
        assert (decide(asks, {}, waived).effect, decide(asks, {}, waived).layer) == ("allow", "live")
    assert decide(spec(approval="always"), {}, waived).effect == "ask"
    operator = RuleContext("agent", (Policy(ask=("change",)).layer,))
    assert decide(spec(), {}, under(operator, rule("auto_approve"))).layer == "operator"


@requirement("R-18")
def test_they_stand_right_after_the_operators_and_before_all_others() -> None:
    barred = rule("deny", id_="theirs")
    operator, agent = (Layer(name=name, rules=(barred,)) for name in ("operator", "agent"))
    both = under(RuleContext("agent", (operator, agent), mode="plan"), rule("deny"))
    assert decide(spec(), {}, both).layer == "operator"
    assert decide(spec(), {}, replace(both, layers=both.layers[1:])).layer == "live", "before mode and agent"


@requirement("R-18", "R-02", "R-10")
@given(specs, arguments, contexts, st.lists(rules(("deny", "require_approval", "allow")), max_size=3))
def test_without_a_waiver_they_never_allow_more(
    tool: ToolSpec, given_: dict[str, Any] | None, context: RuleContext, more: list[Rule]
) -> None:
    named = [one.model_copy(update={"id": f"r{n}"}) for n, one in enumerate(more)]
    before = decide(tool, given_, context)
    after = decide(tool, given_, under(context, *named))
    assert STRICTNESS[after.effect] >= STRICTNESS[before.effect]


@given(st.lists(rules(("deny", "require_approval", "allow", "auto_approve")), max_size=3))
def test_what_is_written_is_read_back_as_it_was(given_: list[Rule]) -> None:
    named = tuple(one.model_copy(update={"id": f"r{n}"}) for n, one in enumerate(given_))
    assert understood(row(written(named))).layer.rules == named


@requirement("R-18", "X-03")
@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "live rules: Invalid JSON"),
        ("[]", "live rules: Input should be an object"),
        ('{"rules": [{"id": "a", "effect": "denny", "match": {"name": "*"}}]}', "live rules.0.effect: "),
        ('{"rules": [{"id": "a", "effect": "deny", "match": {}}]}', "live rules.0.match: "),
        ('{"rules": [{"id": "a b", "effect": "deny", "match": {"name": "*"}}]}', "rule 'a b'"),
        ('{"until": 7}', "live until: "),
        ('{"rules": [{"id": "a", "effect": "hide", "match": {"name": "*"}}]}', "deny instead of hide"),
        ("[" * 50_000, "live rules: Invalid JSON"),
    ],
)
def test_a_record_that_cannot_be_read_denies_everything_and_says_where_it_is_broken(
    text: str, where: str
) -> None:
    found = understood(row(text))
    for tool in (LOOK, spec()):
        told = decide(tool, {}, found.over(RuleContext("agent")))
        assert (told.effect, told.rule, told.layer) == ("deny", "unreadable", "platform")
        assert where in told.reason


def test_none_leave_a_session_its_own_rules() -> None:
    context = RuleContext("agent", (Policy(deny=("a",)).layer,))
    assert understood(None).over(context) is NOTHING.over(context) is context
    assert understood(row("{}")).over(context) is context


@requirement("R-18", "R-06")
def test_a_file_holds_records_like_those_of_the_operators_policy() -> None:
    text = (
        '\ufeff[[rules]]\nid = "night"\neffect = "auto_approve"\nmatch = { name = "change" }\n'
        'except = { argument = { name = "path", glob = "secret*" } }\nwhen = { entry = "cron" }\n'
    )
    (found,) = parse_rules(text, "night.toml")
    (operators,) = Policy.model_validate({"rules": [found.model_dump(exclude_unset=True)]}).rules
    assert found == operators


@requirement("R-18", "R-06")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rules]", "now.toml: this is not TOML"),
        ('[[policy.rules]]\nid = "a"\n', "now.toml: policy: there is no policy here"),
        (
            '[[rules]]\nid = "a"\neffect = "denny"\nmatch = { name = "*" }\n',
            "now.toml: rules.0.effect (rule a): ",
        ),
        (
            '[[rules]]\nid = "a"\neffect = "deny"\nmatch = { nam = "*" }\n',
            "now.toml: rules.0.match.nam (rule a): ",
        ),
        ('[[rules]]\nid = "a"\neffect = "deny"\n', "now.toml: rules.0.match (rule a): it is missing"),
        ('[[rules]]\nid = "a"\neffect = "deny"\nmatch = { name = "*" }\n' * 2, "two rules have this id"),
        ("", "now.toml: there is no rule in it"),
        ("self = 1\n", "now.toml: self: "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_name_and_the_place(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_rules(text, "now.toml")
    assert said in refused.value.detail
    assert "[[rules]]" in refused.value.hint


def test_they_are_a_few() -> None:
    many = [rule("deny", id_=f"r{n}") for n in range(2000)]
    with pytest.raises(ConfigurationError, match=f"{MOST_BYTES} bytes"):
        written(many)
    with pytest.raises(ConfigurationError, match="two rules"):
        written([rule("deny"), rule("deny")])


@requirement("R-18")
@pytest.mark.parametrize(
    ("file", "tool", "given_", "verdict"),
    [
        ("stop", "change", {}, "deny"),
        ("stop", "look", {}, "allow"),
        ("ask", "look", {}, "ask"),
        ("night", "write_file", {"path": "reports/a.md"}, "allow"),
        ("night", "write_file", {"path": "reports/../a.md"}, "ask"),
        ("night", "write_file", {"path": "a.md"}, "ask"),
        ("night", "change", {"path": "reports/a.md"}, "ask"),
    ],
)
def test_the_files_of_the_guide_do_what_it_says(
    file: str, tool: str, given_: dict[str, Any], verdict: str
) -> None:
    (text,) = [block for block in BLOCK.findall(GUIDE) if block.startswith(f"# {file}.toml")]
    kind = spec(tool, Effect.PURE if tool == "look" else Effect.KEYED, argument_kinds={"path": "path"})
    context = under(RuleContext("assistant", workdir="/w"), *parse_rules(text, file))
    assert decide(kind, given_, context).effect == verdict
