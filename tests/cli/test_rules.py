"""Live rules from the command line: shown, set from a file, cleared, and refused with the place that is wrong."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.requirements import requirement

STOP = """
[[rules]]
id = "stop"
effect = "deny"
match = { side_effects = true }
reason = "the disk is full"

[[rules]]
id = "look-first"
effect = "require_approval"
match = { name = "grep" }
when = { entry = "cron" }
"""
NIGHT = '[[rules]]\nid = "night"\neffect = "auto_approve"\nmatch = { name = "write_file" }\n'
CLAIMS = {"ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS": "true"}


@pytest.fixture
async def migrated(alone: CommandLine) -> CommandLine:
    """A command line on a home with an empty store."""
    assert (await alone("db", "upgrade")).code == 0
    return alone


def write(tmp_path: Path, text: str, name: str = "now.toml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


@requirement("R-18")
async def test_they_are_set_shown_and_cleared_with_who_did_it(migrated: CommandLine, tmp_path: Path) -> None:
    none = await migrated("rules")
    assert (none.code, none.out) == (0, "")
    assert "there are no live rules" in none.err

    done = await migrated("rules", "set", write(tmp_path, STOP), "--as", "ada")
    assert (done.code, done.out) == (0, "2 live rules in force (version 1)\n")
    assert "roundturn rules clear" in done.err
    again = await migrated("rules", "set", write(tmp_path, STOP), "--as", "bob", "--json")
    assert (again.document["changed"], again.document["actor"]) == (False, "ada")

    plain = await migrated("rules")
    assert plain.out == (
        'stop\tdeny\tmatch {"side_effects": true}\tthe disk is full\n'
        'look-first\trequire_approval\tmatch {"name": ["grep"]} when {"entry": ["cron"]}\t\n'
    )
    assert "version 1, set by ada" in plain.err
    shown = (await migrated("rules", "--json")).document
    assert (shown["version"], shown["actor"]) == (1, "ada")
    assert shown["at"].endswith("Z")
    assert [rule["id"] for rule in shown["rules"]] == ["stop", "look-first"]
    assert [layer["layer"] for layer in shown["layers"]] == [
        "platform", "operator", "live", "run mode", "agent", "embedder", "default",
    ]  # fmt: skip

    cleared = await migrated("rules", "clear", "--as", "bob")
    assert (cleared.code, cleared.out) == (0, "no live rules in force (version 2)\n")
    assert (await migrated("rules", "--json")).document["rules"] == []
    assert "no live rules (version 2, set by bob" in (await migrated("rules")).err


@requirement("R-18", "R-01", "R-15")
async def test_an_explanation_has_them_and_the_tool_stays_shown(
    migrated: CommandLine, tmp_path: Path
) -> None:
    assert (await migrated("rules", "set", write(tmp_path, STOP))).code == 0
    call = ("inspect", "decide", "write_file", "--args", '{"path": "a", "content": "x"}', "--json")
    told = (await migrated(*call)).document
    assert (told["decision"], told["rule"], told["layer"]) == ("deny", "stop", "live")
    assert (told["reason"], told["listed"], told["live_rules_version"]) == ("the disk is full", True, 1)
    found = {item["tool"]: item for item in (await migrated("inspect", "tools", "--json")).document["items"]}
    assert (found["write_file"]["layer"], found["write_file"]["listed"]) == ("live", True)
    assert found["read_file"]["decision"] == "allow"
    assert found["bash"]["layer"] == "platform"


@requirement("R-18")
@pytest.mark.parametrize("store", ["none", "another version's", "no database"])
async def test_an_explanation_says_that_they_are_left_out_when_the_store_cannot_be_read(
    alone: CommandLine, store: str
) -> None:
    if store == "another version's":
        assert (await alone("db", "upgrade")).code == 0
        with sqlite3.connect(f"{alone.environment['ROUNDTURN_HOME']}/roundturn.db") as opened:
            opened.execute("UPDATE alembic_version SET version_num = '0000'")
        opened.close()
    also = (
        {"ROUNDTURN_DATABASE_URL": "postgresql+asyncpg://a@127.0.0.1:1/a"} if store == "no database" else {}
    )
    done = await alone("inspect", "decide", "read_file", "--json", also=also)
    assert done.code == 0
    assert (done.document["decision"], done.document["live_rules_version"]) == ("allow", None)
    assert "live rules are left out here: " in done.err
    assert (await alone("inspect", "tools", also=also)).code == 0
    assert (await alone("rules", "--json", also=also)).code == 7


@requirement("R-18", "X-03")
async def test_a_record_that_is_broken_is_code_2_and_can_be_replaced(
    migrated: CommandLine, tmp_path: Path
) -> None:
    assert (await migrated("rules", "set", write(tmp_path, STOP))).code == 0
    with sqlite3.connect(f"{migrated.environment['ROUNDTURN_HOME']}/roundturn.db") as opened:
        opened.execute("UPDATE live_rules SET text = replace(text, 'deny', 'denny')")
    opened.close()
    broken = await migrated("rules", "--json")
    assert (broken.code, broken.error["type"]) == (2, "configuration")
    assert "every call is denied: live rules.0.effect: " in broken.error["detail"]
    assert "roundturn rules clear" in broken.error["hint"]
    told = (await migrated("inspect", "decide", "read_file", "--json")).document
    assert (told["decision"], told["rule"]) == ("deny", "unreadable")
    assert (await migrated("rules", "clear")).code == 0
    assert (await migrated("inspect", "decide", "read_file", "--json")).document["decision"] == "allow"


@requirement("R-18", "R-06")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rules]", "this is not TOML"),
        ('[[policy.rules]]\nid = "a"\n', "policy: there is no policy here"),
        ('[[rules]]\nid = "a"\neffect = "denny"\nmatch = { name = "*" }\n', "rules.0.effect (rule a): "),
        ('[[rules]]\nid = "a b"\neffect = "deny"\nmatch = { name = "*" }\n', "rule 'a b': an id has"),
        ('[[rules]]\nid = "a"\neffect = "hide"\nmatch = { name = "*" }\n', "deny instead of hide"),
        ("", "there is no rule in it"),
    ],
)
async def test_a_file_that_is_wrong_is_code_2_with_the_place_and_changes_nothing(
    migrated: CommandLine, tmp_path: Path, text: str, said: str
) -> None:
    assert (await migrated("rules", "set", write(tmp_path, STOP))).code == 0
    path = write(tmp_path, text, "wrong.toml")
    done = await migrated("rules", "set", path, "--json")
    assert (done.code, done.out, done.error["type"]) == (2, "", "configuration")
    assert done.error["detail"].startswith(f"{path}: ")
    assert said in done.error["detail"]
    assert "[[rules]]" in done.error["hint"]
    assert (await migrated("rules", "--json")).document["version"] == 1


@requirement("R-18")
async def test_wrong_usage_is_code_2_and_no_store_is_code_7(alone: CommandLine, tmp_path: Path) -> None:
    missing = await alone("rules", "set", str(tmp_path / "none.toml"), "--json")
    assert (missing.code, missing.error["type"]) == (2, "usage")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# caf\xe9\n")
    assert (await alone("rules", "set", str(latin))).code == 2
    assert (await alone("rules", "set")).code == 2
    early = await alone("rules", "--json", "clear")
    assert early.code == 2
    assert "roundturn rules clear" in early.error["detail"]
    for command in (("rules",), ("rules", "clear"), ("rules", "set", write(tmp_path, STOP))):
        assert (await alone(*command, "--json")).code == 7


@requirement("R-18", "P126")
async def test_to_let_calls_pass_unasked_is_an_answer_and_needs_what_answers_need(
    migrated: CommandLine, tmp_path: Path
) -> None:
    refused = await migrated("rules", "set", write(tmp_path, NIGHT), "--json")
    assert (refused.code, refused.error["type"]) == (4, "refused")
    assert "ROUNDTURN_ALLOW_UNVERIFIED_VERDICTS" in refused.error["hint"]
    assert (await migrated("rules", "--json")).document["version"] == 0
    done = await migrated("rules", "set", write(tmp_path, NIGHT), also=CLAIMS)
    assert done.code == 0
    told = (await migrated("inspect", "decide", "write_file", "--json")).document
    assert (told["decision"], told["rule"], told["layer"]) == ("allow", "night", "live")


@requirement("R-18", "P128")
async def test_rules_that_let_more_pass_than_they_say_or_fit_nothing_are_doubted_aloud(
    migrated: CommandLine, tmp_path: Path
) -> None:
    doubtful: list[dict[str, Any]] = [
        {"id": "wide", "effect": "auto_approve", "match": {"name": "bash", "argument": {"name": "command", "glob": "*"}}},
        {"id": "typo", "effect": "deny", "match": {"name": "wirte_file"}},
    ]  # fmt: skip
    lines = []
    for rule in doubtful:
        match = json.dumps(rule["match"]).replace(":", " =")
        lines.append(f'[[rules]]\nid = "{rule["id"]}"\neffect = "{rule["effect"]}"\nmatch = {match}\n')
    done = await migrated("rules", "set", write(tmp_path, "".join(lines)), also=CLAIMS)
    assert done.code == 0
    assert "rule wide of the live layer: " in done.err
    assert "rule typo of the live layer: no tool that is known here fits it" in done.err


@requirement("R-18")
async def test_what_else_is_broken_does_not_keep_a_person_from_stopping_what_runs(
    migrated: CommandLine, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "bad.md").write_text("no front matter")
    done = await migrated("rules", "set", write(tmp_path, STOP), also={"ROUNDTURN_AGENTS_DIR": str(agents)})
    assert (done.code, done.out) == (0, "2 live rules in force (version 1)\n")
    assert "could not be checked" in done.err
