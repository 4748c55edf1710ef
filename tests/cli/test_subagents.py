"""What a person and a script see of a run with subagents: `run`, `events --tree`, and the live view on a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk, OpenDesk
from tests.cli.grid import Grid
from tests.cli.test_approvals import Terminal
from tests.requirements import requirement
from tests.system import scenario, step, until

LEADER = """+++
name = "assistant"
tier = "chat"
subagents = ["helper"]
+++
Delegate.
"""
HELPER = """+++
name = "helper"
+++
Help.
"""
COLUMNS = 80


def spawn(task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("spawn_subagent", {"agent": "helper", "task": task, **more})


LEADS = scenario(
    "lead", step(spawn("look here", title="here")), step(text="sent it off"), step(text="both of us are done")
)
LOOKS = scenario("look here", step(("note_pure", {"text": "a"})), step(text="found it"))
ASKS = scenario("look here", step(("bash", {"command": "echo shipped"})), step(text="found it"))


@pytest.fixture
def led(desk: OpenDesk, tmp_path: Path) -> Any:
    folder = tmp_path / "agents"
    folder.mkdir()
    for name, text in (("assistant", LEADER), ("helper", HELPER)):
        (folder / f"{name}.md").write_text(text)

    async def open_(*scenarios: dict[str, Any]) -> Desk:
        return await desk(*scenarios, agents_dir=folder)

    return open_


@requirement("A-38")
async def test_a_pipe_has_a_line_for_what_each_agent_does_and_the_last_answer_of_the_run(led: Any) -> None:
    d = await led(LEADS, LOOKS)
    done = await d.roundturn("run", "lead")
    assert (done.code, done.out) == (0, "both of us are done\n")
    said = [" ".join(line.split()) for line in done.err.splitlines()]
    assert "assistant + helper here" in said
    assert any(line.startswith("helper ✓ note_pure a ") for line in said)
    assert any(line.startswith("helper ✓ completed · 2 steps · ") for line in said)
    assert "assistant ↓ 1 result: helper" in said
    assert said[-1].startswith("completed · 3 steps · 1 subagent · ")
    assert "\x1b" not in done.err


async def test_the_document_counts_the_whole_tree_and_lists_the_subagents(led: Any) -> None:
    d = await led(LEADS, ASKS)
    waits = await d.roundturn("run", "lead", "--until-approval", "--json")
    found = waits.document
    (child,) = found["subagents"]
    assert (waits.code, found["state"], child["state"]) == (3, "running", "running")
    (asked,) = found["approvals"]
    assert asked["state"] == "pending"
    assert (await d.system.pending(child["run"]))[0].id == asked["approval_id"]
    listed = (await d.roundturn("approvals", "list", "--run", found["run"], "--json")).document["items"]
    assert [one["approval_id"] for one in listed] == [asked["approval_id"]]
    await d.system.decide(asked["approval_id"])
    followed = await d.roundturn("events", found["run"], "--follow", "--jsonl")
    assert followed.code == 0
    last = json.loads(followed.out.splitlines()[-1])
    assert (last["run"], last["type"]) == (found["run"], "run.ended")


async def test_tokens_are_those_of_the_tree_and_steps_those_of_the_run(led: Any) -> None:
    d = await led(LEADS, LOOKS)
    found = (await d.roundturn("run", "lead", "--json")).document
    (child,) = found["subagents"]
    assert set(child) == {"session", "run", "agent", "title", "state", "usage"}
    assert (child["agent"], child["title"], child["state"]) == ("helper", "here", "completed")
    assert (found["state"], found["text"], found["steps"]) == ("completed", "both of us are done", 3)
    assert found["turn"] == f"{found['session']}/2", "the last one of the run"
    assert found["cost"]["unpriced_calls"] == 5
    turns = await d.system.client.turns_of_run(found["run"])
    own = sum(turn.usage.input_tokens or 0 for turn in turns)
    assert found["usage"]["input_tokens"] == own + child["usage"]["input_tokens"]


async def test_a_conversation_shows_each_turn_once_and_what_it_began_with(led: Any) -> None:
    d = await led(LEADS, LOOKS)
    session = (await d.roundturn("run", "lead", "--json")).document["session"]
    items = (await d.roundturn("sessions", session, "--json")).document["items"]
    assert [(item["message"], item["text"]) for item in items] == [
        ("lead", "sent it off"),
        ("[1 result of subagents]", "both of us are done"),
    ]
    assert [[call["tool"] for call in item["calls"]] for item in items] == [["spawn_subagent"], []]


@requirement("A-38")
async def test_the_events_of_a_tree_name_their_agent_and_come_by_time(led: Any) -> None:
    d = await led(LEADS, LOOKS)
    found = (await d.roundturn("run", "lead", "--json")).document
    piped = [
        line.split("\t") for line in (await d.roundturn("events", found["run"], "--tree")).out.splitlines()
    ]
    assert {len(fields) for fields in piped} == {5}
    assert [fields[1] for fields in piped].count("helper") > 5
    spawned = next(i for i, fields in enumerate(piped) if fields[3] == "subagent.spawned")
    assert all(fields[1] == "assistant" for fields in piped[: spawned + 1])
    assert piped[-1][1:4:2] == ["assistant", "run.ended"]
    lines = (await d.roundturn("events", found["run"], "--tree", "--jsonl", "--follow")).out.splitlines()
    events = [json.loads(line) for line in lines]
    assert [(one["agent"], one["type"]) for one in events] == [(line[1], line[3]) for line in piped]
    alone = (await d.roundturn("events", found["run"], "--jsonl")).out.splitlines()
    assert {json.loads(line)["run"] for line in alone} == {found["run"]}
    refused = await d.roundturn("events", found["run"], "--tree", "--after", "3", "--json")
    assert (refused.code, refused.error["type"]) == (2, "usage")


def shown(terminal: Terminal) -> list[str]:
    grid = Grid(COLUMNS)
    grid.feed(terminal.read())
    return grid.lines


@requirement("A-38", "P124")
@pytest.mark.parametrize("colour", [True, False])
async def test_on_a_terminal_the_tree_is_drawn_in_its_place_and_leaves_nothing_behind(
    led: Any, colour: bool
) -> None:
    d = await led(LEADS, ASKS)
    if not colour:
        d.roundturn.environment["NO_COLOR"] = "1"
    terminal = Terminal(d, "run", "lead", columns=COLUMNS)
    await until(
        lambda: shown(terminal)[-1:] and "approvals approve ap_" in shown(terminal)[-1], "the question"
    )
    tree = [line for line in shown(terminal) if "waiting for" in line]
    assert [line.split()[0] for line in tree] == ["assistant", "└─"], "however often it was drawn"
    assert "waiting for 1 subagent" in tree[0]
    assert "helper" in tree[1] and "waiting for a person" in tree[1]
    assert max(map(len, tree)) < COLUMNS
    (row,) = await d.system.client.approvals("pending", None, 10)
    await d.system.decide(row.id)
    assert await terminal.ended() == 0
    left = shown(terminal)
    assert not any(line.startswith("└─ helper") for line in left)
    assert "both of us are done" in left
    assert left[-1].startswith("completed · 3 steps · 1 subagent")
    assert ("\x1b[1;33m" in terminal.said) is colour


async def test_a_dumb_terminal_and_a_ci_get_lines_and_no_drawing(led: Any) -> None:
    d = await led(LEADS, LOOKS)
    d.roundturn.environment["CI"] = "1"
    terminal = Terminal(d, "run", "lead")
    assert await terminal.ended() == 0
    assert "\x1b" not in terminal.said
    assert "helper" in terminal.said


@requirement("I-03")
@pytest.mark.parametrize("named", ["session", "run", "after a later message"])
async def test_a_run_that_only_waits_for_its_subagents_is_listed_and_stopped_with_them(
    led: Any, named: str
) -> None:
    d = await led(LEADS, ASKS, scenario("hello", step(text="hi")))
    session, run = await d.start("lead")
    await d.system.ended(run)
    (child,) = await d.system.client.store.runs.children(run)
    await d.system.pending(child.id)
    if named == "after a later message":
        await d.system.ended(await d.system.send("hello", session))
    (line,) = [
        one
        for one in (await d.roundturn("sessions", "--json")).document["items"]
        if one["session"] == session
    ]
    assert (line["state"], line["waits"]) == ("waiting for a person", 1)
    done = await d.roundturn("stop", run if named == "run" else session, "--json")
    assert (done.code, done.document["run"], done.document["state"]) == (0, run, "cancelled")
    assert (await d.system.client.store.runs.read(child.id)).state == "cancelled"  # stop waited for it too
    again = await d.roundturn("stop", run, "--json")
    assert (again.code, again.document["state"]) == (0, "cancelled")


async def test_a_team_that_cannot_work_is_refused_before_a_worker_meets_it(led: Any, tmp_path: Path) -> None:
    d = await led(LEADS, LOOKS)
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "boss.md").write_text('+++\nname = "boss"\nsubagents = ["helper"]\n+++\nDelegate.')
    done = await d.roundturn("agents", "validate", str(folder / "boss.md"))
    assert done.code == 2
    assert "boss (worker, since it names no tier) may not spawn helper" in done.err


async def test_a_turn_that_failed_is_told_though_its_run_goes_on(led: Any) -> None:
    refused = [{"kind": "status", "status": 400, "message": "no"}]
    lead = scenario("lead", step(spawn("look here")), step(text="x", faults=refused), step(text="got it"))
    d = await led(lead, LOOKS)
    done = await d.roundturn("run", "lead")
    assert done.code == 0
    assert "turn failed: " in done.err
