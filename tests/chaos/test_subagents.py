"""Subagents while processes die: every child works once, every result reaches its parent once."""

from pathlib import Path

import pytest

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, TemporalServer, open_system, scenario, step, until
from tests.workflows.test_subagents import agents, answer, run_ended, spawn  # noqa: F401 - a fixture among them

IN_BACKGROUND = (
    scenario(
        "main job",
        step(spawn("alpha job"), spawn("beta job")),
        step(text="sent them off"),
        step(text="got: {{newest}}"),
    ),
    scenario("alpha job", step(("note_once", {"text": "a"})), step(text="alpha found 1")),
    scenario("beta job", step(("note_once", {"text": "b"})), step(text="beta found 2")),
)
AWAITED = (
    scenario("main job", step(spawn("alpha job", blocking=True)), step(text="got: {{results}}")),
    scenario("alpha job", step(("note_once", {"text": "a"})), step(text="alpha found 1")),
)


async def all_once(s: System, run: str, children: int) -> str:
    """Nothing lost, nothing doubled; returns the answer."""
    ended = await run_ended(s, run)
    assert (ended.state, ended.reason) == ("completed", "")
    found = await s.client.store.runs.children(run)
    assert [child.state for child in found] == ["completed"] * children
    assert len(s.effects()) == children
    types = await s.types(run)
    assert types.count("subagent.spawned") == types.count("subagent.ended") == children
    assert types.count("run.ended") == 1
    for turn in await s.client.store.turns.of_run(run):
        assert turn.state == "completed"
    return await answer(s, run)


@requirement("B-07", "B-04", "P38")
@pytest.mark.parametrize(
    "fault",
    [
        "runs.spawn:before:died",
        "runs.spawn:after:died",
        "turns.finish:before:died",
        "turns.finish:after:died",
        "turns.finish:before:died:3",
        "turns.finish:after:died:3",
        "turns.finish:after:died:4",
        "inbox.take:after:died:2",
        "inbox.take:after:died:4",
        "inbox.take:before:died:4",
    ],
)
async def test_a_worker_that_dies_anywhere_on_the_way_of_a_delegation_loses_and_doubles_nothing(
    system: OpenSystem,
    agents: Path,  # noqa: F811
    tmp_path: Path,
    fault: str,
) -> None:
    marker = tmp_path / "died"
    s = await system(*IN_BACKGROUND, agents_dir=agents)
    worker = await s.start_worker(fault.replace("died", str(marker)))
    run = await s.send("main job")
    await until(lambda: marker.exists() and worker.process.poll() is not None, "the worker's death")
    await s.start_worker()
    await all_once(s, run, 2)
    heard = [turn.text for turn in await s.client.store.turns.of_run(run)]
    assert sum("alpha found 1" in text for text in heard) == 1
    assert sum("beta found 2" in text for text in heard) == 1


@requirement("B-05", "B-07")
@pytest.mark.parametrize(
    "fault", ["runs.collect:before:died", "runs.collect:after:died:2", "turns.finish:after:died"]
)
async def test_a_worker_that_dies_around_a_collected_result_neither_loses_nor_delivers_it(
    system: OpenSystem,
    agents: Path,  # noqa: F811
    tmp_path: Path,
    fault: str,
) -> None:
    marker = tmp_path / "died"
    s = await system(*AWAITED, agents_dir=agents)
    worker = await s.start_worker(fault.replace("died", str(marker)))
    run = await s.send("main job")
    await until(lambda: marker.exists() and worker.process.poll() is not None, "the worker's death")
    await s.start_worker()
    assert "alpha found 1" in await all_once(s, run, 1)
    assert len(await s.client.store.turns.of_run(run)) == 1


@requirement("B-07", "P38")
async def test_a_server_that_dies_while_results_are_on_their_way_delivers_them_once(
    tmp_path: Path,
    agents: Path,  # noqa: F811
) -> None:
    server = TemporalServer(tmp_path)
    server.start()
    gated = (
        IN_BACKGROUND[0],
        scenario("alpha job", step(("note_once", {"text": "a", "gate": "open"})), step(text="alpha found 1")),
        scenario("beta job", step(("note_once", {"text": "b", "gate": "open"})), step(text="beta found 2")),
    )
    try:
        async with open_system(tmp_path / "home", server, list(gated), agents_dir=agents) as s:
            worker = await s.start_worker()
            run = await s.send("main job")
            await until(lambda: len(s.effects()) == 2, "both tools")
            server.kill()
            (s.workdir / "open").touch()
            server.start()
            await all_once(s, run, 2)
            assert worker.process.poll() is None
    finally:
        server.kill()
