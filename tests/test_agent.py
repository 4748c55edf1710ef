"""Agent definitions: a file says all of it, and what is wrong in one is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from roundturn.agent import AgentDefinition, Snapshot, parse_definition
from roundturn.agents import load_agents
from roundturn.errors import ConfigurationError
from roundturn.rules import Layer, Policy, Rule, RuleContext, decide
from roundturn.tool import Effect, ToolSpec
from tests.requirements import requirement

GOOD = '+++\nname = "helper"\ndescription = "Helps."\ntools = ["read_*"]\nmax_steps = 3\n+++\nYou help.\n\n+++\nMore.\n'


def test_front_matter_and_prompt_become_a_definition() -> None:
    assert parse_definition(GOOD, "x.md") == AgentDefinition(
        name="helper", description="Helps.", tools=("read_*",), max_steps=3, prompt="You help.\n\n+++\nMore."
    )


@pytest.mark.parametrize("text", ["\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), "\n\n" + GOOD])
def test_what_editors_do_to_a_file_does_not_matter(text: str) -> None:
    assert parse_definition(text, "x.md") == parse_definition(GOOD, "x.md")


def test_only_name_and_prompt_are_needed() -> None:
    agent = parse_definition('+++\nname = "a"\n+++\np', "x.md")
    assert (agent.tools, agent.model, agent.max_steps) == (("*",), None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("You help.", "no front matter"),
        ("", "no front matter"),
        ('+++\nname = "a"\n+++', "no front matter"),
        ('+++\nname = "a"\n+++\n \n', "prompt: String should have at least 1 character"),
        ("+++\nname = a\n+++\np", "not TOML"),
        ('+++\ndescription = "x"\n+++\np', "name: it is missing"),
        ('+++\nname = "A B"\n+++\np', "name: String should match"),
        ('+++\nname = "../x"\n+++\np', "name: String should match"),
        ('+++\nname = "a\\n"\n+++\np', "name: String should match"),
        ('+++\nname = "a"\nmax_steps = 0\n+++\np', "max_steps: Input should be greater"),
        ('+++\nname = "a"\ntools = "bash"\n+++\np', "tools: a list is wanted"),
        ('+++\nname = "a"\ntool = ["bash"]\n+++\np', "tool: there is no tool here; did you mean tools?"),
        (
            '+++\nname = "a"\n[[rules]]\nid = "r"\neffect = "deny"\nmatch = { name = "x" }\nmax_steps = 3\n+++\np',
            r"max_steps \(rule r\): there is no max_steps here; write it above rules",
        ),
        ('+++\nname = "a"\nprompt = "p"\n+++\np', "the prompt is the text below"),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_the_field(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        parse_definition(text, "agents/x.md")
    assert refused.value.detail.startswith("agents/x.md: ")


RULE = Rule.model_validate(
    {"id": "r", "effect": "hide", "match": {"name": "x"}, "except": {"tags": "y"}, "when": {"entry": ["cli"]}}
)


@requirement("R-16")
def test_a_snapshot_survives_being_stored() -> None:
    snapshot = Snapshot(
        agent=parse_definition(GOOD, "x.md"),
        model="m",
        max_steps=3,
        tools=({"type": "function", "function": {"name": "read_file", "parameters": {"a": [1, None]}}},),
        visible=("read_file",),
        layers=(Policy(deny=("bash",), rules=(RULE,)).layer,),
    )
    assert Snapshot.model_validate_json(snapshot.model_dump_json()) == snapshot


@requirement("X-03")
def test_rules_of_a_snapshot_that_this_version_cannot_read_deny_and_say_where() -> None:
    layers = [{"name": "operator", "rules": [{"id": "new", "effect": "postpone", "match": {"name": "*"}}]}]
    agent = {"name": "a", "prompt": "p"}
    stored = Snapshot.model_validate_json(
        json.dumps({"agent": agent, "model": "m", "max_steps": 3, "layers": layers})
    )
    assert stored.unreadable.startswith("layers.0.rules.0.effect: ")
    denied = decide(SPEC, {}, stored.rules(("cli",), "build", "/work"))
    assert (denied.effect, denied.layer) == ("deny", "platform")


SPEC = ToolSpec("bash", "d", {}, Effect.PURE, 1, brief=False, category="shell")


@requirement("R-04")
@pytest.mark.parametrize(
    ("front", "effect", "rule"),
    [
        ('tools = ["read_*"]', "deny", "tools"),
        ("tools = []", "deny", "tools"),
        ('disallowed_tools = ["BA*"]', "deny", "disallowed_tools BA*"),
        ('[[rules]]\nid = "no-shell"\neffect = "deny"\nmatch = { category = "shell" }', "deny", "no-shell"),
        ('tools = ["bash"]', "allow", "read-only"),
    ],
)
def test_a_definition_limits_its_agent_in_three_ways(front: str, effect: str, rule: str) -> None:
    agent = parse_definition(f'+++\nname = "a"\n{front}\n+++\np', "a.md")
    decision = decide(SPEC, {}, RuleContext("a", (agent.layer,)))
    assert (decision.effect, decision.rule) == (effect, rule)


@requirement("R-04")
@pytest.mark.parametrize("name", ["operator", "embedder"])
def test_the_operator_and_an_embedder_limit_one_agent_from_outside_its_definition(name: Any) -> None:
    """What a patch of the definition would be: it says nothing about any other agent."""
    patch = Rule.model_validate(
        {"id": "patch", "effect": "deny", "match": {"name": "bash"}, "when": {"agent": "a"}}
    )
    layer = Layer(name=name, rules=(patch,))
    theirs = decide(SPEC, {}, RuleContext("a", (layer,)))
    assert (theirs.effect, theirs.rule, theirs.layer) == ("deny", "patch", name)
    assert decide(SPEC, {}, RuleContext("b", (layer,))).effect == "allow"


def test_two_rules_of_a_definition_with_one_id_are_refused() -> None:
    two = '[[rules]]\nid = "x"\neffect = "deny"\nmatch = { name = "a" }\n' * 2
    with pytest.raises(ConfigurationError, match="two rules have this id"):
        parse_definition(f'+++\nname = "a"\n{two}+++\np', "a.md")


def test_the_operators_folder_adds_agents_and_may_replace_ours(tmp_path: Path) -> None:
    ours = load_agents(None)
    assert ours
    name = sorted(ours)[0]
    (tmp_path / "mine.md").write_text(f'+++\nname = "{name}"\n+++\nmine')
    (tmp_path / "new.md").write_text('+++\nname = "brand-new"\n+++\nnew')
    (tmp_path / "readme.txt").write_text("not an agent")
    found = load_agents(tmp_path)
    assert found.keys() == {*ours, "brand-new"}
    assert found[name].prompt == "mine"


def test_two_agents_of_one_name_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    for file in ("a.md", "b.md"):
        (tmp_path / file).write_text('+++\nname = "same"\n+++\np')
    with pytest.raises(ConfigurationError, match="same is used by two agents"):
        load_agents(tmp_path)
    with pytest.raises(ConfigurationError, match="not a folder"):
        load_agents(tmp_path / "nowhere")
