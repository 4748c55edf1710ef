"""Search over tools that are not in the model's list, and the entry that calls one of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roundturn.message import AskedCall
from roundturn.registry import ToolRegistry
from roundturn.tool import FINDABLE, Effect, ToolContext, ToolSpec
from roundturn.tools.deferred import (
    DESCRIPTION_BYTES,
    MOST_FOUND,
    MOST_NAMED,
    SCHEMA_BYTES,
    CallToolByName,
    Search,
    ToolSearch,
    ranked,
)
from tests.requirements import requirement


def spec(name: str, description: str = "", **more: Any) -> ToolSpec:
    made = ToolSpec(name, description, {"type": "object"}, Effect.PURE, 1, brief=False, category="tests")
    return replace(made, **more)


SPECS = (
    spec("github__list_pull_requests", "Shows what waits for review.", family="github"),
    spec("github__merge", "Merges a pull request.", family="github", tags=("write",)),
    spec("calendar__createEvent", "Puts a date into the calendar.", family="calendar"),
    spec("weather", "Tells the weather."),
)


@requirement("T-26")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("open pull requests", ["github__list_pull_requests", "github__merge"]),
        ("WEATHER", ["weather"]),
        ("github__merge", ["github__merge", "github__list_pull_requests"]),
        ("create an event", ["calendar__createEvent"]),
        ("events", ["calendar__createEvent"]),
        ("write", ["github__merge"]),
        ("nothing of this kind", []),
        ("", []),
        ("*** \x00 (", []),
    ],
)
def test_what_shares_a_word_is_found_and_a_name_says_more_than_a_text(query: str, names: list[str]) -> None:
    assert [found.name for found in ranked(query, SPECS)] == names
    assert [found.name for found in ranked(query, SPECS[::-1])] == names


async def search(specs: list[ToolSpec], query: str, limit: int = 3) -> str:
    context = ToolContext(Path("/work"), "key", metadata={FINDABLE: lambda: specs})
    return (await ToolSearch().execute(Search(query=query, limit=limit), context)).output


@requirement("T-26")
async def test_a_search_shows_schemas_and_one_that_finds_nothing_shows_names() -> None:
    head, *lines = (await search(list(SPECS), "pull", 1)).splitlines()
    assert head == "1 of 4 tools; call one with call_tool_by_name:"
    found = {"description": "Shows what waits for review.", "parameters": {"type": "object"}}
    assert [json.loads(line) for line in lines] == [{"name": "github__list_pull_requests", **found}]
    said = await search(list(SPECS), "elephants")
    assert said.startswith("Nothing fits 'elephants'. There are 4 tools: calendar__createEvent, ")
    assert (await search([], "")) == "There are 0 tools: none"


@requirement("T-26", "P20")
async def test_what_is_shown_is_bounded_whatever_the_tools_say_of_themselves() -> None:
    schema = {"type": "object", "description": "d" * 10 * SCHEMA_BYTES}
    many = [spec(f"tool{n}", "long " * DESCRIPTION_BYTES, input_schema=schema) for n in range(500)]
    shown = await search(many, "long", MOST_FOUND)
    assert len(shown.encode()) < MOST_FOUND * (SCHEMA_BYTES + DESCRIPTION_BYTES + 200)
    assert len(shown.splitlines()) == MOST_FOUND + 1
    assert f"and {500 - MOST_NAMED} more" in await search(many, "")


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.register(CallToolByName())
    made.register(ToolSearch())
    return made


def asked(arguments: str, name: str = "call_tool_by_name") -> AskedCall:
    return AskedCall(provider_id="p", name=name, arguments=arguments)


@requirement("T-26", "P08")
@pytest.mark.parametrize(
    ("inner", "same"),
    [
        ('{"n": 12345678901234567890123, "s": "007", "f": 1.10, "t": true}', True),
        ('{"name": "other", "arguments": {"a": 1}}', True),
        ("{}", True),
        ('{"a": 1, "a": 2}', False),
        ('{"a": NaN}', False),
        ('"{}"', False),
        ("[]", False),
        ("null", False),
        ('{"a": 1', False),
    ],
)
def test_a_call_by_name_is_the_call_it_names_and_nothing_of_its_arguments_is_guessed(
    registry: ToolRegistry, inner: str, same: bool
) -> None:
    call = asked(f'{{"name": "far__tool", "arguments": {inner}}}')
    meant = registry.meant(call)
    if same:
        assert (meant.name, meant.provider_id) == ("far__tool", "p")
        assert json.loads(meant.arguments) == json.loads(inner)
    else:
        assert meant == call, "it stays what it was, and the chain says what is wrong with it"


@requirement("T-26")
def test_the_wish_for_a_summary_goes_with_the_call_that_is_meant(registry: ToolRegistry) -> None:
    meant = registry.meant(asked('{"name": "far__tool", "arguments": {"a": 1}, "summary_focus": "totals"}'))
    assert (meant.name, json.loads(meant.arguments)) == ("far__tool", {"summary_focus": "totals", "a": 1})


@requirement("T-26")
@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{}",
        '{"name": "x"}',
        '{"arguments": {}}',
        '{"name": 5, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": ["x"], "arguments": {}}',
        '{"name": "x", "arguments": {}, "more": 1}',
        '{"name": "x", "name": "y", "arguments": {}}',
        '{"name": "call_tool_by_name", "arguments": {"name": "x", "arguments": {}}}',
        '{"name": "tool_search", "arguments": {"query": ""}}',
    ],
)
def test_what_names_no_tool_clearly_stands_for_none(registry: ToolRegistry, arguments: str) -> None:
    assert registry.meant(asked(arguments)) == asked(arguments)


def test_other_calls_are_what_they_are(registry: ToolRegistry) -> None:
    for name in ("tool_search", "unknown"):
        call = asked('{"name": "x", "arguments": {}}', name)
        assert registry.meant(call) == call
