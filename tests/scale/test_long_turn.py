"""A turn of two thousand steps: the last ones leave as much history and take as much work as the first."""

import pytest

from roundturn.event import TERMINAL
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.scale.figures import tell
from tests.scale.histories import SAME, asks_the_model, history
from tests.scale.pace import assert_it_keeps_pace, pace
from tests.scale.size import FULL, LIMIT_S, PRODUCTION, size
from tests.system import TemporalServer

STEPS = size(24, 2000)
ROOM_MIB = 16.0  # the talk is half a megabyte at the end; some copies of it are on their way at once
SLOWER = 1.5  # in CPU of the worker for one step: the request itself is half a megabyte longer


@requirement("P103", "Q-04", "P96", "P20")
@pytest.mark.parametrize("tool", ["note_brief", "note_once"])
async def test_the_last_steps_of_a_very_long_turn_cost_what_the_first_ones_cost(
    system: OpenSystem, rolling: TemporalServer, tool: str
) -> None:
    s = await system(server=rolling, max_steps=STEPS + 1, **PRODUCTION)
    worker = await s.start_worker()
    turn = await s.send(f'script: steps={STEPS} tool={tool} args={{"text": "{{{{i}}}}"}}')

    async def reached(steps: int) -> bool:
        return bool((await s.model.wait())["requests"] > steps)

    parts = await pace(s, worker, STEPS, "step", reached)
    row = await s.ended(turn, LIMIT_S)
    assert (row.state, row.steps) == ("completed", STEPS + 1)
    assert s.effects() == [f"{tool} {n} {turn}.{n}.0" for n in range(STEPS)]
    assert [event.type async for event in s.client.events(turn)].count(TERMINAL) == 1
    left = await history(s, f"turn/{turn}", asks_the_model, STEPS + 1)
    first, last = left.first_and_last()
    tell(
        f"{tool}: {left.runs} runs, {left.total_bytes / STEPS:.0f} bytes of history a step over all;"
        f" at the start {first:.0f}, at the end {last:.0f}"
    )
    assert left.runs > 1, "the turn was meant to roll"
    assert last <= first * SAME
    if FULL:
        assert_it_keeps_pace(parts, ROOM_MIB, SLOWER)
