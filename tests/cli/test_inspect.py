"""One request answers which tools an agent sees somewhere, why not that one, who would be asked, and by which rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.requirements import requirement

RULES = {
    "rules": [
        {
            "id": "no-hooks",
            "effect": "deny",
            "match": {"name": "write_*"},
            "when": {"entry": "webhook"},
            "reason": "nobody watches",
        },
        {
            "id": "status",
            "effect": "auto_approve",
            "match": {"name": "bash", "argument": {"name": "command", "glob": "git status"}},
        },
        {"id": "quiet", "effect": "hide", "match": {"name": "read_file"}},
    ]
}


def given(**settings: Any) -> dict[str, str]:
    policy = {"ROUNDTURN_POLICY": json.dumps(RULES)}
    return policy | {f"ROUNDTURN_{name.upper()}": json.dumps(value) for name, value in settings.items()}


@requirement("R-01", "R-15", "T-05", "T-09", "T-17")
async def test_the_list_of_tools_says_for_each_whether_it_may_be_used_and_why_not(alone: CommandLine) -> None:
    done = await alone("inspect", "tools", "--entry", "webhook", "--json", also=given())
    found = {item["tool"]: item for item in done.document["items"]}
    assert set(found) >= {"bash", "read_file", "write_file", "spawn_subagent"}
    assert (found["write_file"]["decision"], found["write_file"]["rule"]) == ("deny", "no-hooks")
    assert (found["write_file"]["layer"], found["write_file"]["reason"]) == ("operator", "nobody watches")
    assert (found["bash"]["decision"], found["bash"]["layer"]) == ("deny", "platform")
    assert (found["read_file"]["decision"], found["read_file"]["listed"]) == ("allow", False)
    assert found["spawn_subagent"]["reason"] == "assistant has no subagents"
    for item in found.values():
        assert all(
            item[name]
            for name in ("origin", "category", "family", "exposure", "permission", "effect", "approval")
        )
    plain = await alone("inspect", "tools", also=given())
    assert "read_file\truns\tno\tpure\tread\tdefault: read-only\tit only reads\n" in plain.out


@requirement("R-01", "R-09", "R-15", "R-17", "P-03", "X-02", "P128")
@pytest.mark.parametrize(
    ("asked", "decision", "rule"),
    [
        (("write_file", "--args", '{"path": "a", "content": "x"}'), "ask", "side-effect"),
        (("write_file", "--args", '{"path": "a", "content": "x"}', "--entry", "webhook"), "deny", "no-hooks"),
        (
            ("write_file", "--args", '{"path": "a", "content": "x"}', "--entry", "webhook", "--delegated"),
            "deny",
            "no-hooks",
        ),
        (("write_file", "--mode", "plan"), "deny", "plan"),
        (("read_file", "--args", '{"path": "a"}', "--mode", "plan"), "allow", "read-only"),
        (("bash", "--args", '{"command": "git status; rm x"}'), "ask", "shell"),
        (("bash", "--args", '{"command": "rm x"}', "--mode", "plan"), "deny", "plan"),
    ],
)
async def test_a_decision_is_explained_with_its_rule(
    alone: CommandLine, asked: tuple[str, ...], decision: str, rule: str
) -> None:
    done = await alone("inspect", "decide", *asked, "--json", also=given(privileged_tools=["bash"]))
    assert done.code == 0, done.err
    assert (done.document["decision"], done.document["rule"]) == (decision, rule)
    words = {"ask": "asks a person", "deny": "denied", "allow": "runs"}
    plain = await alone("inspect", "decide", *asked, also=given(privileged_tools=["bash"]))
    assert f": {words[decision]}\nrule    {rule} (" in plain.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("writefile",), "did you mean write_file"),
        (("READ_FILE",), "did you mean read_file?"),
        (("call-tool-by-name", "--args", "{}"), "did you mean call_tool_by_name?"),
        (("read_file", "--workdir", "/nope"), "/nope is not a directory"),
        (("write_file", "--args", "{"), "not a JSON object"),
        (("write_file", "--args", '{"path": 1}'), "does not fit write_file: path"),
        (("write_file", "--agent", "nobody"), "no agent named nobody"),
    ],
)
async def test_a_question_that_cannot_be_understood_is_code_2_and_says_why(
    alone: CommandLine, asked: tuple[str, ...], said: str
) -> None:
    done = await alone("inspect", "decide", *asked, "--json")
    assert done.code == 2
    assert said in done.error["detail"]
    assert done.error["hint"]


@requirement("R-06", "X-03")
async def test_a_policy_that_is_broken_ends_every_command_that_needs_it_and_names_the_place(
    alone: CommandLine, tmp_path: Path
) -> None:
    broken = json.dumps({"rules": [{"id": "typo", "effect": "denny", "match": {"name": "*"}}]})
    done = await alone("inspect", "tools", "--json", also={"ROUNDTURN_POLICY": broken})
    assert (done.code, done.error["type"]) == (2, "configuration")
    assert "policy.rules.0.effect" in done.error["detail"]
    twice = json.dumps({"rules": [{"id": "same", "effect": "deny", "match": {"name": "a"}}] * 2})
    done = await alone("inspect", "tools", "--json", also={"ROUNDTURN_POLICY": twice})
    assert "rule 'same': two rules have this id" in done.error["detail"]


@requirement("R-01", "R-07")
async def test_without_arguments_the_best_case_is_told_as_such_and_with_them_what_is_shown_stays(
    alone: CommandLine,
) -> None:
    also = given(privileged_tools=["bash"])
    best = (await alone("inspect", "decide", "bash", "--json", also=also)).document
    assert (best["depends_on_arguments"], best["listed"]) == (True, True)
    assert "this is the best case" in (await alone("inspect", "decide", "bash", also=also)).out
    fixed = (await alone("inspect", "decide", "list_files", "--json", also=also)).document
    assert fixed["depends_on_arguments"] is False
    for arguments in (None, '{"path": "a"}'):
        more = () if arguments is None else ("--args", arguments)
        hidden = (await alone("inspect", "decide", "read_file", *more, "--json", also=also)).document
        assert (hidden["decision"], hidden["listed"]) == ("allow", False)


@requirement("R-01")
@pytest.mark.parametrize("more", [(), ("--args", '{"subagent": "s_1"}')])
async def test_what_a_session_is_not_given_is_denied_with_and_without_arguments(
    alone: CommandLine, more: tuple[str, ...]
) -> None:
    found = (await alone("inspect", "decide", "wait_subagent", *more, "--json")).document
    assert (found["decision"], found["rule"]) == ("deny", "subagents")


@requirement("R-16", "R-09")
async def test_a_tool_that_only_one_entry_may_use_is_given_to_the_session_and_judged_at_the_call(
    alone: CommandLine,
) -> None:
    rules = [
        {"id": "reads", "effect": "allow", "match": {"name": "read_file"}},
        {"id": "here", "effect": "allow", "match": {"name": "write_file"}, "when": {"entry": "cli"}},
    ]
    also = {"ROUNDTURN_POLICY": json.dumps({"rules": rules})}
    call = ("inspect", "decide", "write_file", "--args", '{"path": "a", "content": "x"}', "--json")
    assert (await alone(*call, also=also)).document["decision"] == "ask"
    assert (await alone(*call, "--entry", "library", also=also)).document["decision"] == "deny"


@requirement("P97")
async def test_what_names_nothing_is_told(alone: CommandLine) -> None:
    also = {"ROUNDTURN_POLICY": json.dumps({"deny": ["raed_file"]}), "ROUNDTURN_PRIVILEGED_TOOLS": '["bahs"]'}
    said = (await alone("inspect", "tools", also=also)).err
    assert "'raed_file' (did you mean read_file" in said
    assert (
        "privileged_tools: no privileged tool that is known here is named 'bahs' (did you mean bash?)" in said
    )


@requirement("P28")
async def test_a_broken_tool_of_a_package_is_named_with_what_to_do_and_is_no_crash(
    alone: CommandLine, broken_package: Path
) -> None:
    also = {"PYTHONPATH": f"{broken_package}:{alone.environment.get('PYTHONPATH', '')}"}
    done = await alone("inspect", "tools", also=also)
    cause = 'entry point broken = "test_broken:Broken" of package test-broken 1.0: it is no tool'
    assert done.code == 2
    assert f"error: {cause}\n  name a subclass of BaseTool" in done.err
    assert "cli.unexpected" not in done.err
    done = await alone("inspect", "tools", "--json", also=also)
    assert (done.error["type"], done.error["detail"]) == ("author", cause)
    assert done.error["hint"].startswith("name a subclass of BaseTool")
