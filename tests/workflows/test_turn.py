"""One agent, whole: the step loop on a real server, a real endpoint and a worker process."""

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step


@requirement("L-04", "L-05", "M-19", "T-01")
async def test_a_turn_runs_steps_until_the_model_answers(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "look",
            step(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})),
            step(("note_once", {"text": "one"})),
            step(text="done: {{results}}"),
        )
    )
    (s.workdir / "a.txt").write_text("alpha\n")
    (s.workdir / "b.txt").write_text("beta\n")
    await s.start_worker()
    turn = await s.send("look around")
    row = await s.ended(turn)
    assert (row.state, row.text, row.steps) == ("completed", "done: noted one", 3)
    assert s.effects() == [f"note_once one {turn}.1.0"]
    await s.assert_one_terminal_event(turn)
    await s.workflow_closed(f"session/{row.session}")
