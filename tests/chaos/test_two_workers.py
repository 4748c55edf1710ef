"""Two workers on one database share many sessions, and one of them is killed in the middle."""

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

from sqlalchemy import text

from gateway.client import open_client
from tests import rows
from tests.chaos.conftest import on_postgresql
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step, until

SESSIONS, SENDERS = 12, 3


@requirement("Q-01", "P119", "J-20")
@on_postgresql
async def test_many_sessions_on_two_workers_one_of_which_dies_are_handled_once_and_in_order(
    system: OpenSystem,
) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")))
    doomed, other = await asyncio.gather(s.start_worker(), s.start_worker())
    sessions = [await s.session() for _ in range(SESSIONS)]
    async with AsyncExitStack() as stack:
        senders = [await stack.enter_async_context(open_client(s.settings)) for _ in range(SENDERS)]
        sending = [sender.send(session, "go") for session in sessions for sender in senders]
        sent = await asyncio.gather(*sending)
    turns = [one.accepted.turn for one in sent]
    assert len(set(turns)) == SESSIONS * SENDERS
    await until(lambda: len(s.effects()) >= SESSIONS // 2, "the work's middle")
    doomed.kill()
    ended = [await s.ended(turn, 180) for turn in turns]
    assert {row.state for row in ended} == {"completed"}
    assert other.process.poll() is None

    unknown = {row.id for row in ended if row.text.startswith("Outcome unknown")}
    done = s.effects()
    assert len(done) == len(set(done)), "no side effect twice"
    assert {f"note_once a {turn}.0.0" for turn in turns if turn not in unknown} <= set(done)
    assert {row.text for row in ended if row.id not in unknown} == {"noted a"}
    for session in sessions:
        own = sorted((row for row in ended if row.session == session), key=lambda row: row.id)
        for before, after in pairwise(own):
            assert before.ended_at and after.started_at
            assert before.ended_at <= after.started_at, "one turn at a time"
        talk = (await rows.transcript(s.database, session)).entries
        assert [entry.turn for entry in talk if entry.role == "user"] == [row.id for row in own]
        assert [entry.seq for entry in talk] == list(range(1, 3 * SENDERS + 1))
    for turn in turns:
        types = await s.types(turn)
        assert types.count("turn.started") == 1
        await s.assert_one_terminal_event(turn)
    deadlocks = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert await s.database.read(lambda tx: tx.execute(deadlocks).scalar_one()) == 0
