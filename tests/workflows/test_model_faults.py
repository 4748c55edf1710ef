"""An endpoint that misbehaves costs retries or ends the turn with a reason; it never doubles work or hangs."""

import pytest

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step, until


@requirement("P10", "P04")
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "close_mid", "clean": True},
        {"kind": "close_mid", "clean": False},
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 429, "headers": {"retry-after": "1"}},
        {"kind": "malformed_json"},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
async def test_a_fault_that_passes_is_tried_again_and_nothing_of_the_broken_reply_runs(
    system: OpenSystem, fault: dict[str, object]
) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"}), faults=[fault]), step(text="done")))
    await s.start_worker()
    turn = await s.send("go")
    row = await s.ended(turn)
    assert (row.state, row.text) == ("completed", "done")
    assert s.effects() == [f"note_once a {turn}.0.0"]
    assert len(await s.model.requests()) == 3
    await s.assert_one_terminal_event(turn)


@requirement("P14")
async def test_retries_have_one_owner_four_attempts_are_four_requests(system: OpenSystem) -> None:
    always = [{"kind": "status", "status": 429, "times": 99}]
    s = await system(scenario("go", step(text="never", faults=always)), scenario("next", step(text="fine")),
                     model_attempts=4)  # fmt: skip
    await s.start_worker()
    session = await s.session()
    row = await s.ended(await s.send("go", session))
    assert row.state == "failed"
    assert "ModelUnavailable" in row.reason
    assert len(await s.model.requests()) == 4
    assert (await s.ended(await s.send("next", session))).text == "fine"


@requirement("P14", "P16")
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "context_length_exceeded", "context_overflow"),
        (401, "invalid_api_key", "credentials"),
        (404, "model_not_found", "model_not_found"),
        (429, "insufficient_quota", "quota"),
    ],
)
async def test_a_refusal_that_will_not_pass_is_one_request_and_a_reason(
    system: OpenSystem, status: int, code: str, kind: str
) -> None:
    refuses = [{"kind": "status", "status": status, "code": code, "times": 99}]
    s = await system(scenario("go", step(text="never", faults=refuses)))
    await s.start_worker()
    row = await s.ended(await s.send("go"))
    assert row.state == "failed"
    assert row.reason.startswith(kind)
    assert len(await s.model.requests()) == 1
    await s.assert_one_terminal_event(row.id)


@requirement("P09")
@pytest.mark.parametrize(
    "fault",
    [{"kind": "empty"}, {"kind": "null_message"}, {"kind": "refusal", "text": "no"}],
    ids=lambda f: f["kind"],
)
async def test_a_withheld_answer_ends_the_turn_and_not_the_session(
    system: OpenSystem, fault: dict[str, str]
) -> None:
    s = await system(
        scenario(
            "go", step(("note_brief", {"text": "kept"})), step(text="x", faults=[{**fault, "times": 99}])
        ),
        scenario("next", step(text="fine")),
    )
    await s.start_worker()
    session = await s.session()
    row = await s.ended(await s.send("go", session))
    assert row.state == "incomplete"
    assert len(s.effects()) == 1
    assert (await s.ended(await s.send("next", session))).text == "fine"


@requirement("P13")
async def test_a_long_retry_after_is_a_durable_timer_that_a_stop_ends(system: OpenSystem) -> None:
    limited = [{"kind": "status", "status": 429, "headers": {"retry-after": "7200"}}]
    s = await system(scenario("go", step(text="later", faults=limited)))
    await s.start_worker()
    turn = await s.send("go")
    await s.model.wait(answered=1)
    handle = s.temporal.get_workflow_handle(f"turn/{turn}")

    async def limited_phase() -> bool:
        return (await handle.query("status"))["phase"] == "rate limited"

    await until(limited_phase, "the turn to wait for the endpoint")
    await s.client.stop(turn, "ada")
    assert (await s.ended(turn)).state == "cancelled"
    assert len(await s.model.requests()) == 1
