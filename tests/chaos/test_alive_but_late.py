"""What looks like a death and is none: a lost heartbeat, a locked store, a deploy."""

import asyncio
import signal
import sqlite3

import pytest

from tests import rows
from tests.chaos.conftest import on_sqlite
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step, until


@requirement("Q-01", "P38", "P114")
async def test_a_heartbeat_lost_while_the_tool_lives_is_not_a_death(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a", "gate": "open"})), step(text="{{results}}"))
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    second = await s.start_worker()
    worker.signal(signal.SIGSTOP)  # longer than the heartbeat timeout of 4 s, shorter than the lease of 6 s
    await asyncio.sleep(4.6)
    worker.signal(signal.SIGCONT)

    async def second_attempt() -> bool:
        found = await s.temporal.get_workflow_handle(f"turn/{turn}").describe()
        pending = found.raw_description.pending_activities
        return bool(pending) and pending[0].attempt >= 2

    await until(second_attempt, "the second attempt, which must wait for the first")
    (s.workdir / "open").touch()
    row = await s.ended(turn)
    assert row.text == "noted a"
    assert len(s.effects()) == 1
    assert second.process.poll() is None
    await s.assert_one_terminal_event(turn)


@requirement("Q-01")
async def test_an_owner_that_wakes_after_its_lease_cannot_overwrite_the_honest_unknown(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a", "gate": "open"})), step(text="{{results}}"))
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    worker.signal(signal.SIGSTOP)
    await s.start_worker()
    row = await s.ended(turn, 120)  # the stopped worker still holds polls, and each may swallow an attempt
    assert row.text.startswith("Outcome unknown")
    (s.workdir / "open").touch()
    worker.signal(signal.SIGCONT)

    async def late_try() -> bool:
        attempts = await rows.attempts(s.database, f"{turn}.0.0")
        return {attempt.status for attempt in attempts} == {"unknown", "completed"}

    await until(late_try, "the late result in the audit")
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    assert call.metadata["error_type"] == "outcome_unknown"
    assert len(s.effects()) == 1


@requirement("P117")
@on_sqlite
@pytest.mark.parametrize("when", ["at the model's reply", "at the tool's result"])
async def test_a_store_locked_for_three_seconds_is_waited_for(system: OpenSystem, when: str) -> None:
    model = when == "at the model's reply"
    held = [{"kind": "hold"}] if model else []
    s = await system(
        scenario(
            "go", step(("note_once", {"text": "a", "gate": "open"}), faults=held), step(text="{{results}}")
        )
    )
    await s.start_worker()
    turn = await s.send("go")
    if model:
        await s.model.wait(held=1)
    else:
        await until(s.effects, "the tool")
    lock = sqlite3.connect(s.home / "roundturn.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    (s.workdir / "open").touch()
    if model:
        await s.model.release()
    await asyncio.sleep(3)
    lock.execute("ROLLBACK")
    lock.close()
    row = await s.ended(turn)
    assert (row.state, row.text) == ("completed", "noted a")
    assert len(s.effects()) == 1
    assert len(await s.model.requests()) == 2, "a paid reply is written, not asked for again"


@requirement("P113")
@on_sqlite
@pytest.mark.parametrize("tool", ["note_once", "note_keyed", "note_pure", "model"])
async def test_sigterm_hands_work_on_and_is_never_taken_for_a_stop(system: OpenSystem, tool: str) -> None:
    first = (
        step(("note_once", {"text": "a"}), faults=[{"kind": "hold"}])
        if tool == "model"
        else step((tool, {"text": "a", "gate": "open"}))
    )
    s = await system(scenario("go", first, step(text="{{results}}")), drain_s=1)
    worker = await s.start_worker()
    turn = await s.send("go")
    if tool == "model":
        await s.model.wait(held=1)
    else:
        await until(s.effects, "the tool")
    worker.signal(signal.SIGTERM)
    assert await worker.ended(20) == 0
    running = await s.client.store.turns.read(turn)
    assert running is not None
    assert running.state == "running"
    (s.workdir / "open").touch()
    await s.start_worker()
    row = await s.ended(turn)
    assert row.state == "completed"
    if tool == "note_once":
        assert row.text.startswith("Outcome unknown")
        assert len(s.effects()) == 1
    else:
        assert row.text == "noted a"
    await s.assert_one_terminal_event(turn)


@requirement("P113")
@on_sqlite
async def test_a_tool_that_ends_within_the_drain_keeps_its_result(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a", "gate": "open"})), step(text="{{results}}"))
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    worker.signal(signal.SIGTERM)
    await until(lambda: any(line["event"] == "worker.draining" for line in worker.lines()), "the drain")
    (s.workdir / "open").touch()
    assert await worker.ended(20) == 0
    await s.start_worker()
    assert (await s.ended(turn)).text == "noted a"
    assert len(s.effects()) == 1
