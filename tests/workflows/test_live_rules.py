"""Live rules in the whole system: sessions that run hear of a change at their next call, and show the same tools as before."""

from pathlib import Path
from typing import Any

import pytest

from gateway.live_rules import put
from roundturn.ledger import CallRow
from roundturn.live_rules import LiveRulesRow
from roundturn.rules import Match, Rule
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step, until

STOP = Rule(id="stop", effect="deny", match=Match(side_effects=True), reason="the disk is full")
HELPER = '+++\nname = "helper"\ndescription = "Helps."\nsubagents = []\n+++\nHelp.\n'


async def set_(s: System, *rules: Rule) -> LiveRulesRow:
    return (await put(s.client, s.settings, rules, "ada")).row


async def call(s: System, turn: str, position: str) -> CallRow:
    found = await s.client.store.ledger.read(f"{turn}.{position}")
    assert found is not None
    return found


def told(row: CallRow) -> tuple[Any, ...]:
    return (row.status, *(row.metadata.get(name) for name in ("rule_id", "layer", "reason")))


@requirement("R-18", "R-15", "P92")
async def test_running_sessions_of_two_agents_change_at_their_next_call_and_back(
    system: OpenSystem, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "helper.md").write_text(HELPER)
    jobs = [
        scenario(
            name,
            step(("note_pure", {"text": name, "gate": "open"})),
            step(("note_once", {"text": name}), ("note_pure", {"text": "look"})),
            step(text="{{results}}"),
        )
        for name in ("one", "two", "three")
    ]
    s = await system(*jobs, agents_dir=agents)
    worker = await s.start_worker()
    helper = (await s.client.open_session("helper", s.workdir)).id
    turns = [await s.send("one"), await s.send("two", helper)]
    await until(lambda: len(s.effects()) == 2, "both at work")
    await set_(s, STOP)
    (s.workdir / "open").touch()
    for turn in turns:
        row = await s.ended(turn)
        assert row.state == "completed"
        assert told(await call(s, turn, "1.0")) == ("denied", "stop", "live", "the disk is full")
        assert "rule 'stop' of the live layer: the disk is full" in row.text
        assert (await call(s, turn, "1.1")).status == "completed", "what only reads goes on"
    assert not [line for line in s.effects() if line.startswith("note_once")]
    shown = [request["body"]["tools"] for request in await s.model.requests()]
    assert "note_once" in {tool["function"]["name"] for tool in shown[0]}
    assert all(tools in (shown[0], shown[1]) for tools in shown), "what a session shows is frozen"

    fresh = await s.send("three")
    await s.ended(fresh)
    assert told(await call(s, fresh, "1.0"))[1:3] == ("stop", "live"), "a session that begins now too"
    await set_(s)
    for turn in (await s.send("three", fresh.split("/")[0]), await s.send("two", helper)):
        await s.ended(turn)
        assert (await call(s, turn, "1.0")).status == "completed"
    logged = [line for line in worker.lines() if line["event"] == "live_rules.hold"]
    assert [(line["version"], line["actor"], line["rules"]) for line in logged] == [
        (1, "ada", ["stop"]),
        (2, "ada", []),
    ]


@requirement("R-18", "M-09")
async def test_a_call_that_was_approved_before_is_denied_when_it_comes_back(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        policy={"ask": ["note_once"], "allow": ["*"]},
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    worker.kill()
    assert await s.decide(approval.id) == "decided"
    await set_(s, STOP)
    await s.start_worker()
    row = await s.ended(turn)
    assert s.effects() == []
    assert told(await call(s, turn, "0.0")) == ("denied", "stop", "live", "the disk is full")
    assert row.state == "completed"
    kept = await s.client.store.approvals.read(approval.id)
    assert kept is not None
    assert kept.consumed_at is None, "the yes was not used up"


@requirement("R-18", "R-12")
async def test_the_gate_is_shut_for_all_and_opened_for_one_tool(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_pure", {"text": "a"})), step(text="done")),
        scenario(
            "night", step(("note_once", {"text": "b"}), ("note_keyed", {"text": "c"})), step(text="done")
        ),
        policy={},
    )
    await s.start_worker()
    await set_(s, Rule(id="ask-all", effect="require_approval", match=Match(name=("*",))))
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    assert (approval.rule, approval.layer) == ("ask-all", "live")
    await s.decide(approval.id)
    await s.ended(turn)
    assert [line.split()[0] for line in s.effects()] == ["note_pure"]

    await set_(s, Rule(id="night", effect="auto_approve", match=Match(name=("note_once",))))
    turn = await s.send("night")
    (approval,) = await s.pending(turn)
    assert approval.tool == "note_keyed", "the other one ran unasked"
    await s.decide(approval.id, "deny")
    await s.ended(turn)
    assert (await call(s, turn, "0.0")).status == "completed"


@requirement("R-18", "X-03")
async def test_a_record_that_cannot_be_read_denies_every_call_until_it_is_replaced(
    system: OpenSystem,
) -> None:
    s = await system(scenario("go", step(("note_pure", {"text": "a"})), step(text="{{results}}")))
    worker = await s.start_worker()
    await s.client.store.live_rules.replace('{"rules": [{"id": "later", "effect": "delay"}]}', "eve")
    row = await s.ended(await s.send("go"))
    assert s.effects() == []
    assert "the rules cannot be read: live rules.0.effect: " in row.text
    (logged,) = [line for line in worker.lines() if line["event"] == "live_rules.unreadable"]
    assert (logged["version"], logged["actor"]) == (1, "eve")
    await set_(s)
    await s.ended(await s.send("go"))
    assert len(s.effects()) == 1


@requirement("R-18", "P38")
@pytest.mark.parametrize("tool", ["note_once", "note_keyed"])
@pytest.mark.parametrize("alive", [True, False])
async def test_what_runs_when_they_change_is_not_said_to_be_denied(
    system: OpenSystem, alive: bool, tool: str
) -> None:
    s = await system(scenario("go", step((tool, {"text": "a", "gate": "open"})), step(text="{{results}}")))
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    await set_(s, STOP)
    if not alive:
        worker.kill()
        await s.start_worker()
    (s.workdir / "open").touch()
    row = await s.ended(turn)
    found = await call(s, turn, "0.0")
    assert found.status == "completed"
    assert found.metadata.get("error_type", "") == ("" if alive else "outcome_unknown")
    assert "Denied" not in row.text
    assert len(s.effects()) == 1


@requirement("R-18", "R-01", "T-26")
async def test_a_tool_that_is_found_by_search_is_left_out_and_denied_by_its_own_name(
    system: OpenSystem,
) -> None:
    named = ("call_tool_by_name", {"name": "archive_note", "arguments": {"text": "no"}})
    s = await system(
        scenario("go", step(("tool_search", {"query": "archive"}), named), step(text="{{results}}"))
    )
    await s.start_worker(TEST_DEFERRED="1")
    await set_(s, STOP)
    turn = await s.send("go")
    await s.ended(turn)
    found = await call(s, turn, "0.0")
    assert "archive_count" in found.output
    assert "archive_note" not in found.output
    refused = await call(s, turn, "0.1")
    assert (refused.tool, *told(refused)) == ("archive_note", "denied", "stop", "live", "the disk is full")
    assert s.effects() == []


@requirement("R-18", "M-15")
async def test_a_keyed_call_that_was_cut_off_and_is_then_asked_about_and_refused_may_have_run(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("go", step(("note_keyed", {"text": "a", "gate": "open"})), step(text="{{results}}"))
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    await set_(s, Rule(id="watch", effect="require_approval", match=Match(name=("note_keyed",))))
    worker.kill()
    await s.start_worker()
    (asked,) = await s.pending(turn)
    await s.decide(asked.id, "deny")
    row = await s.ended(turn)
    found = await call(s, turn, "0.0")
    assert found.metadata["error_type"] == "outcome_unknown"
    assert "not run" not in row.text
    assert len(s.effects()) == 1
