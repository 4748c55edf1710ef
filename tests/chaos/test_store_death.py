"""PostgreSQL goes away in the middle of a turn and comes back; the worker lives on and the turn ends right."""

import asyncio
from collections.abc import Iterator

import pytest

from roundturn.errors import Unavailable
from tests import rows
from tests.conftest import OpenSystem
from tests.postgresql import PostgresServer
from tests.requirements import requirement
from tests.system import scenario, step, until

OUTAGE_S = 3.0  # longer than a retry of control SQL and than a heartbeat


@pytest.fixture
def store_kind() -> str:
    return "postgresql"


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def server(own_server: PostgresServer) -> PostgresServer:
    """One of this file's own, so that nobody else is hurt by its death; running, whatever the last test left."""
    own_server.start()
    return own_server


async def out(server: PostgresServer, how: str) -> None:
    if how == "stopped":
        await asyncio.to_thread(server.stop)
    else:
        await server.crash()


@requirement("Q-01", "P91", "J-20")
@pytest.mark.parametrize("how", ["stopped", "crashed"])
@pytest.mark.parametrize("when", ["in the model's call", "in a tool", "before the answer"])
async def test_a_turn_outlives_a_restart_of_the_database(
    system: OpenSystem, server: PostgresServer, how: str, when: str
) -> None:
    first, last = (
        [{"kind": "hold"}] if when == at else [] for at in ("in the model's call", "before the answer")
    )
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a", "gate": "open"}), faults=first),
            step(text="{{results}}", faults=last),
        ),
        database_url=await server.create_database(),
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    if when == "before the answer":
        (s.workdir / "open").touch()
    if when == "in a tool":
        await until(s.effects, "the tool")
    else:
        await s.model.wait(held=1)
    await out(server, how)
    (s.workdir / "open").touch()
    await s.model.release()
    with pytest.raises(Unavailable):
        await s.client.store.turns.read(turn)
    await asyncio.sleep(OUTAGE_S)
    await asyncio.to_thread(server.start)
    row = await s.ended(turn)
    assert (row.state, row.text) == ("completed", "noted a")
    assert s.effects() == [f"note_once a {turn}.0.0"]
    assert worker.process.poll() is None
    assert len(await s.model.requests()) == 2, "a paid reply is written, not asked for again"
    talk = await rows.transcript(s.database, row.session)
    assert [entry.role for entry in talk.entries] == ["user", "assistant", "assistant"]
    await s.assert_one_terminal_event(turn)


@requirement("P41", "Q-10")
async def test_an_approval_waits_through_a_restart_of_the_database(
    system: OpenSystem, server: PostgresServer
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        database_url=await server.create_database(),
        policy={"ask": ["note_*"]},
    )
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await out(server, "crashed")
    with pytest.raises(Unavailable):
        await s.decide(approval.id)
    await asyncio.to_thread(server.start)
    assert await s.decide(approval.id) == "decided"
    assert (await s.ended(turn)).text == "noted a"
    assert s.effects() == [f"note_once a {turn}.0.0"]


@requirement("P111")
async def test_an_idle_worker_takes_work_after_a_restart_of_the_database(
    system: OpenSystem, server: PostgresServer
) -> None:
    s = await system(scenario("go", step(text="fine")), database_url=await server.create_database())
    worker = await s.start_worker()
    await s.ended(await s.send("go"))
    await out(server, "stopped")
    await asyncio.to_thread(server.start)
    assert (await s.ended(await s.send("go"))).text == "fine"
    assert worker.process.poll() is None
