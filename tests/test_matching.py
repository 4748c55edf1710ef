"""An argument is what a rule means, however it is spelt, and nothing else is."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from roundturn.matching import ArgumentMatch
from roundturn.rules import Decision, Layer, Rule, RuleContext, RuleEffect, decide
from roundturn.tool import Effect, Permission, ToolSpec
from tests.requirements import requirement

TOOL = ToolSpec("send", "d", {}, Effect.ONCE, 1, brief=False, category="mail", permission=Permission.NETWORK)
KINDS = replace(TOOL, argument_kinds={"path": "path", "url": "url", "command": "command"})


def rule(effect: RuleEffect = "deny", **fields: Any) -> Rule:
    return Rule.model_validate({"id": "the-rule", "effect": effect, "match": {"name": "*"}, **fields})


def decided(
    one: Rule, spec: ToolSpec = TOOL, arguments: dict[str, Any] | None = None, workdir: str = "/w"
) -> Decision:
    context = RuleContext("agent", (Layer(name="operator", rules=(one,)),), workdir=workdir)
    return decide(spec, arguments or {}, context)


def loosens(spec: ToolSpec, arguments: dict[str, Any], **argument: Any) -> bool:
    """Whether a rule that waives a person fits."""
    return ArgumentMatch(**argument).fits(spec, arguments, "/w", exactly=True)


def narrows(spec: ToolSpec, arguments: dict[str, Any], **argument: Any) -> bool:
    """Whether a rule that bars fits."""
    return ArgumentMatch(**argument).fits(spec, arguments, "/w", exactly=False)


PATHS = replace(TOOL, argument_kinds={"path": "path"})


@requirement("R-07", "X-12")
@pytest.mark.parametrize(
    "path",
    [
        "secrets/a",
        "./secrets/a",
        "secrets//a",
        "/w/secrets/a",
        "SECRETS/a",
        "./././secrets/./a",
        "/w/./secrets//a",
    ],
)
def test_a_path_cannot_be_spelt_past_a_rule(path: str) -> None:
    barred = rule(match={"name": "*", "argument": {"name": "path", "glob": "secrets/*"}})
    assert decided(barred, spec=PATHS, arguments={"path": path}, workdir="/w").effect == "deny"


def test_a_path_has_one_spelling_in_unicode_for_a_rule() -> None:
    barred = rule(match={"name": "*", "argument": {"name": "path", "glob": "caf\u00e9/*"}})
    assert decided(barred, spec=PATHS, arguments={"path": "cafe\u0301/x"}).effect == "deny"


@requirement("R-07")
@pytest.mark.parametrize(
    ("path", "waived"),
    [("reports/a", True), ("/w/./reports//a", True), ("reports/../a", False), ("/w/reports/../../a", False)],
)
def test_a_path_that_goes_up_waives_nobody(path: str, waived: bool) -> None:
    good = rule("auto_approve", match={"name": "*", "argument": {"name": "path", "glob": "reports/*"}})
    told = decided(good, spec=PATHS, arguments={"path": path}, workdir="/w")
    assert (told.effect == "allow") == waived


URLS = replace(TOOL, argument_kinds={"url": "url"})


@requirement("R-07")
@pytest.mark.parametrize(
    ("url", "waived"),
    [
        ("https://docs.example.org/a", True), ("https://DOCS.example.org/a?b=c", True), ("https://docs.example.org:443/a", True),
        ("https://docs.example.org", True), ("https://docs.example.org.evil.example/a", False),
        ("https://docs.example.org@evil.example/a", False), ("https://evil.example/https://docs.example.org/a", False),
        ("https://evil.example\\@docs.example.org/a", False), ("https://docs.example.org\\.evil.example/a", False),
        ("http://docs.example.org/a", False), ("https://docs.example.org:8443/a", False), ("https://docs\uff0eexample.org/a", False),
        ("https://docs.example.org/../a", False), ("https://docs.example.org/%2e%2e/a", False), (" https://docs.example.org/a", False),
        ("https://[::1/a", False), ("https://docs.example.org:99999/a", False), ("https:///docs.example.org/a", False),
    ],
)  # fmt: skip
def test_an_address_waives_a_person_only_in_a_spelling_that_all_understand_alike(
    url: str, waived: bool
) -> None:
    good = rule(
        "auto_approve", match={"name": "*", "argument": {"name": "url", "glob": "https://docs.example.org/*"}}
    )
    assert (decided(good, spec=URLS, arguments={"url": url}).effect == "allow") == waived


@requirement("R-07", "R-10")
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/a", "HTTPS://EVIL.example/a", "https://evil.example:443/a", "https://evil.example",
        "https://evil.example?q=a b",
        "https://evil.example:443/a b", "https://evil.example:443/\u00e9", "https://evil.example:443/a|b", "https://evil.example/{x}", " https://evil.example/a",
        "https://evil.example./a", "https://ann@evil.example/a", "https://evil.example:443/%61", "https://evil.example/x/../a", "https://ev\til.example/a",
        "https://evil\uff0eexample/a", "https://%65vil.example/a",
        "https:/\\evil.example/a", "https:evil.example/a", "https://evil.example:0443/a", "https://evil.example:x/a",
    ],
)  # fmt: skip
@pytest.mark.parametrize("barred", [{"glob": "https://evil.example/*"}, {"glob": "https://EVIL.example/*"}])
def test_an_address_cannot_be_spelt_past_a_rule(url: str, barred: dict[str, str]) -> None:
    no = rule(match={"name": "*", "argument": {"name": "url", **barred}})
    assert decided(no, spec=URLS, arguments={"url": url}).effect == "deny"
    assert decided(no, spec=URLS, arguments={"url": "https://good.example/a?evil.example"}).effect != "deny"


@requirement("R-07")
def test_a_hidden_letter_of_a_path_in_an_address_does_not_get_past_a_rule() -> None:
    no = rule(match={"name": "*", "argument": {"name": "url", "glob": "https://good.example/secret/*"}})
    assert decided(no, spec=URLS, arguments={"url": "https://good.example/%73ecret/x"}).effect == "deny"


@requirement("R-07")
@pytest.mark.parametrize(
    ("argument", "equals", "same", "alike", "other"),
    [
        ("path", "secrets/a", ["secrets/a", "./secrets/a", "/w/secrets/a", "secrets//a"], ["SECRETS/a"], ["secrets/b"]),
        ("url", "https://a.example/x", ["https://A.example:443/x"], ["https://a.example/%78", "https://a.example/X", "https://a@b/"], ["https://a.example/y"]),
        ("command", "git status", ["git status", "git  status", "git 'status'"], ["GIT status"], ["git status -s", "git log"]),
    ],
)  # fmt: skip
def test_what_equals_means_does_not_depend_on_the_spelling(
    argument: str, equals: str, same: list[str], alike: list[str], other: list[str]
) -> None:
    """`alike` is enough for a rule that narrows and too little for one that loosens."""
    match = {"name": "*", "argument": {"name": argument, "equals": equals}}

    def effect(kind: RuleEffect, value: str) -> str:
        return decided(rule(kind, match=match), spec=KINDS, arguments={argument: value}, workdir="/w").effect

    assert {effect("auto_approve", value) for value in same} == {"allow"}
    assert {effect("deny", value) for value in [*same, *alike]} == {"deny"}
    assert "allow" not in {effect("auto_approve", value) for value in [*alike, *other]}
    assert "deny" not in {effect("deny", value) for value in other}


@requirement("R-07", "X-12")
@pytest.mark.parametrize(
    ("glob", "path", "loose", "narrow"),
    [
        ("secrets/*", "secrets/a", True, True), ("secrets/*", "x/../secrets/a", False, True), ("secrets/*", "other/a", False, False),
        ("secrets/*", "SECRETS/a", False, True), ("out/*", "out/../b", False, True), ("secrets/*", "~/secrets/a", False, True),
        ("secrets/*", "/elsewhere/secrets/a", False, True), ("*", "/etc/passwd", False, True), ("/etc/*", "/etc/passwd", True, True),
        ("/etc/*", "etc/passwd", False, False), ("/w/secrets/*", "secrets/a", True, True), ("*.md", "a.md", True, True),
        ("cafe\u0301/*", "caf\u00e9/x", True, True), ("caf\u00e9/*", "cafe\u0301/x", True, True), (".", "/w", True, True), (".", "./", True, True),
    ],
)  # fmt: skip
def test_a_path_loosens_only_where_it_surely_leads(glob: str, path: str, loose: bool, narrow: bool) -> None:
    assert loosens(KINDS, {"path": path}, name="path", glob=glob) == loose
    assert narrows(KINDS, {"path": path}, name="path", glob=glob) == narrow


@requirement("R-07")
@pytest.mark.parametrize(
    ("glob", "url", "loose"),
    [
        ("https://*.python.org/*", "https://docs.python.org/3/", True), ("https://*.python.org/*", "https://a.b.python.org/", True),
        ("https://*.python.org/*", "https://attacker.example/steal.python.org/?leak=SECRET", False),
        ("https://*.python.org/*", "https://evil.example?.python.org/", False), ("https://*.python.org/*", "https://evil.example#.python.org/", False),
        ("*://docs.rs/*", "https://docs.rs/x", True), ("*://docs.rs/*", "https://attacker.example/://docs.rs/x", False),
        ("https://docs.rs:443/*", "https://docs.rs/x", True), ("https://docs.rs/*", "https://docs.rs:8443/x", False), ("https://docs.rs:*/*", "https://docs.rs:8443/x", True),
        ("https://docs.rs", "https://docs.rs/", True), ("https://docs.rs", "https://docs.rs/x", False), ("*docs.rs/*", "https://docs.rs/x", False),
        ("https://docs.rs/a/*", "https://docs.rs/A/x", False), ("https://docs.rs/a/*", "https://docs.rs/a/./x", False), ("https://docs.rs/a/*", "https://docs.rs/b/%2e%2e/a/x", False),
    ],
)  # fmt: skip
def test_the_star_of_a_site_does_not_run_into_what_stands_behind_it(glob: str, url: str, loose: bool) -> None:
    assert loosens(KINDS, {"url": url}, name="url", glob=glob) == loose


@requirement("R-07")
@pytest.mark.parametrize(
    "url",
    [
        "https://site.example/admin/x", "https://site.example/./admin/x", "https://site.example/a/../admin/x", "https://site.example//admin/x",
        "https://site.example/%61dmin/x", "https://site.example/%2fadmin/x", "https://site.example/a/%2e%2e/admin/x", "https://@site.example/admin/x", "https://site.example\u3002/admin/x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("glob", ["https://site.example/admin/*", "*://site.example/admin/*", "*/admin/*"])
def test_a_place_on_a_site_is_barred_however_it_is_reached(glob: str, url: str) -> None:
    assert narrows(KINDS, {"url": url}, name="url", glob=glob)
    assert not narrows(KINDS, {"url": "https://site.example/public/x"}, name="url", glob=glob)


LISTS = replace(TOOL, argument_kinds={"paths": "path", "jobs.command": "command"})


@requirement("R-07", "P128")
def test_of_a_list_one_item_is_enough_to_bar_and_every_item_is_needed_to_waive() -> None:
    some = {"paths": ["out/a", "./secrets/b"]}
    assert narrows(LISTS, some, name="paths", glob="secrets/*")
    assert not loosens(LISTS, some, name="paths", glob="out/*")
    assert loosens(LISTS, {"paths": ["out/a", "out/b"]}, name="paths", glob="out/*")
    assert not loosens(LISTS, {"paths": []}, name="paths", glob="*")
    assert narrows(TOOL, {"to": ["ann", "evil@x.example"]}, name="to", glob="*evil*")


@requirement("P128")
def test_a_command_in_a_list_of_objects_is_judged_too() -> None:
    waived = rule("auto_approve", match={"name": "*"})
    plain, piped = ({"jobs": [{"command": "ls"}, {"command": each}]} for each in ("ls a", "curl x | sh"))
    assert decided(waived, LISTS, plain).effect == "allow"
    assert decided(waived, LISTS, piped).rule == "shell"


@requirement("R-07")
@pytest.mark.parametrize(
    ("equals", "value", "same"),
    [(5, 5, True), (5, 5.0, True), (5.0, 5, True), (0.5, 0.5, True), (5, 6, False), (1, True, False), (True, 1, False), (True, True, True), (5, "5", False), ("5", 5, False)],
)  # fmt: skip
def test_a_number_is_one_however_it_is_written(equals: Any, value: Any, same: bool) -> None:
    assert narrows(TOOL, {"n": value}, name="n", equals=equals) == same
    assert loosens(TOOL, {"n": value}, name="n", equals=equals) == same


@requirement("P97")
@pytest.mark.parametrize("equals", [float("nan"), float("inf")])
def test_what_no_record_can_hold_is_refused(equals: float) -> None:
    with pytest.raises(ValidationError):
        ArgumentMatch(name="n", equals=equals)


@requirement("P128")
@pytest.mark.parametrize(
    ("glob", "command", "fits"),
    [
        ("cat docs/*", "cat docs/a", True), ("cat docs/*", "cat docs/../.env", False), ("cp build/* dist/*", "cp build/a dist/../.git/hooks/x", False),
        ("rm tmp/*", "rm tmp/../src/main.py", False), ("cat ../docs/*", "cat ../docs/a", True), ("cat *", "cat ../a", True), ("cat a*", "cat a..b", True),
    ],
)  # fmt: skip
def test_what_is_waived_below_a_directory_does_not_go_up_from_it(glob: str, command: str, fits: bool) -> None:
    assert loosens(KINDS, {"command": command}, name="command", glob=glob) == fits
