"""A worker dies by SIGKILL at a named point; another goes on, and every side effect has happened once or is `unknown`."""

import pytest

from tests import rows
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step, until

JOB = scenario(
    "go",
    step(("note_once", {"text": "a"}), ("note_keyed", {"text": "b"}), ("note_pure", {"text": "c"})),
    step(("note_brief", {"text": "d"})),
    step(text="done: {{results}}"),
)


async def transcript_is_right(s: System, turn: str) -> None:
    """Every request the endpoint saw was well-formed (it is strict), and the talk reads as if nothing had happened."""
    assert {request["status"] for request in await s.model.requests()} <= {200, None}
    session = turn.rsplit("/", 1)[0]
    talk = (await rows.transcript(s.database, session)).entries
    assert [entry.role for entry in talk] == ["user", "assistant", "assistant", "assistant"]
    assert [entry.seq for entry in talk] == [1, 2, 3, 4]
    await s.assert_one_terminal_event(turn)
    offsets = [event.offset for event in await s.events(turn)]
    assert offsets == list(range(1, len(offsets) + 1))


# A kill after the store took a `once` result is harmless; one between claim and result is honestly unknown.
POINTS = {
    "inbox.take:before": "done",
    "inbox.take:after": "done",
    "transcript.store_reply:before": "done",
    "transcript.store_reply:after": "done",
    "ledger.claim:before": "done",
    "ledger.claim:after": "unknown",
    "ledger.settle:before": "done or unknown",
    "ledger.settle:after": "done",
    "turns.finish:before": "done",
    "turns.finish:after": "done",
}


@requirement("Q-01", "P91", "M-09")
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_transaction_neither_loses_nor_doubles(system: OpenSystem, point: str) -> None:
    s = await system(JOB)
    worker = await s.start_worker(fault=f"{point}:{s.home / 'died'}")
    turn = await s.send("go")
    assert await worker.ended() == -9
    await s.start_worker()
    row = await s.ended(turn)
    assert row.state == "completed"
    await transcript_is_right(s, turn)
    once = [line for line in s.effects() if line.startswith("note_once")]
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    if call.metadata.get("error_type") == "outcome_unknown":
        assert len(once) <= 1
    else:
        assert once == [f"note_once a {turn}.0.0"]
    if POINTS[point] == "unknown":
        assert call.metadata["error_type"] == "outcome_unknown"
    keyed = {line for line in s.effects() if line.startswith("note_keyed")}
    assert keyed == {f"note_keyed b {turn}.0.1"}, "each repetition shows the same idempotency key"


@requirement("Q-01", "P38", "P114")
@pytest.mark.parametrize("tool", ["note_once", "note_keyed", "note_pure"])
async def test_a_kill_while_a_tool_runs_is_noticed_within_seconds(system: OpenSystem, tool: str) -> None:
    s = await system(scenario("go", step((tool, {"text": "a", "gate": "open"})), step(text="{{results}}")))
    worker = await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    worker.kill()
    await s.start_worker()
    (s.workdir / "open").touch()
    row = await s.ended(turn)
    runs = len(s.effects())
    if tool == "note_once":
        assert runs == 1
        assert row.text.startswith("Outcome unknown")
    else:
        assert runs == 2
        assert row.text == "noted a"
    await s.assert_one_terminal_event(turn)


@requirement("P10", "Q-01")
async def test_a_kill_while_the_model_answers_costs_one_more_request_and_nothing_else(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"}), faults=[{"kind": "hold"}]), step(text="done"))
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    await s.model.wait(held=1)
    worker.kill()
    await s.start_worker()
    assert (await s.ended(turn)).state == "completed"
    assert s.effects() == [f"note_once a {turn}.0.0"]
    assert len(await s.model.requests()) == 3


@requirement("M-09", "P38", "P41")
@pytest.mark.parametrize("when", ["while suspended", "between verdict and resume", "after the claim"])
async def test_a_kill_around_an_approval_runs_the_call_once(system: OpenSystem, when: str) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        policy={"ask": ["note_*"]},
    )
    fault = f"ledger.claim:after:{s.home / 'died'}" if when == "after the claim" else ""
    worker = await s.start_worker(fault=fault)
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    if when == "while suspended":
        worker.kill()
        await s.start_worker()
        await s.decide(approval.id)
    elif when == "between verdict and resume":
        worker.kill()
        await s.decide(approval.id)
        await s.start_worker()
    else:
        await s.decide(approval.id)
        await worker.ended()
        await s.start_worker()
    row = await s.ended(turn)
    assert row.state == "completed"
    if when == "after the claim":
        assert s.effects() == []
        assert row.text.startswith("Outcome unknown")
    else:
        assert s.effects() == [f"note_once a {turn}.0.0"]
    kept = await s.client.store.approvals.read(approval.id)
    assert kept is not None
    assert kept.state == "consumed"
    assert await s.decide(approval.id) == "repeated"
    assert len(s.effects()) <= 1
