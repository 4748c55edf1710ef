"""A session of five hundred turns: the last ones leave as much history and take as much work as the first."""

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.scale.figures import tell
from tests.scale.histories import SAME, asks_the_model, history, starts_a_turn
from tests.scale.pace import assert_it_keeps_pace, pace
from tests.scale.size import FULL, LIMIT_S, PRODUCTION, size
from tests.system import TemporalServer, scenario, step

TURNS = size(16, 500)
ROOM_MIB = 12.0
SLOWER = 1.5  # in CPU of the worker for one turn


@requirement("P103", "P107", "Q-04", "L-16")
async def test_the_last_turns_of_a_very_long_session_cost_what_the_first_ones_cost(
    system: OpenSystem, rolling: TemporalServer
) -> None:
    s = await system(
        scenario("re:message (\\d+)", step(("note_brief", {"text": "{{match:1}}"})), step(text="ok")),
        server=rolling,
        **PRODUCTION,
    )
    worker = await s.start_worker()
    session = await s.session()
    turns = [await s.send(f"message {n}", session) for n in range(TURNS)]

    async def reached(count: int) -> bool:
        row = await s.client.store.turns.read(turns[count - 1])
        return row is not None and row.ended_at is not None

    parts = await pace(s, worker, TURNS, "turn", reached)
    assert {(await s.ended(turn, LIMIT_S)).state for turn in turns} == {"completed"}
    assert s.effects() == [f"note_brief {n} {turn}.0.0" for n, turn in enumerate(turns)]
    left = await history(s, f"session/{session}", starts_a_turn, TURNS)
    first, last = left.first_and_last()
    weights = [
        (await history(s, f"turn/{turn}", asks_the_model, 2)).total_bytes for turn in (turns[1], turns[-1])
    ]
    tell(
        f"session: {left.runs} runs, {left.total_bytes / TURNS:.0f} bytes of history a turn over all; at the start"
        f" {first:.0f}, at the end {last:.0f}; the turns' own {weights[0]} and {weights[-1]}"
    )
    assert left.runs > 1, "the session was meant to roll"
    assert last <= first * SAME
    assert weights[-1] <= weights[0] * SAME
    if FULL:
        assert_it_keeps_pace(parts, ROOM_MIB, SLOWER)
