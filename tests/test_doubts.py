"""A rule that lets more pass than it says, or that nothing can fit, is told to the operator and not silently inert."""

from typing import Any

import pytest

from roundturn.doubts import doubts, idle_globs
from roundturn.rules import Layer, Rule
from roundturn.tool import ArgumentKind, Effect, ToolSpec
from tests.requirements import requirement


def spec(name: str, *arguments: str, **kinds: ArgumentKind) -> ToolSpec:
    schema = {"properties": {argument: {} for argument in arguments}}
    return ToolSpec(
        name, "d", schema, Effect.ONCE, 1, brief=False, category="shell", family="shell", argument_kinds=kinds
    )


KNOWN = [
    spec("bash", "command", "timeout_s", command="command"),
    spec("web_fetch", "url", "offset", url="url"),
    spec("read_file", "path", path="path"),
    spec("call_tool_by_name", "name", "arguments"),
]
AGENTS = ("assistant", "reviewer")


def told(**record: Any) -> list[str]:
    rule = Rule.model_validate({"id": "r", "effect": "deny", "match": {"name": "*"}, **record})
    lines = list(doubts(Layer(name="operator", rules=(rule,)), KNOWN, AGENTS))
    assert all(line.startswith("rule r of the operator layer: ") for line in lines)
    return [line.removeprefix("rule r of the operator layer: ") for line in lines]


@requirement("P97", "R-07", "R-09")
@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"match": {"name": "raed_file"}}, "no tool that is known here fits it: 'raed_file' (did you mean read_file?)"),
        ({"match": {"name": "read_file "}}, "no tool that is known here fits it: 'read_file ' (did you mean read_file?)"),
        ({"match": {"category": "shel"}}, "no tool that is known here fits it"),
        ({"match": {"tags": "no-such"}}, "no tool that is known here fits it"),
        ({"match": {"name": "bash", "argument": {"name": "comand", "glob": "rm *"}}}, "no tool that it fits has an argument 'comand'; did you mean command?"),
        ({"except": {"argument": {"name": "xyz", "glob": "rm *"}}}, "no tool that it fits has an argument 'xyz'; there are arguments, command, name, offset, path, timeout_s, url"),
        ({"match": {"name": "read_file", "argument": {"name": "path", "glob": "../secrets/*"}}}, "goes up or to a home: no path fits it"),
        ({"match": {"name": "call_tool_by_name"}}, "never the entry; name that tool"),
        ({"when": {"agent": "asistant"}}, "no agent is named 'asistant' (did you mean assistant?)"),
        ({"when": {"entry": ["cli", "clii"]}}, "no entry is called 'clii' (did you mean cli?); there are cli, library,"),
        ({"effect": "auto_approve", "match": {"name": "bash", "argument": {"name": "command", "glob": "python3 *"}}}, "python3 runs what it is given"),
        ({"effect": "auto_approve", "match": {"name": "bash", "argument": {"name": "command", "glob": "*"}}}, "does not say which program"),
        ({"effect": "auto_approve", "match": {"name": "web_fetch", "argument": {"name": "url", "glob": "https://docs.rs*"}}}, "does not say which site"),
        ({"effect": "auto_approve", "match": {"name": "web_fetch", "argument": {"name": "url", "glob": "docs.rs/*"}}}, "does not begin with a scheme"),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_told_in_a_line(record: dict[str, Any], said: str) -> None:
    (line,) = told(**record)
    assert said in line


@requirement("P97", "P128")
@pytest.mark.parametrize(
    "record",
    [
        {},
        {"match": {"name": ["READ_*", "nothing"]}},
        {"match": {"category": "shell"}, "when": {"agent": "rev*", "entry": "web*"}},
        {"match": {"name": "bash", "argument": {"name": "command", "glob": "python3 *"}}},
        {
            "effect": "auto_approve",
            "match": {"name": "bash", "argument": {"name": "command", "glob": "ls *"}},
        },
        {"effect": "auto_approve", "match": {"argument": {"name": "url", "glob": "https://docs.rs/*"}}},
        {"effect": "auto_approve", "match": {"argument": {"name": "path", "glob": "docs/*"}}},
    ],
)
def test_of_what_is_clear_nothing_is_told(record: dict[str, Any]) -> None:
    assert told(**record) == []


def test_globs_that_fit_no_name_are_told_with_what_may_have_been_meant() -> None:
    assert list(idle_globs(["BASH", "bahs", "z*"], ["bash", "grep"])) == [
        "'bahs' (did you mean bash?)",
        "'z*'",
    ]
