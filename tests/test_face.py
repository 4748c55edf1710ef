"""What a session freezes: whatever some call of it may be let pass, in the mode in which it may."""

from typing import Any

from roundturn.agent import AgentDefinition
from roundturn.face import findable, freeze
from roundturn.registry import ToolRegistry
from roundturn.settings import Settings
from roundturn.tools import BUILTIN
from tests.effects import ArchiveCount, ArchiveNote
from tests.requirements import requirement

AGENT = AgentDefinition(name="assistant", prompt="p")


def registry(*more: Any) -> ToolRegistry:
    made = ToolRegistry()
    for tool in (*BUILTIN.values(), *more):
        made.register(tool())
    return made


def settings(*rules: dict[str, Any]) -> Settings:
    return Settings(policy={"rules": list(rules)})  # type: ignore[arg-type]


def record(id_: str, effect: str, name: str, **when: str) -> dict[str, Any]:
    return {"id": id_, "effect": effect, "match": {"name": name}, "when": when}


@requirement("R-09", "R-16", "M-20")
def test_a_tool_that_only_one_entry_lists_is_given_and_its_calls_are_judged() -> None:
    rules = (record("a", "allow", "read_file"), record("b", "allow", "write_file", entry="cli"))
    snapshot = freeze(AGENT, registry(), settings(*rules), {})
    assert set(snapshot.visible) == {"read_file", "write_file"}


@requirement("P-01", "M-20")
def test_a_tool_that_only_plan_mode_lets_pass_is_given_and_shown_there() -> None:
    snapshot = freeze(AGENT, registry(), settings(record("a", "deny", "read_file", mode="build")), {})
    assert "read_file" not in snapshot.visible
    assert "read_file" in snapshot.unlisted
    for mode, shown in (("build", False), ("plan", True)):
        names = {tool["function"]["name"] for tool in snapshot.face(mode)}  # type: ignore[arg-type]
        assert ("read_file" in names) == shown
        assert ("write_file" in names) == (mode == "build")


@requirement("T-26")
def test_the_way_to_deferred_tools_is_there_while_there_are_any() -> None:
    ways = {"tool_search", "call_tool_by_name"}
    without = freeze(AGENT, registry(), settings(), {})
    assert not ways & set(without.visible)
    tools = registry(ArchiveNote, ArchiveCount)
    some = freeze(AGENT, tools, settings(record("a", "deny", "archive_note")), {})
    assert ways <= set(some.visible)
    assert some.deferred == ("archive_count",)
    assert [spec.name for spec in findable(some, tools, some.rules(("cli",), "build", ""))] == [
        "archive_count"
    ]
    none = freeze(AGENT, tools, settings(record("a", "deny", "archive_*")), {})
    assert not ways & set(none.visible)
