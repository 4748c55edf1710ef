"""A thousand wake-ups while two calls wait for people: the turn continues as new in mid-wait and forgets nothing."""

from roundturn import ids
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.scale.figures import tell
from tests.scale.pending import in_parallel
from tests.scale.size import LIMIT_S, PRODUCTION, size
from tests.system import System, TemporalServer, scenario, step, until
from workflows.turn import Turn

WAKES = size(80, 1000)


@requirement("Q-04", "Q-02", "P107", "P48")
async def test_a_turn_woken_a_thousand_times_while_it_waits_continues_as_new_and_resumes_once(
    system: OpenSystem, rolling: TemporalServer
) -> None:
    s = await system(
        scenario(
            "wait",
            step(("note_once", {"text": "a"}), ("note_once", {"text": "b"})),
            step(text="{{results}}"),
        ),
        server=rolling,
        policy={"ask": ["note_*"]},
        **PRODUCTION,
    )
    await s.start_worker()
    turn = await s.send("wait")
    a, b = await s.pending(turn, 2)
    await wake(s, turn, WAKES)
    runs = await rolled(s, turn, 1)
    assert [row.id for row in await s.pending(turn, 2)] == [a.id, b.id]
    await s.decide(b.id)
    await until(lambda: len(s.effects()) == 1, "b to run while a waits")
    await wake(s, turn, WAKES)
    assert await rolled(s, turn, runs) > runs
    await s.decide(a.id)
    row = await s.ended(turn, LIMIT_S)
    assert (row.state, row.text) == ("completed", "noted a\nnoted b")
    assert s.effects() == [f"note_once b {turn}.0.1", f"note_once a {turn}.0.0"]
    await s.assert_one_terminal_event(turn)
    await s.workflow_closed(ids.turn_workflow(turn))


async def wake(s: System, turn: str, times: int) -> None:
    """One after the other as far as the turn looks at each: many at once would be one look."""
    handle = s.temporal.get_workflow_handle(ids.turn_workflow(turn))
    await in_parallel(handle.signal(Turn.wake) for _ in range(times))


async def rolled(s: System, turn: str, more_than: int) -> int:
    """How many runs the turn has, once there are more than that."""

    async def runs() -> int:
        found = [run async for run in s.temporal.list_workflows(f"WorkflowId='{ids.turn_workflow(turn)}'")]
        return len(found) if len(found) > more_than else 0

    count: int = await until(runs, f"more than {more_than} runs of {turn}")
    tell(f"woken often while it waits: {count} runs")
    return count
