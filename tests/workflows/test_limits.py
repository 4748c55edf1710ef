"""Every limit bites where it is set (P97), and waiting for people uses none of them up (P48)."""

import asyncio
import time

import pytest

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step, until


@requirement("P97", "T-12")
async def test_a_tool_that_outlasts_its_limit_is_ended_and_the_model_is_told(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_limited", {"text": "a", "gate": "never"})), step(text="{{results}}"))
    )
    await s.start_worker()
    row = await s.ended(await s.send("go"), 40)
    assert row.text == "note_limited was ended after its limit of 1 s"
    assert len(s.effects()) == 1


@requirement("P97")
async def test_a_silent_model_endpoint_is_given_up_after_its_limit_and_tried_again(
    system: OpenSystem,
) -> None:
    silent = [{"kind": "stall", "seconds": 60}]
    s = await system(scenario("go", step(text="fine", faults=silent)), model_timeout_s=1)
    await s.start_worker()
    assert (await s.ended(await s.send("go"), 40)).text == "fine"
    assert len(await s.model.requests()) == 2


@requirement("P97", "P20")
async def test_one_reply_may_hold_128_calls_and_the_rest_is_refused_without_running(
    system: OpenSystem,
) -> None:
    many = [("note_keyed", {"text": str(i)}) for i in range(200)]
    s = await system(scenario("go", step(*many), step(text="done")))
    await s.start_worker()
    turn = await s.send("go")
    assert (await s.ended(turn, 120)).state == "completed"
    assert len(s.effects()) == 128
    refused = await s.client.store.ledger.read(f"{turn}.0.199")
    assert refused is not None
    assert refused.metadata["error_type"] == "too_many_calls"
    assert max(len(event.SerializeToString()) for event in (await s.history(turn)).events) < 64 * 1024


@requirement("P97")
async def test_the_result_budget_of_the_settings_is_the_one_that_cuts(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("huge", {"size": 5000})), step(text="done")), result_budget_bytes=1024
    )
    await s.start_worker()
    turn = await s.send("go")
    await s.ended(turn)
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    assert len(call.output) <= 1024


@requirement("P48", "Q-02")
async def test_sixty_turns_that_wait_for_people_leave_a_new_one_its_speed(system: OpenSystem) -> None:
    s = await system(
        scenario("park", step(("note_once", {"text": "a"})), step(text="done")),
        scenario("quick", step(("note_brief", {"text": "b"})), step(text="fine")),
        policy={"ask": ["note_once"]},
    )
    await s.start_worker()
    parked = await asyncio.gather(*(s.send("park") for _ in range(60)))
    for turn in parked:
        await s.pending(turn)
    began = time.monotonic()
    assert (await s.ended(await s.send("quick"))).text == "fine"
    assert time.monotonic() - began < 20
    await asyncio.gather(*(s.client.stop(turn, "ada") for turn in parked))
    assert {(await s.ended(turn)).state for turn in parked} == {"cancelled"}


@requirement("M-13", "R-15", "M-08", "P97")
@pytest.mark.parametrize(
    ("policy", "rule"), [({"deny": ["NOTE_*"]}, "deny NOTE_*"), ({"allow": ["read_file"]}, "allow")]
)
async def test_a_denied_tool_is_not_shown_and_a_guessed_call_is_answered_with_the_rule(
    system: OpenSystem, policy: dict[str, list[str]], rule: str
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"})), step(text="{{results}}")), policy=policy
    )
    await s.start_worker()
    turn = await s.send("go")
    row = await s.ended(turn)
    assert f"Denied by rule {rule!r} of the operator layer" in row.text
    assert s.effects() == []
    shown = [tool["function"]["name"] for tool in (await s.model.requests())[0]["body"]["tools"]]
    assert "read_file" in shown
    assert not [name for name in shown if name.startswith("note")]
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    assert (call.status, call.metadata["rule_id"], call.metadata["layer"]) == ("denied", rule, "operator")


@requirement("Q-09")
async def test_a_queue_full_of_slow_tools_delays_neither_models_nor_reading(system: OpenSystem) -> None:
    slow = [("note_once", {"text": str(i), "gate": "open"}) for i in range(60)]
    s = await system(
        scenario("slow", step(*slow), step(text="done")),
        scenario("quick", step(("note_pure", {"text": "b"})), step(text="fine")),
    )
    await s.start_worker()
    held = [await s.send("slow") for _ in range(2)]
    await until(lambda: len(s.effects()) >= 100, "the slow tools to fill their queue")
    began = time.monotonic()
    assert (await s.ended(await s.send("quick"))).text == "fine"
    assert time.monotonic() - began < 20
    (s.workdir / "open").touch()
    assert {(await s.ended(turn)).state for turn in held} == {"completed"}
    assert len(set(s.effects())) == 121
