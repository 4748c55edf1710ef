"""One decision for every tool, argument and place; deny is final, and a layer more never allows more."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from roundturn.mode import RunMode
from roundturn.rules import (
    STRICTNESS,
    Decision,
    Layer,
    Match,
    Policy,
    Rule,
    RuleContext,
    RuleEffect,
    When,
    check_ids,
    decide,
)
from roundturn.tool import Asking, Effect, Exposure, Permission, ToolSpec
from tests.requirements import requirement

names = st.text("abAB_-", min_size=1, max_size=8)
globs = st.text("abAB_-*?", min_size=0, max_size=8)
lists = st.sampled_from([(), ("*",), ("*a*",)]) | st.lists(globs, max_size=3).map(tuple)
words = st.sampled_from(["", "ab", "ba"])
some_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
arguments = st.none() | st.dictionaries(
    st.sampled_from(["command", "path", "url", "x"]) | st.text(max_size=3), some_json
)
specs = st.builds(
    ToolSpec,
    name=names,
    description=st.just("d"),
    input_schema=st.just({}),
    effect=st.sampled_from(Effect),
    limit_s=st.just(1.0),
    brief=st.booleans(),
    category=st.sampled_from(["files", "shell"]),
    family=words,
    tags=st.lists(words, max_size=2).map(tuple),
    exposure=st.sampled_from(get_args(Exposure)),
    permission=st.sampled_from(Permission),
    privileged=st.booleans(),
    approval=st.sampled_from(get_args(Asking)),
    sometimes_reads=st.booleans(),
    directive=st.booleans(),
    reaches_deferred=st.booleans(),
    argument_kinds=st.sampled_from([{}, {"command": "command", "path": "path", "url": "url"}]),
)
argument_matches = st.builds(
    lambda name, glob, equals, by_glob: (
        {"name": name, "glob": glob} if by_glob else {"name": name, "equals": equals}
    ),
    st.sampled_from(["command", "path", "url", "x", "x.y"]),
    globs,
    st.text(max_size=5) | st.integers() | st.booleans(),
    st.booleans(),
)
narrow_matches = st.fixed_dictionaries(
    {"name": lists},
    optional={
        "origin": lists,
        "family": lists,
        "tags": lists,
        "category": st.sampled_from(["files", "shell"]),
        "exposure": st.sampled_from(get_args(Exposure)),
        "min_permission": st.sampled_from(Permission),
        "max_permission": st.sampled_from(Permission),
        "side_effects": st.booleans(),
        "argument": argument_matches,
    },
).map(Match.model_validate)
matches = st.just(Match(name=("*",))) | narrow_matches
whens = (
    st.just(When())
    | st.just(When())
    | st.builds(When, agent=lists, entry=lists, mode=st.none() | st.sampled_from(get_args(RunMode)))
)
NARROWING: tuple[RuleEffect, ...] = ("deny", "hide", "require_approval")


def rules(effects: tuple[RuleEffect, ...] = get_args(RuleEffect)) -> st.SearchStrategy[Rule]:
    return st.builds(
        lambda effect, match, carved, when: Rule(
            id="r", effect=effect, match=match, when=when, **{"except": carved}
        ),
        st.sampled_from(effects),
        matches,
        st.none() | st.none() | narrow_matches,
        whens,
    )


def layers(effects: tuple[RuleEffect, ...] = get_args(RuleEffect)) -> st.SearchStrategy[Layer]:
    return st.builds(
        Layer,
        name=st.sampled_from(["operator", "agent", "embedder"]),
        rules=st.lists(rules(effects), max_size=3).map(tuple),
    )


contexts = st.builds(
    RuleContext,
    agent=names,
    layers=st.lists(layers(), max_size=2).map(tuple),
    entries=st.sampled_from([("cli",), ("webhook", "subagent"), ()]),
    mode=st.sampled_from(get_args(RunMode)),
    read_only=st.none() | st.booleans(),
    privileged=st.sampled_from([("*",), ("*",), ()]),
    workdir=st.sampled_from(["", "/w"]),
    unreadable=st.sampled_from([""] * 9 + ["syntax"]),
)


@pytest.mark.parametrize("wanted", ["allow", "ask", "deny", "hidden", "waived"])
def test_what_is_generated_here_reaches_every_kind_of_decision(wanted: str) -> None:
    def reached(case: tuple[ToolSpec, dict[str, Any] | None, RuleContext]) -> bool:
        found = decide(*case)
        if wanted == "hidden":
            return found.effect != "deny" and not found.listed
        if wanted == "waived":
            return found.effect == "allow" and found.layer not in ("default", "platform")
        return found.effect == wanted

    cases = st.tuples(specs, arguments, contexts)
    often = settings(
        max_examples=1000,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    find(cases, reached, settings=often)


def strictness(spec: ToolSpec, given_: Mapping[str, Any] | None, context: RuleContext) -> int:
    return STRICTNESS[decide(spec, given_, context).effect]


@requirement("R-15")
@given(specs, arguments, contexts)
def test_every_tool_call_and_place_gets_a_decision_with_its_reasons(
    spec: ToolSpec, given_: dict[str, Any] | None, context: RuleContext
) -> None:
    decision = decide(spec, given_, context)
    assert decision.effect in STRICTNESS
    assert decision.rule
    assert decision.layer
    assert decision.reason
    assert not (decision.effect == "deny" and decision.listed)
    assert decision == decide(spec, given_, context)


@requirement("R-02")
@given(specs, arguments, contexts, layers(("deny", "hide", "require_approval", "allow")), st.integers(0, 3))
def test_a_layer_more_never_allows_more(
    spec: ToolSpec, given_: dict[str, Any] | None, context: RuleContext, layer: Layer, place: int
) -> None:
    more = replace(context, layers=(*context.layers[:place], layer, *context.layers[place:]))
    assert strictness(spec, given_, more) >= strictness(spec, given_, context)
    assert decide(spec, given_, more).listed <= decide(spec, given_, context).listed


@requirement("R-02", "R-12")
@given(specs, arguments, contexts, layers(), st.integers(0, 3))
def test_deny_is_final_whatever_another_layer_says(
    spec: ToolSpec, given_: dict[str, Any] | None, context: RuleContext, layer: Layer, place: int
) -> None:
    more = replace(context, layers=(*context.layers[:place], layer, *context.layers[place:]))
    before = decide(spec, given_, context)
    after = decide(spec, given_, more)
    if before.layer == "default" and before.effect == "ask":
        waived = (after.effect, after.layer) == ("allow", layer.name)
        assert waived <= any(rule.effect == "auto_approve" for rule in layer.rules)
        assert waived or STRICTNESS[after.effect] >= STRICTNESS["ask"]
    else:
        assert STRICTNESS[after.effect] >= STRICTNESS[before.effect]


@requirement("R-10")
@given(specs, arguments, contexts, layers(), rules(NARROWING), st.integers(0, 2))
def test_a_rule_that_narrows_never_loosens_its_own_layer(
    spec: ToolSpec,
    given_: dict[str, Any] | None,
    context: RuleContext,
    layer: Layer,
    rule: Rule,
    place: int,
) -> None:
    """But for one that asks, which names a tool beside an allow list: it may be asked for what was denied."""
    context = replace(context, layers=(*context.layers[:place], layer, *context.layers[place:]))
    place = min(place, len(context.layers) - 1)
    layer = context.layers[place]
    changed = layer.model_copy(update={"rules": (*layer.rules, rule)})
    more = replace(context, layers=(*context.layers[:place], changed, *context.layers[place + 1 :]))
    least = STRICTNESS["ask"] if rule.effect == "require_approval" else STRICTNESS["deny"]
    assert strictness(spec, given_, more) >= min(strictness(spec, given_, context), least)


@requirement("R-01")
@given(specs, st.dictionaries(st.text(max_size=5), some_json), contexts)
def test_what_is_not_shown_because_it_is_denied_is_denied_whatever_it_is_called_with(
    spec: ToolSpec, given_: dict[str, Any], context: RuleContext
) -> None:
    called = replace(context, read_only=context.read_only and spec.may_only_read)
    shown = decide(spec, None, replace(context, read_only=None))
    if shown.effect == "deny":
        assert decide(spec, given_, called).effect == "deny"


@given(specs, arguments, contexts)
@pytest.mark.parametrize(
    "narrow",
    [
        lambda spec, context: (spec, replace(context, unreadable="syntax")),
        lambda spec, context: (replace(spec, approval="always"), context),
        lambda spec, context: (replace(spec, privileged=True), context),
        lambda spec, context: (spec, replace(context, privileged=())),
    ],
)
def test_whatever_narrows_never_loosens(
    narrow: Callable[..., Any], spec: ToolSpec, given_: dict[str, Any] | None, context: RuleContext
) -> None:
    narrower, stricter = narrow(spec, context)
    assert strictness(narrower, given_, stricter) >= strictness(spec, given_, context)


@requirement("P-03")
@given(specs, arguments, contexts)
def test_plan_mode_only_narrows(spec: ToolSpec, given_: dict[str, Any] | None, context: RuleContext) -> None:
    """Rules that hold in one mode only are left aside: they may say anything."""
    always = tuple(
        layer.model_copy(
            update={
                "rules": tuple(
                    r.model_copy(update={"when": r.when.model_copy(update={"mode": None})})
                    for r in layer.rules
                )
            }
        )
        for layer in context.layers
    )
    plan, build = (replace(context, layers=always, mode=mode) for mode in ("plan", "build"))
    assert strictness(spec, given_, plan) >= strictness(spec, given_, build)
    if decide(spec, given_, plan).effect != "deny":
        reads = spec.may_only_read if context.read_only is None else context.read_only
        assert reads or spec.directive


TOOL = ToolSpec("mcp_mail_send", "d", {}, Effect.ONCE, 1, brief=False, category="mail", family="mail", tags=("out", "people"),
                permission=Permission.NETWORK, origin="mcp:mail")  # fmt: skip
OPEN = Policy()


def rule(effect: str = "deny", **fields: Any) -> Rule:
    return Rule.model_validate(
        {"id": "the-rule", "effect": effect, "match": {"name": "*"}, "reason": "because", **fields}
    )


def decided(
    *given_rules: Rule,
    policy: Policy = OPEN,
    spec: ToolSpec = TOOL,
    arguments: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Decision:
    operator = Layer(name="operator", rules=(*policy.layer.rules, *given_rules))
    return decide(spec, arguments or {}, replace(RuleContext("agent", (operator,)), **changes))


@requirement("M-13", "R-17")
def test_without_rules_reading_is_allowed_and_everything_else_asked() -> None:
    assert decided(read_only=True) == Decision("allow", "read-only", "default", "it only reads")
    asked = decided()
    assert (asked.effect, asked.layer) == ("ask", "default")
    assert "mcp_mail_send changes something (once)" in asked.reason


@requirement("M-13", "R-15")
@pytest.mark.parametrize(
    ("policy", "effect", "by"),
    [
        (Policy(deny=("mcp*",)), "deny", "deny mcp*"),
        (Policy(allow=("mcp_mail_send",)), "allow", "allow mcp_mail_send"),
        (Policy(allow=("other",)), "deny", "allow"),
        (Policy(allow=("other",), ask=("mcp*",)), "ask", "ask mcp*"),
        (Policy(allow=("mcp*",), ask=("mcp*",)), "ask", "ask mcp*"),
        (Policy(allow=("mcp*",), deny=("mcp*",)), "deny", "deny mcp*"),
    ],
)
def test_of_the_short_lists_deny_beats_ask_beats_allow(policy: Policy, effect: str, by: str) -> None:
    decision = decided(policy=policy)
    assert (decision.effect, decision.rule, decision.layer) == (effect, by, "operator")


@requirement("R-07")
@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({"name": "mcp_*"}, True), ({"name": ["x", "*SEND"]}, True), ({"name": "mail"}, False),
        ({"origin": "mcp:*"}, True), ({"origin": "builtin"}, False),
        ({"family": "ma?l"}, True), ({"family": "files"}, False),
        ({"tags": "people"}, True), ({"tags": ["in", "o*"]}, True), ({"tags": "in"}, False),
        ({"category": "mail"}, True), ({"category": "ma*"}, False),
        ({"exposure": "listed"}, True), ({"exposure": "deferred"}, False),
        ({"min_permission": "network"}, True), ({"min_permission": "execute"}, False), ({"min_permission": "write"}, True),
        ({"max_permission": "network"}, True), ({"max_permission": "write"}, False),
        ({"side_effects": True}, True), ({"side_effects": False}, False),
        ({"name": "mcp_*", "category": "files"}, False),
    ],
)  # fmt: skip
def test_each_selector_selects_and_all_that_are_given_must_fit(match: dict[str, Any], fits: bool) -> None:
    assert (decided(rule(match=match)).effect == "deny") == fits


@requirement("R-07")
@pytest.mark.parametrize(
    ("argument", "arguments", "fits"),
    [
        ({"name": "to", "glob": "*@example.org"}, {"to": "ann@example.org"}, True),
        ({"name": "to", "glob": "*@example.org"}, {"to": "ann@example.com"}, False),
        ({"name": "to", "glob": "*@example.org"}, {}, False),
        ({"name": "mail.to", "glob": "ann*"}, {"mail": {"to": "ann"}}, True),
        ({"name": "count", "equals": 3}, {"count": 3}, True),
        ({"name": "count", "equals": 3}, {"count": 3.0}, True),
        ({"name": "flag", "equals": True}, {"flag": True}, True),
        ({"name": "flag", "equals": True}, {"flag": 1}, False),
        ({"name": "to", "glob": "*evil*"}, {"to": ["evil", "evil@example.org"]}, True),
    ],
)
def test_a_rule_may_depend_on_an_argument(
    argument: dict[str, Any], arguments: dict[str, Any], fits: bool
) -> None:
    narrowing = decided(rule(match={"name": "*", "argument": argument}), arguments=arguments)
    assert (narrowing.effect == "deny") == fits
    loosening = decided(rule("auto_approve", match={"name": "*", "argument": argument}), arguments=arguments)
    assert (loosening.effect == "allow") == fits


@requirement("R-08")
def test_except_carves_out_of_match() -> None:
    barred = rule(match={"name": "mcp_*"}, **{"except": {"family": "mail"}})
    assert decided(barred).effect == "ask"
    other = decided(barred, spec=replace(TOOL, family="files"))
    assert (other.effect, other.rule, other.reason) == ("deny", "the-rule", "because")


@requirement("R-08")
def test_a_carving_by_argument_holds_only_for_the_calls_that_fit() -> None:
    barred = rule(**{"except": {"argument": {"name": "to", "glob": "ann"}}})
    assert decided(barred, arguments={"to": "ann"}).effect == "ask"
    assert decided(barred, arguments={"to": "bob"}).effect == "deny"
    context = RuleContext("agent", (Layer(name="operator", rules=(barred,)),))
    assert decide(TOOL, None, context).effect != "deny", "some call of it may pass: it is shown"


@requirement("R-09")
@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True), ({"agent": "rev*"}, True), ({"agent": "writer"}, False), ({"entry": "webhook"}, True), ({"entry": "subagent"}, True),
        ({"entry": "cli"}, False), ({"mode": "plan"}, False), ({"mode": "build"}, True), ({"agent": "reviewer", "entry": "cli"}, False),
    ],
)  # fmt: skip
def test_a_rule_holds_where_it_says(when: dict[str, Any], holds: bool) -> None:
    decision = decided(rule(when=when), agent="reviewer", entries=("webhook", "subagent"))
    assert (decision.effect == "deny") == holds


@requirement("R-07", "R-09")
@given(st.lists(specs, min_size=1, max_size=4), layers(), contexts, contexts)
def test_what_a_layer_was_asked_before_changes_no_answer(
    asked: list[ToolSpec], layer: Layer, one: RuleContext, two: RuleContext
) -> None:
    """What fits a tool and holds in a place is kept: never for another tool, nor for another place."""
    cases = [(spec, replace(place, layers=(layer,))) for spec in asked for place in (one, two)]
    again = [decide(spec, None, place) for spec, place in cases]
    fresh = [layer.model_validate(layer.model_dump()) for _ in cases]
    assert again == [
        decide(spec, None, replace(place, layers=(new,)))
        for (spec, place), new in zip(cases, fresh, strict=True)
    ]


@requirement("R-07", "R-13")
def test_tools_that_differ_in_the_case_of_a_name_or_in_one_selector_are_judged_each_for_itself() -> None:
    layer = Layer(
        name="operator",
        rules=(rule(match={"name": "MAIL*", "family": "Mail", "max_permission": "write"}),),
    )
    context = RuleContext("agent", (layer,))

    def denied(**changes: Any) -> bool:
        spec = replace(
            TOOL, **{"name": "mail_send", "family": "mail", "permission": Permission.WRITE, **changes}
        )
        return decide(spec, {}, context).effect == "deny"

    assert [denied(), denied(name="Mail_Send"), denied(family="MAIL")] == [True] * 3
    assert [denied(name="post"), denied(family="files"), denied(permission=Permission.ADMIN)] == [False] * 3
    assert denied(), "and the first once more"


BY_STRENGTH = ["deny", "require_approval", "auto_approve", "allow"]


@requirement("R-10")
@pytest.mark.parametrize("first", get_args(RuleEffect))
@pytest.mark.parametrize("second", get_args(RuleEffect))
def test_of_two_rules_in_a_layer_the_stronger_decides(first: str, second: str) -> None:
    decision = decided(rule(first, id="one"), rule(second, id="two"))
    strongest = next((effect for effect in BY_STRENGTH if effect in (first, second)), "hide")
    expected = {
        "deny": "deny",
        "require_approval": "ask",
        "auto_approve": "allow",
        "allow": "ask",
        "hide": "ask",
    }[strongest]
    assert decision.effect == expected
    assert decision.listed == (expected != "deny" and "hide" not in (first, second))


@requirement("R-10", "M-13")
def test_a_layer_that_allows_something_denies_what_none_of_its_rules_names() -> None:
    allowing = rule("allow", match={"name": "other"})
    denied = decided(allowing)
    assert (denied.effect, denied.rule, denied.layer) == ("deny", "the-rule", "operator")
    assert decided(allowing, rule("require_approval", id="two")).effect == "ask"
    assert decided(allowing, rule("hide", id="two")).effect == "deny", "to hide a tool is not to name it"
    elsewhere = rule("allow", match={"name": "other"}, when={"entry": "webhook"})
    assert decided(elsewhere, entries=("cli",)).effect == "ask", "the list holds where it says"


@requirement("R-11")
def test_a_hidden_tool_is_not_listed_and_may_be_called() -> None:
    hidden = decided(rule("hide"), read_only=True)
    assert (hidden.effect, hidden.listed) == ("allow", False)


@requirement("R-12")
@pytest.mark.parametrize(
    ("spec", "waived"),
    [(TOOL, True), (replace(TOOL, approval="required"), True), (replace(TOOL, approval="always"), False)],
)
def test_a_waiver_waives_what_the_tool_declares_and_the_default_asks(spec: ToolSpec, waived: bool) -> None:
    assert (decided(rule("auto_approve"), spec=spec).effect == "allow") == waived


@requirement("R-12")
def test_a_tool_that_declares_a_person_asks_even_to_read() -> None:
    declared = decided(spec=replace(TOOL, approval="required"), read_only=True)
    assert (declared.effect, declared.rule) == ("ask", "declared")


@requirement("R-12")
@pytest.mark.parametrize("effect", ["deny", "require_approval"])
@pytest.mark.parametrize("waiver", ["operator", "agent", "embedder"])
@pytest.mark.parametrize("other", ["operator", "agent", "embedder"])
def test_a_waiver_does_not_override_another_rule(effect: str, waiver: Any, other: Any) -> None:
    context = RuleContext(
        "agent", (Layer(name=waiver, rules=(rule("auto_approve"),)), Layer(name=other, rules=(rule(effect),)))
    )
    decision = decide(TOOL, {}, context)
    assert decision.effect == {"deny": "deny", "require_approval": "ask"}[effect]
    assert decision.layer == other


@requirement("X-02")
def test_a_privileged_tool_is_off_until_the_operator_names_it() -> None:
    spec = replace(TOOL, privileged=True)
    off = decided(rule("auto_approve"), rule("allow", id="two"), spec=spec)
    assert (off.effect, off.layer, off.rule) == ("deny", "platform", "privileged")
    assert "privileged_tools" in off.reason
    assert decided(spec=spec, privileged=("mcp_mail_*",)).effect == "ask"


@requirement("X-03")
def test_rules_that_cannot_be_read_deny_everything_and_say_where_they_are_broken() -> None:
    denied = decided(rule("auto_approve"), read_only=True, unreadable="layers.0: no such effect")
    assert (denied.effect, denied.layer) == ("deny", "platform")
    assert "layers.0: no such effect" in denied.reason


@requirement("P-03")
def test_in_plan_mode_what_does_not_read_is_denied_with_a_hint() -> None:
    denied = decided(rule("auto_approve"), mode="plan")
    assert (denied.effect, denied.layer) == ("deny", "run mode")
    assert "a person switches it to build" in denied.reason
    assert decided(mode="plan", read_only=True).effect == "allow"
    assert decided(mode="plan", spec=replace(TOOL, directive=True)).effect == "allow"


SHELL = replace(TOOL, name="bash", argument_kinds={"command": "command"})


@requirement("P128")
def test_a_command_that_is_more_than_a_plain_one_asks_whatever_is_waived() -> None:
    waived = rule(
        "auto_approve", match={"name": "bash", "argument": {"name": "command", "glob": "git status"}}
    )
    assert decided(waived, spec=SHELL, arguments={"command": "git status"}).effect == "allow"
    asked = decided(
        waived, rule("auto_approve", id="all"), spec=SHELL, arguments={"command": "git status && rm -rf ~"}
    )
    assert (asked.effect, asked.layer, asked.rule) == ("ask", "platform", "shell")


@requirement("P128")
def test_a_rule_that_bars_a_command_also_looks_at_the_whole_text() -> None:
    barred = rule(match={"name": "bash", "argument": {"name": "command", "glob": "*rm -rf*"}})
    assert decided(barred, spec=SHELL, arguments={"command": "ls; rm -rf x"}).effect == "deny"


@requirement("P128")
@pytest.mark.parametrize(
    "command", ["git push --force", "git  push", "git 'push' --force", "/usr/bin/git push -f", "Git push"]
)
def test_a_rule_that_bars_a_command_bars_it_in_any_spelling(command: str) -> None:
    barred = rule(match={"name": "bash", "argument": {"name": "command", "glob": "git push *"}})
    assert decided(barred, spec=SHELL, arguments={"command": command}).effect == "deny"
    waived = rule(
        "auto_approve", match={"name": "bash", "argument": {"name": "command", "glob": "git push *"}}
    )
    assert (decided(waived, spec=SHELL, arguments={"command": command}).effect == "allow") == (
        command == "git  push"
    )


@requirement("R-06")
@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"effect": "denny"}, "effect"),
        ({"match": {}}, "it selects nothing"),
        ({"match": {"nmae": "x"}}, "nmae"),
        ({"match": {"name": "*", "argument": {"name": "x"}}}, "either glob or equals"),
        ({"match": {"name": "*", "min_permission": "root"}}, "min_permission"),
        ({"wen": {}}, "wen"),
        ({"when": {"channel": "x"}}, "channel"),
    ],
)
def test_a_record_that_is_misspelt_is_refused_with_its_place(record: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        rule(**record)


@requirement("R-06")
@pytest.mark.parametrize("ids", [("a", "a"), ("a b",), ("",), ("x" * 65,), ("ä",)])
def test_rules_have_ids_that_people_can_name_and_no_two_the_same(ids: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="rule"):
        check_ids([rule(id=one) for one in ids])


@requirement("R-16")
def test_a_frozen_layer_reads_back_as_it_was_written() -> None:
    layer = Layer(name="operator", rules=(rule(when={"entry": "x"}, **{"except": {"name": "y"}}),))
    assert Layer.model_validate_json(layer.model_dump_json(by_alias=True)) == layer
