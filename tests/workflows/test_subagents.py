"""Subagents on real parts: spawned, at work beside their parent, their results delivered or collected once."""

from pathlib import Path
from typing import Any

import pytest

from roundturn.run import RunRow
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step, until

ORCHESTRATOR = """+++
name = "assistant"
tier = "chat"
subagents = ["helper", "thinker"]
+++
Delegate.
"""
THINKER = """+++
name = "thinker"
tier = "reasoning"
description = "Thinks."
subagents = ["helper"]
+++
Think.
"""
HELPER = """+++
name = "helper"
description = "Looks things up."
+++
Look things up.
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    for name, text in (("assistant", ORCHESTRATOR), ("thinker", THINKER), ("helper", HELPER)):
        (folder / f"{name}.md").write_text(text)
    return folder


def spawn(task: str, agent: str = "helper", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("spawn_subagent", {"agent": agent, "task": task, **more})


async def run_ended(s: System, run: str) -> RunRow:
    async def row() -> RunRow | None:
        found = await s.client.store.runs.read(run)
        return found if found is not None and found.ended_at is not None else None

    found: RunRow = await until(row, f"the end of the run {run}")
    return found


async def answer(s: System, run: str) -> str:
    return (await s.client.store.turns.of_run(run))[-1].text


@requirement("B-01", "B-02", "B-08", "A-03")
async def test_two_subagents_work_in_the_background_and_their_results_are_one_system_turn(
    system: OpenSystem, agents: Path
) -> None:
    s = await system(
        scenario(
            "main job",
            step(spawn("alpha job"), spawn("beta job")),
            step(text="sent them off"),
            step(text="got: {{newest}}"),
        ),
        scenario("alpha job", step(("note_once", {"text": "a"})), step(text="alpha found 1")),
        scenario("beta job", step(("note_once", {"text": "b"})), step(text="beta found 2")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    ended = await run_ended(s, run)
    assert ended.state == "completed"
    turns = await s.client.store.turns.of_run(run)
    assert [turn.state for turn in turns] == ["completed", "completed"]
    assert turns[0].text == "sent them off"
    assert "alpha found 1" in turns[1].text
    assert "beta found 2" in turns[1].text
    assert len(s.effects()) == 2
    types = await s.types(run)
    assert types.count("subagent.spawned") == 2
    assert types.count("subagent.ended") == 2
    assert types.count("turn.started") == 2
    assert types[-1] == "run.ended"
    for child in await s.client.store.runs.children(run):
        await s.workflow_closed(f"session/{child.session}")
        described = await s.temporal.get_workflow_handle(f"session/{child.session}").describe()
        assert described.parent_id == f"turn/{run}"  # a child workflow, started and left to itself
    await s.workflow_closed(f"session/{turns[0].session}")


@requirement("B-01")
async def test_a_spawn_answers_at_once_while_the_subagent_works(system: OpenSystem, agents: Path) -> None:
    s = await system(
        scenario("main job", step(spawn("slow job")), step(text="ref: {{results}}"), step(text="done")),
        scenario("slow job", step(("note_once", {"text": "a", "gate": "open"})), step(text="slow")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    first = await s.ended(run)
    (child,) = await s.client.store.runs.children(run)
    assert first.text.startswith("ref: [async_subagent_ref]")
    assert child.session in first.text
    assert child.state == "active"
    await s.workflow_closed(f"session/{first.session}")  # while it waits for results, it costs nothing
    (s.workdir / "open").touch()
    assert (await run_ended(s, run)).state == "completed"


@requirement("A-17", "B-05")
@pytest.mark.parametrize("how", ["blocking", "wait"])
async def test_a_result_that_is_waited_for_comes_as_the_calls_result_and_is_not_delivered(
    system: OpenSystem, agents: Path, how: str
) -> None:
    if how == "blocking":
        steps = [step(spawn("alpha job", blocking=True))]
    else:
        steps = [step(spawn("alpha job")), step(("wait_subagent", {"subagent": "{{subagent}}"}))]
    s = await system(
        scenario("main job", *steps, step(text="got: {{results}}")),
        scenario("alpha job", step(("note_once", {"text": "a", "gate": "open"})), step(text="alpha found 1")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    await until(s.effects, "the subagent's tool")
    (s.workdir / "open").touch()
    assert (await run_ended(s, run)).state == "completed"
    assert "alpha found 1" in await answer(s, run)
    assert (await s.types(run)).count("turn.started") == 1


async def test_a_wait_that_is_over_says_so_and_the_result_comes_later(
    system: OpenSystem, agents: Path
) -> None:
    s = await system(
        scenario(
            "main job",
            step(spawn("alpha job", blocking=True, timeout_s=1)),
            step(text="{{results}}"),
            step(text="later: {{newest}}"),
        ),
        scenario("alpha job", step(("note_once", {"text": "a", "gate": "open"})), step(text="alpha found 1")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    assert "still at work" in (await s.ended(run)).text
    (s.workdir / "open").touch()
    assert (await run_ended(s, run)).state == "completed"
    assert "alpha found 1" in await answer(s, run)


@requirement("A-05", "A-19", "A-20")
async def test_a_delegation_that_is_not_allowed_is_refused_with_its_reason(
    system: OpenSystem, agents: Path
) -> None:
    s = await system(
        scenario("main job", step(spawn("x", agent="assistant")), step(text="{{results}}")), agents_dir=agents
    )
    await s.start_worker()
    row = await s.ended(await s.send("main job"))
    assert "may delegate to helper, thinker; not to 'assistant'" in row.text


async def test_an_agent_without_subagents_has_no_such_tool(system: OpenSystem, agents: Path) -> None:
    s = await system(
        scenario("main job", step(spawn("alpha job")), step(text="ok"), step(text="ok")),
        scenario("alpha job", step(spawn("more")), step(text="{{results}}")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    await run_ended(s, run)
    (child,) = await s.client.store.runs.children(run)
    assert "this session was not given that tool" in await answer(s, child.id)
    assert not await s.client.store.runs.children(child.id)


@requirement("I-03")
async def test_a_stop_ends_the_turn_and_its_subagents(system: OpenSystem, agents: Path) -> None:
    s = await system(
        scenario("main job", step(spawn("alpha job", blocking=True), spawn("beta job")), step(text="no")),
        scenario("alpha job", step(("note_once", {"text": "a", "gate": "never"})), step(text="no")),
        scenario("beta job", step(("note_once", {"text": "b", "gate": "never"})), step(text="no")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    await until(lambda: len(s.effects()) == 2, "both tools")
    await s.client.stop(run, "ada")
    assert (await run_ended(s, run)).state == "cancelled"
    for child in await s.client.store.runs.children(run):
        assert (await run_ended(s, child.id)).state == "cancelled"
    assert (await s.types(run)).count("turn.started") == 1
    awaited = await s.client.store.ledger.read(f"{run}.0.0")
    assert awaited is not None
    assert awaited.metadata == {
        "error_type": "turn_ended"
    }  # nothing is unknown about a call that only waited


async def test_a_stop_reaches_subagents_of_a_run_that_waits_for_them(
    system: OpenSystem, agents: Path
) -> None:
    s = await system(
        scenario("main job", step(spawn("alpha job")), step(text="sent off")),
        scenario("alpha job", step(("note_once", {"text": "a", "gate": "never"})), step(text="no")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    await s.ended(run)
    await until(s.effects, "the subagent's tool")
    await s.client.stop(run.rsplit("/", 1)[0], "ada")
    assert (await run_ended(s, run)).state == "cancelled"
    (child,) = await s.client.store.runs.children(run)
    assert (await run_ended(s, child.id)).state == "cancelled"


@requirement("A-23", "A-19")
async def test_three_levels_of_agents_bring_their_results_up(system: OpenSystem, agents: Path) -> None:
    s = await system(
        scenario(
            "main job",
            step(spawn("ponder job", agent="thinker")),
            step(text="sent"),
            step(text="top: {{newest}}"),
        ),
        scenario("ponder job", step(spawn("alpha job")), step(text="sent"), step(text="middle: {{newest}}")),
        scenario("alpha job", step(text="alpha found 1")),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    assert (await run_ended(s, run)).state == "completed"
    text = await answer(s, run)
    assert "middle:" in text
    assert "alpha found 1" in text
    (child,) = await s.client.store.runs.children(run)
    (grandchild,) = await s.client.store.runs.children(child.id)
    assert grandchild.root == child.root == run


async def test_a_subagent_that_cannot_begin_is_told_to_its_parent(system: OpenSystem, agents: Path) -> None:
    s = await system(
        scenario("main job", step(spawn("alpha job")), step(text="sent"), step(text="got: {{newest}}")),
        scenario("alpha job", step(faults=[{"kind": "empty"}])),
        agents_dir=agents,
    )
    await s.start_worker()
    run = await s.send("main job")
    assert (await run_ended(s, run)).state == "completed"
    assert "incomplete (the model withheld its answer" in await answer(s, run)
