"""A person in the loop: early, late, twice, contradicting, foreign; each answer reaches its own call, once."""

import asyncio
import json
from typing import Any

import pytest

from roundturn import ids
from roundturn.approval import Answer
from tests import rows
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, scenario, step, until

ASKS = {"ask": ["note_*"]}


async def signal(s: System, turn: str, payload: Any) -> None:
    await s.temporal.get_workflow_handle(ids.turn_workflow(turn)).signal("verdict", payload)


async def outcome(s: System, call: str) -> tuple[str, str]:
    row = await s.client.store.ledger.read(call)
    assert row is not None
    return row.status, str(row.metadata.get("error_type", ""))


@requirement("M-09", "M-14", "R-19", "R-22", "M-24")
async def test_an_approved_call_runs_once_and_a_denied_one_never(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a"})),
            step(("note_once", {"text": "b"})),
            step(text="{{results}}"),
        ),
        policy=ASKS,
    )
    await s.start_worker()
    turn = await s.send("go")
    (first,) = await s.pending(turn)
    assert (first.tool, first.arguments["text"], first.rule) == ("note_once", "a", "ask note_*")
    assert await s.decide(first.id) == "decided"
    (second,) = await s.pending(turn)
    assert await s.decide(second.id, "deny", note="wrong branch") == "decided"
    row = await s.ended(turn)
    assert "wrong branch" in row.text
    assert s.effects() == [f"note_once a {turn}.0.0"]
    assert await outcome(s, f"{turn}.1.0") == ("denied", "approval_denied")
    assert [a.status for a in await rows.attempts(s.database, f"{turn}.0.0")] == [
        "suspended",
        "completed",
    ]
    decided = await s.client.store.approvals.read(first.id)
    assert decided is not None
    assert (decided.state, decided.actor, decided.unverified) == ("consumed", "ada", True)


@requirement("P33", "P34", "P35", "L-15")
async def test_three_parallel_requests_decided_out_of_order_reach_their_own_calls(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(
                ("note_once", {"text": "a"}),
                ("note_once", {"text": "b"}),
                ("read_file", {"path": "f"}),
                ("note_once", {"text": "c"}),
            ),
            step(text="{{results}}"),
        ),
        policy=ASKS,
    )
    (s.workdir / "f").write_text("free\n")
    worker = await s.start_worker()
    turn = await s.send("go")
    a, b, c = await s.pending(turn, 3)
    assert len({a.id, b.id, c.id}) == 3
    await s.decide(b.id)

    async def b_settled() -> bool:
        return (await outcome(s, b.call))[0] == "completed"

    await until(b_settled, "b to run while the others wait")
    worker.kill()
    await s.start_worker()
    await s.decide(a.id, "deny")
    await s.decide(c.id)
    await s.ended(turn)
    assert s.effects() == [f"note_once b {turn}.0.1", f"note_once c {turn}.0.3"]
    requests = [r["body"]["messages"] for r in await s.model.requests()]
    assert len(requests) == 2, "no model call before all are settled, and then exactly one"
    results = [m["content"] for m in requests[-1] if m["role"] == "tool"]
    assert results[0].startswith("A person refused")
    assert results[1] == "noted b"
    assert "free" in results[2]
    assert results[3] == "noted c"


@requirement("P39")
async def test_answers_at_the_same_moment_have_one_winner_and_all_are_on_record(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"})), step(text="done")), policy=ASKS)
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    standings = await asyncio.gather(
        *(s.decide(approval.id, verdict, actor=f"p{i}") for i, verdict in enumerate(["approve", "deny"] * 4))
    )
    assert standings.count("decided") == 1
    row = await s.ended(turn)
    winner = standings.index("decided")
    assert len(s.effects()) == (1 if winner % 2 == 0 else 0)
    assert {standings[i] for i in range(8) if i % 2 == winner % 2 and i != winner} == {"repeated"}
    assert {standings[i] for i in range(8) if i % 2 != winner % 2} == {"contradicted"}
    await s.assert_one_terminal_event(row.id)


@requirement("Q-03", "P46")
async def test_a_plain_signal_decides_and_an_early_one_is_kept(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"})), step(text="done")), policy=ASKS)
    await s.start_worker()
    turn = await s.send("go")
    # The row is all that a person needs: this signal may well overtake the workflow's own news of the suspension.
    (approval,) = await s.pending(turn)
    await signal(s, turn, {"approval_id": approval.id, "verdict": "approve", "actor": "ada"})
    assert (await s.ended(turn)).state == "completed"
    assert len(s.effects()) == 1
    row = await s.client.store.approvals.read(approval.id)
    assert row is not None
    assert (row.actor, row.unverified) == ("ada", True)


async def test_an_early_signal_is_kept_while_the_call_is_still_on_its_way_to_suspension(
    system: OpenSystem,
) -> None:
    """One call holds the step in flight; the other's verdict is signalled before its suspension can be known."""
    s = await system(
        scenario("go", step(("note_once", {"text": "a"}), ("bash", {"command": "echo b"})), step(text="done"))
    )
    worker = await s.start_worker(fault=f"approvals.request:after:{s.home}/died")
    turn = await s.send("go")
    (approval,) = await s.pending(turn)  # the row is there, the worker died before it could say so
    await worker.ended()
    await signal(s, turn, {"approval_id": approval.id, "verdict": "approve", "actor": "ada"})
    await s.start_worker()
    assert (await s.ended(turn)).state == "completed"
    assert await outcome(s, f"{turn}.0.1") == ("completed", "")


@requirement("P44", "P50")
async def test_a_chat_message_decides_nothing(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="done")),
        *(scenario(word, step(text=f"heard {word}")) for word in ("approve", "yes")),
        policy=ASKS,
    )
    await s.start_worker()
    session = await s.session()
    turn = await s.send("go", session)
    (approval,) = await s.pending(turn)
    later = [await s.send(text, session) for text in ("yes", "approve")]
    await signal(s, turn, {"approval_id": "ap_unknown", "verdict": "approve"})
    assert [row.id for row in await s.pending(turn)] == [approval.id]
    assert s.effects() == []
    await s.decide(approval.id, "deny")
    assert [(await s.ended(each)).text for each in later] == ["heard yes", "heard approve"]
    assert s.effects() == []


@requirement("P42", "R-21", "Q-03", "P48")
async def test_an_approval_that_nobody_answers_expires_honestly_and_a_late_yes_runs_nothing(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")),
        policy=ASKS,
        approval_ttl_s=2,
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    worker.kill()  # the time runs on in the server, not in a process
    await s.start_worker()
    row = await s.ended(turn)
    assert "Nobody answered" in row.text
    assert await outcome(s, f"{turn}.0.0") == ("denied", "approval_expired")
    assert await s.decide(approval.id) == "late"
    assert s.effects() == []


@requirement("P47")
@pytest.mark.parametrize("first", ["stop", "approve", "both"])
async def test_a_stop_and_a_yes_are_one_after_the_other_whoever_comes_first(
    system: OpenSystem, first: str
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a", "gate": "never"})), step(text="done")), policy=ASKS
    )
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    if first == "stop":
        await s.client.stop(turn, "ada")
        assert await s.decide(approval.id) == "cancelled"
    elif first == "approve":
        assert await s.decide(approval.id) == "decided"
        await until(s.effects, "the approved tool to run")
        await s.client.stop(turn, "ada")
    else:
        await asyncio.gather(s.client.stop(turn, "ada"), s.decide(approval.id))
    row = await s.ended(turn)
    assert row.state == "cancelled"
    kept = await s.client.store.approvals.read(approval.id)
    assert kept is not None
    assert (kept.state == "consumed") == bool(s.effects()), "nothing runs on a cancelled approval"
    assert kept.state in ("consumed", "cancelled")
    await s.assert_one_terminal_event(turn)


@requirement("P41", "P38")
async def test_fifty_pending_approvals_survive_a_restart_and_all_go_on_once(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("note_keyed", {"text": "a"})), step(text="done")), policy=ASKS)
    worker = await s.start_worker()
    turns = await asyncio.gather(*(s.send("go") for _ in range(50)))
    approvals = [(await s.pending(turn))[0] for turn in turns]
    worker.kill()
    for approval in approvals[5:]:
        await s.decide(approval.id)
    for approval in approvals[:5]:  # the wake-up is lost: only the row says yes
        decided = await s.client.store.approvals.decide(
            approval.id, Answer("approve", "ada", unverified=True, via="cli")
        )
        assert decided.standing == "decided"
    await s.start_worker()
    assert {(await s.ended(turn)).state for turn in turns} == {"completed"}
    assert len(s.effects()) == 50
    assert len(set(s.effects())) == 50


@requirement("R-17", "M-13")
async def test_signals_decide_nothing_where_unverified_verdicts_are_off(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="done")),
        policy=ASKS,
        allow_unverified_verdicts=False,
    )
    worker = await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    await signal(s, turn, {"approval_id": approval.id, "verdict": "approve", "actor": "eve"})
    await until(
        lambda: any(line["event"] == "verdict.refused" for line in worker.lines()), "the refusal in the log"
    )
    assert [row.id for row in await s.pending(turn)] == [approval.id]
    await s.client.stop(turn, "ada")
    await s.ended(turn)
    assert s.effects() == []


@requirement("P33")
async def test_a_signal_for_another_turns_approval_is_dropped_without_an_activity(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"})), step(text="done")), policy=ASKS)
    await s.start_worker()
    mine, other = await s.send("go"), await s.send("go")
    (approval,) = await s.pending(mine)
    (foreign,) = await s.pending(other)
    await signal(s, other, {"approval_id": approval.id, "verdict": "approve", "actor": "eve"})
    await s.decide(foreign.id, "deny")
    await s.ended(other)
    assert [row.id for row in await s.pending(mine)] == [approval.id]
    history = json.dumps([str(event) for event in (await s.history(other)).events])
    assert "offer_verdict" not in history
    await s.client.stop(mine, "ada")
    await s.ended(mine)
