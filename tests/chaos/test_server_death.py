"""The Temporal server dies by SIGKILL and comes back on its file; the worker survives it, nothing is lost or doubled."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.chaos.conftest import on_sqlite
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, TemporalServer, WorkerProcess, scenario, step, until

pytestmark = on_sqlite  # what Temporal's death does is the same on both stores
NOTE = ("note_once", {"text": "a", "gate": "open"})


class Away(Protocol):
    async def __call__(
        self, *scenarios: dict[str, Any], **settings: Any
    ) -> tuple[System, TemporalServer]: ...


@pytest.fixture
async def away(system: OpenSystem, tmp_path: Path) -> AsyncIterator[Away]:
    """A system with a server of its own, which may be killed, and one worker, which must be there at the end."""
    server = TemporalServer(tmp_path)
    server.start()
    workers: list[WorkerProcess] = []

    async def open_(*scenarios: dict[str, Any], **settings: Any) -> tuple[System, TemporalServer]:
        s = await system(*scenarios, server=server, **settings)
        workers.append(await s.start_worker())
        return s, server

    yield open_
    assert [worker.process.poll() for worker in workers] == [None], "the worker outlives the server"
    server.kill()


@requirement("Q-10", "Q-01")
@pytest.mark.parametrize("tool", ["note_once", "note_keyed", "note_pure"])
async def test_a_tool_that_ends_while_the_server_is_away_has_run_once_and_its_result_counts(
    away: Away, tool: str
) -> None:
    s, server = await away(scenario("go", step((tool, NOTE[1])), step(text="{{results}}")))
    turn = await s.send("go")
    await until(s.effects, "the tool")
    server.kill()
    (s.workdir / "open").touch()

    async def settled() -> bool:
        call = await s.client.store.ledger.read(f"{turn}.0.0")
        return call is not None and call.status == "completed"

    await until(settled, "the result in the ledger, with no server to tell")
    server.start()
    row = await s.ended(turn)
    assert (row.state, row.text) == ("completed", "noted a")
    assert s.effects() == [f"{tool} a {turn}.0.0"]
    await s.assert_one_terminal_event(turn)


@requirement("Q-10", "P10")
@pytest.mark.parametrize("reply", ["comes while the server is away", "comes after its return"])
async def test_a_model_call_that_the_server_does_not_live_to_see_is_paid_once(away: Away, reply: str) -> None:
    held = [{"kind": "hold"}]
    s, server = await away(
        scenario("go", step(("note_once", {"text": "a"}), faults=held), step(text="{{results}}"))
    )
    turn = await s.send("go")
    await s.model.wait(held=1)
    server.kill()
    if reply == "comes while the server is away":
        await s.model.release()

        async def stored() -> bool:
            return await s.client.store.ledger.read(f"{turn}.0.0") is not None

        await until(stored, "the reply in the store, with no server to tell")
        server.start()
    else:
        server.start()
        await s.model.release()
    row = await s.ended(turn)
    assert (row.state, row.text) == ("completed", "noted a")
    assert s.effects() == [f"note_once a {turn}.0.0"]
    assert len(await s.model.requests()) == 2, "a reply that is stored is not asked for again"
    await s.assert_one_terminal_event(turn)


@requirement("Q-10", "Q-01")
async def test_a_server_that_dies_three_times_between_the_steps_of_a_turn_costs_time_only(away: Away) -> None:
    names = ("note_once", "note_keyed", "note_brief", "note_pure") * 2
    steps = [step((name, {"text": str(n)})) for n, name in enumerate(names)]
    s, server = await away(scenario("go", *steps, step(text="done")), max_steps=20)
    turn = await s.send("go")
    for seen in (2, 4, 6):
        await until(lambda seen=seen: len(s.effects()) >= seen, f"the end of step {seen - 1}")
        server.kill()
        server.start()
    row = await s.ended(turn)
    assert (row.state, row.text, row.steps) == ("completed", "done", 9)
    once = [line for line in s.effects() if line.startswith("note_once")]
    assert once == [f"note_once 0 {turn}.0.0", f"note_once 4 {turn}.4.0"]
    assert {line.split()[1] for line in s.effects()} == {str(n) for n in range(8)}
    await s.assert_one_terminal_event(turn)


@requirement("Q-10", "P41", "P38")
@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_verdict_given_while_the_server_is_away_is_obeyed_when_it_is_back(
    away: Away, verdict: str
) -> None:
    s, server = await away(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        policy={"ask": ["note_*"]},
    )
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    server.kill()
    assert await s.decide(approval.id, verdict) == "decided", "the row is the decision, whoever can be woken"
    server.start()
    row = await s.ended(turn)
    assert row.state == "completed"
    assert s.effects() == ([f"note_once a {turn}.0.0"] if verdict == "approve" else [])
    assert await s.decide(approval.id, verdict) == "repeated"
    await s.assert_one_terminal_event(turn)


@requirement("Q-10", "P42", "Q-02")
@pytest.mark.parametrize("when", ["runs out meanwhile", "has still to run"])
async def test_the_time_of_an_approval_is_kept_over_the_death_of_the_server(away: Away, when: str) -> None:
    s, server = await away(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        policy={"ask": ["note_*"]},
        approval_ttl_s=3 if when == "runs out meanwhile" else 8,
    )
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    assert approval.expires_at is not None
    server.kill()
    if when == "runs out meanwhile":
        await until(lambda: datetime.now(UTC) > approval.expires_at, "the end of the approval's time")
    server.start()
    row = await s.ended(turn)
    assert "Nobody answered" in row.text
    assert row.ended_at is not None
    assert row.ended_at >= approval.expires_at
    assert await s.decide(approval.id) == "late"
    assert s.effects() == []


@requirement("Q-10", "P13")
async def test_a_turn_that_waits_for_its_endpoint_can_be_stopped_while_the_server_is_away(away: Away) -> None:
    limited = [{"kind": "status", "status": 429, "headers": {"retry-after": "7200"}}]
    s, server = await away(scenario("go", step(text="later", faults=limited)))
    turn = await s.send("go")

    async def asleep() -> bool:
        return "model.limited" in await s.types(turn)

    await until(asleep, "the turn to wait for the endpoint")
    server.kill()
    await s.client.stop(turn, "ada")
    server.start()
    row = await s.ended(turn)
    assert row.state == "cancelled"
    assert len(await s.model.requests()) == 1
    await s.assert_one_terminal_event(turn)


@requirement("P111")
async def test_a_message_accepted_while_the_server_is_away_is_run_when_it_is_back(away: Away) -> None:
    s, server = await away(scenario("go", step(text="fine")))
    session = await s.session()
    server.kill()
    sent = await s.client.send(session, "go")
    assert not sent.rung
    server.start()
    assert (await s.ended(sent.accepted.turn)).text == "fine"


@requirement("Q-10", "Q-01", "P38")
@pytest.mark.parametrize("when", ["approved", "running", "settled"])
async def test_a_server_that_forgot_everything_is_told_again_by_the_rows(
    system: OpenSystem, tmp_path: Path, when: str
) -> None:
    server = TemporalServer(tmp_path)
    server.start()
    try:
        s = await system(
            scenario(
                "go",
                step(("note_once", {"text": "a", "gate": "open"})),
                step(("note_once", {"text": "b"})),
                step(text="{{results}}"),
            ),
            server=server,
            policy={"ask": ["note_*"]},
        )
        worker = await s.start_worker()
        turn = await s.send("go")
        (approval,) = await s.pending(turn)
        if when == "approved":
            worker.kill()
        await s.decide(approval.id)
        if when != "approved":
            await until(s.effects, "the tool")
        if when == "settled":
            (s.workdir / "open").touch()
            await s.pending(turn)
        worker.kill()
        server.kill()
        for file in tmp_path.glob("temporal.db*"):
            file.unlink()
        server.start()
        (s.workdir / "open").touch()
        await s.start_worker()
        (again,) = await s.pending(turn, limit_s=60)
        await s.decide(again.id)
        row = await s.ended(turn)
        assert (row.state, row.text) == ("completed", "noted b")
        first = await s.client.store.ledger.read(f"{turn}.0.0")
        assert first is not None
        assert first.metadata.get("error_type", "") == ("outcome_unknown" if when == "running" else "")
        assert s.effects() == [f"note_once a {turn}.0.0", f"note_once b {turn}.1.0"]
        await s.assert_one_terminal_event(turn)
    finally:
        server.kill()
