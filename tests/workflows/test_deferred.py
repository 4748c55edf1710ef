"""Tools that are not in the model's list: found by search, called by name, judged like any other."""

from typing import Any

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step

NOBODY = {
    "id": "nobody-wipes",
    "effect": "deny",
    "match": {"name": "archive_wipe"},
    "reason": "it is all we have",
}
POLICY = {"rules": [NOBODY]}


def named(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return ("call_tool_by_name", {"name": tool, "arguments": arguments})


async def told(s: System, turn: str, position: str) -> tuple[str, str, str]:
    row = await s.client.store.ledger.read(f"{turn}.{position}")
    assert row is not None
    return row.tool, row.output, str(row.metadata.get("error_type", ""))


@requirement("T-26", "R-01", "P92")
async def test_a_deferred_tool_is_found_asked_about_by_its_own_name_and_run_and_a_denied_one_is_not_there(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario(
            "go",
            step(("tool_search", {"query": "archive", "limit": 10})),
            step(
                named("archive_note", text="kept"),
                named("archive_wipe", text="gone"),
                named("archive_counts", text="misspelt"),
                named("archive_count", text=5),
                ("call_tool_by_name", {"name": "archive_count", "arguments": '{"text": "in quotes"}'}),
                named("call_tool_by_name", name="archive_wipe", arguments={"text": "nested"}),
            ),
            step(named("archive_count", text="how many"), ("archive_wipe", {"text": "guessed"})),
            step(text="{{results}}"),
        ),
        policy=POLICY,
    )
    await s.start_worker(TEST_DEFERRED="1")
    turn = await s.send("go")
    (asked,) = await s.pending(turn)
    assert (asked.tool, asked.arguments) == ("archive_note", {"text": "kept"})
    assert s.effects() == []
    await s.decide(asked.id)
    row = await s.ended(turn)
    assert row.state == "completed"
    _, found, _ = await told(s, turn, "0.0")
    assert "archive_note" in found
    assert "archive_count" in found
    assert "wipe" not in found
    assert '"parameters":{' in found
    assert s.effects() == [
        f"archive_note kept {turn}.1.0",
        f"archive_count how many {turn}.2.0",
    ]
    assert await told(s, turn, "1.0") == ("archive_note", "noted kept", "")
    for position in ("1.1", "2.1"):
        tool, output, error = await told(s, turn, position)
        assert (tool, error) == ("archive_wipe", "tool_policy_denied")
        assert "'nobody-wipes' of the operator layer: it is all we have" in output
    tool, output, error = await told(s, turn, "1.2")
    assert (tool, error) == ("archive_counts", "tool_not_found")
    assert "archive_count" in output
    assert "archive_wipe" not in output
    assert (await told(s, turn, "1.3"))[2] == "invalid_arguments"
    tool, _, error = await told(s, turn, "1.4")
    assert (tool, error) == ("call_tool_by_name", "invalid_arguments")
    tool, output, error = await told(s, turn, "1.5")
    assert (tool, error) == ("call_tool_by_name", "not_deferred")
    requests = [request["body"] for request in await s.model.requests()]
    lists = [request["tools"] for request in requests]
    assert all(tools == lists[0] for tools in lists), (
        "finding a tool changes nothing of the prompt's beginning"
    )
    names = {tool["function"]["name"] for tool in lists[0]}
    assert names >= {"tool_search", "call_tool_by_name"}
    assert not any(name.startswith("archive") for name in names)
    calls = [call["function"]["name"] for call in requests[-1]["messages"][4]["tool_calls"]]
    assert set(calls) == {"call_tool_by_name"} or "call_tool_by_name" in calls, (
        "the model reads what it wrote"
    )


@requirement("T-26", "P-01")
async def test_in_plan_mode_only_what_reads_is_found(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("tool_search", {"query": "archive"}), named("archive_note", text="no")),
            step(text="{{results}}"),
        )
    )
    await s.start_worker(TEST_DEFERRED="1")
    session = (await s.client.open_session("assistant", s.workdir, run_mode="plan")).id
    turn = await s.send("go", session)
    await s.ended(turn)
    _, found, _ = await told(s, turn, "0.0")
    assert "archive_count" in found
    assert "archive_note" not in found
    tool, output, error = await told(s, turn, "0.1")
    assert (tool, error) == ("archive_note", "tool_policy_denied")
    assert "'plan' of the run mode layer" in output
    assert s.effects() == []


@requirement("T-26")
async def test_an_agent_that_lists_only_a_deferred_tool_finds_it(system: OpenSystem, tmp_path: Any) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "assistant.md").write_text('+++\nname = "assistant"\ntools = ["archive_count"]\n+++\nCount.\n')
    s = await system(
        scenario(
            "go",
            step(("tool_search", {"query": "notes"})),
            step(named("archive_count", text="all"), named("archive_note", text="no")),
            step(text="{{results}}"),
        ),
        agents_dir=agents,
    )
    await s.start_worker(TEST_DEFERRED="1")
    turn = await s.send("go")
    await s.ended(turn)
    shown = (await s.model.requests())[0]["body"]["tools"]
    assert {tool["function"]["name"] for tool in shown} == {"tool_search", "call_tool_by_name"}
    assert "archive_note" not in (await told(s, turn, "0.0"))[1]
    assert (await told(s, turn, "1.0"))[1] == "noted all"
    assert (await told(s, turn, "1.1"))[2] == "tool_policy_denied"
