"""What a worker did it can do again from history alone, with and without the sandbox's restrictions (Q-05)."""

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step
from workflows.session import Session
from workflows.turn import Turn
from workflows.wire import plugin


@requirement("Q-05", "P104")
async def test_histories_with_approvals_stops_and_parallel_calls_replay(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a"}), ("note_pure", {"text": "b"})),
            step(("note_brief", {"text": "c"})),
            step(text="done"),
        ),
        policy={"ask": ["note_once"]},
    )
    await s.start_worker()
    session = await s.session()
    turns = [await s.send("go", session), await s.send("go again", session)]
    (first,) = await s.pending(turns[0])
    await s.decide(first.id)
    await s.ended(turns[0])
    await s.pending(turns[1])
    await s.client.stop(turns[1], "ada")
    await s.ended(turns[1])
    await s.workflow_closed(f"session/{session}")
    histories = [await s.history(turn) for turn in turns]
    histories.append(await s.temporal.get_workflow_handle(f"session/{session}").fetch_history())
    for sandboxed in (True, False):
        replayer = Replayer(workflows=[Session, Turn], plugins=[plugin(sandboxed=sandboxed)])
        for history in histories:
            again = WorkflowHistory.from_json(history.workflow_id, history.to_json())
            result = await replayer.replay_workflow(again)
            assert result.replay_failure is None
