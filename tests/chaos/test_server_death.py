"""The Temporal server dies by SIGKILL and comes back on its file; the worker survives it, nothing is lost or doubled."""

from pathlib import Path

import pytest

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import TemporalServer, scenario, step, until


@requirement("Q-10", "P41")
@pytest.mark.parametrize("when", ["in a tool", "while suspended"])
async def test_a_turn_outlives_the_death_of_the_server(system: OpenSystem, tmp_path: Path, when: str) -> None:
    server = TemporalServer(tmp_path)
    server.start()
    try:
        suspended = when == "while suspended"
        s = await system(
            scenario("go", step(("note_once", {"text": "a", "gate": "open"})), step(text="{{results}}")),
            server=server,
            policy={"ask": ["note_*"]} if suspended else {"allow": ["*"]},
        )
        worker = await s.start_worker()
        turn = await s.send("go")
        if suspended:
            (approval,) = await s.pending(turn)
            server.kill()
            assert await s.decide(approval.id) == "decided", "the row is the decision, whoever can be woken"
        else:
            await until(s.effects, "the tool")
            server.kill()
        (s.workdir / "open").touch()
        server.start()
        row = await s.ended(turn)
        assert (row.state, row.text) == ("completed", "noted a")
        assert len(s.effects()) == 1
        assert worker.process.poll() is None
        await s.assert_one_terminal_event(turn)
    finally:
        server.kill()


@requirement("P111")
async def test_a_message_accepted_while_the_server_is_away_is_run_when_it_is_back(
    system: OpenSystem, tmp_path: Path
) -> None:
    server = TemporalServer(tmp_path)
    server.start()
    try:
        s = await system(scenario("go", step(text="fine")), server=server)
        await s.start_worker()
        session = await s.session()
        server.kill()
        sent = await s.client.send(session, "go")
        assert not sent.rung
        server.start()
        assert (await s.ended(sent.accepted.turn)).text == "fine"
    finally:
        server.kill()


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
