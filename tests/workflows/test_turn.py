"""One agent, whole: the step loop on a real server, a real endpoint and a worker process."""

import json
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from tests import rows
from tests.conftest import OpenSystem
from tests.faults import released
from tests.requirements import requirement
from tests.system import System, TemporalServer, scenario, step, until

PAYLOAD_CEILING = 64 * 1024


@requirement("L-04", "L-05", "M-19", "T-01", "M-10", "J-01", "L-17")
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
    assert await s.types(turn) == [
        "message.accepted", "turn.started",
        "step.started", "model.replied", "tool.requested", "tool.requested", "tool.settled", "tool.settled",
        "step.started", "model.replied", "tool.requested", "tool.started", "tool.settled",
        "step.started", "model.replied", "turn.ended", "run.ended",
    ]  # fmt: skip


@requirement("L-06", "L-08", "P98", "P97")
async def test_the_step_limit_ends_a_turn_as_incomplete_and_the_session_goes_on(system: OpenSystem) -> None:
    again = step(("note_brief", {"text": "again"}))
    s = await system(
        scenario("loop", again, again, again, again), scenario("more", step(text="fine")), max_steps=3
    )
    await s.start_worker()
    session = await s.session()
    row = await s.ended(await s.send("loop please", session))
    assert row.state == "incomplete"
    assert row.reason.startswith("max_steps")
    assert row.steps == 3
    assert len(s.effects()) == 3
    assert len(await s.model.requests()) == 3
    assert (await s.ended(await s.send("more", session))).text == "fine"
    await s.assert_one_terminal_event(row.id)


@requirement("L-06")
async def test_ten_steps_are_the_default(system: OpenSystem) -> None:
    s = await system(scenario("loop", *[step(("note_brief", {"text": "x"}))] * 15))
    await s.start_worker()
    row = await s.ended(await s.send("loop please"))
    assert (row.state, row.steps, len(s.effects())) == ("incomplete", 10, 10)


@requirement("L-15")
async def test_parallel_results_reach_the_model_in_call_order_whatever_the_order_of_ending(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario(
            "go",
            step(
                ("note_once", {"text": "slow", "gate": "open"}),
                ("note_keyed", {"text": "quick"}),
                ("note_pure", {"text": "third"}),
            ),
            step(text="{{results}}"),
        )
    )
    await s.start_worker()
    turn = await s.send("go")
    await until(lambda: len(s.effects()) == 3, "all three to run side by side")
    (s.workdir / "open").touch()
    await s.ended(turn)
    last = (await s.model.requests())[-1]["body"]["messages"]
    assert [m["content"] for m in last if m["role"] == "tool"] == ["noted slow", "noted quick", "noted third"]


@requirement("P20", "Q-07")
@pytest.mark.parametrize("sizes", [[1_900_000], [2_100_000], [5_000_000], [600_000] * 10])
async def test_a_huge_result_is_kept_whole_outside_history_and_cut_for_the_model(
    system: OpenSystem, sizes: list[int]
) -> None:
    s = await system(scenario("go", step(*(("huge", {"size": size}) for size in sizes)), step(text="seen")))
    await s.start_worker()
    turn = await s.send("go")
    assert (await s.ended(turn)).text == "seen"
    for index, size in enumerate(sizes):
        call = await s.client.store.ledger.read(f"{turn}.0.{index}")
        assert call is not None
        assert len(call.output.encode()) <= 32 * 1024
        whole = await s.client.store.blobs.get(call.metadata["original"])
        assert whole is not None
        assert len(whole) == size
    assert await largest_payload(s, turn) < PAYLOAD_CEILING


async def largest_payload(s: System, turn: str) -> int:
    """Bytes of the largest event of a turn's and its session's history."""
    sizes = [len(event.SerializeToString()) for event in (await s.history(turn)).events]
    session = s.temporal.get_workflow_handle(f"session/{turn.rsplit('/', 1)[0]}")
    sizes += [len(event.SerializeToString()) for event in (await session.fetch_history()).events]
    return max(sizes)


@requirement("P103", "P20")
async def test_bytes_of_history_per_step_do_not_grow_with_the_conversation(system: OpenSystem) -> None:
    steps = 40
    s = await system(
        scenario("go", *[step(("huge", {"size": 4000}), text="y" * 4000)] * steps, step(text="done")),
        max_steps=100,
    )
    await s.start_worker()
    turn = await s.send("go " + "z" * 100_000)
    assert (await s.ended(turn)).state == "completed"
    scheduled = [
        (event.event_id, len(event.SerializeToString()))
        for event in (await s.history(turn)).events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    events = (await s.history(turn)).events
    sizes = [len(event.SerializeToString()) for event in events]
    assert len(scheduled) == 2 * steps + 1
    tenth = len(sizes) // 10
    early, late = sum(sizes[tenth : 2 * tenth]), sum(sizes[-2 * tenth : -tenth])
    assert late <= early * 1.1
    assert sum(sizes) / steps < 4_000
    assert await largest_payload(s, turn) < PAYLOAD_CEILING


@requirement("P103", "Q-04", "P96")
async def test_a_turn_that_continues_as_new_at_its_steps_answers_as_if_it_had_not(
    system: OpenSystem, tmp_path: Path
) -> None:
    server = TemporalServer(tmp_path, "limit.historyCount.suggestContinueAsNew=25")
    server.start()
    try:
        s = await system(
            scenario("go", *[step(("note_once", {"text": "n"}))] * 8, step(text="done")),
            server=server,
            max_steps=20,
        )
        await s.start_worker()
        turn = await s.send("go")
        row = await s.ended(turn)
        assert (row.state, row.steps) == ("completed", 9)
        assert s.effects() == [f"note_once n {turn}.{step_}.0" for step_ in range(8)]
        runs = [w async for w in s.temporal.list_workflows(f"WorkflowId='turn/{turn}'")]
        assert len(runs) > 1, "the turn was meant to roll"
        await s.assert_one_terminal_event(turn)
    finally:
        server.kill()


async def test_the_query_says_the_phase_the_step_and_what_is_waited_for(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("bash", {"command": "true"})), step(text="done")))
    await s.start_worker()
    turn = await s.send("go")
    (approval,) = await s.pending(turn)
    handle = s.temporal.get_workflow_handle(f"turn/{turn}")

    async def waiting() -> dict[str, object] | None:
        status: dict[str, object] = await handle.query("status")
        return status if status["waiting_for"] else None

    status = await until(waiting, "the turn to wait")
    assert status == {"phase": "tools", "step": 0, "waiting_for": [f"bash: approval {approval.id}"]}


@requirement("I-01", "I-02", "I-05", "I-06", "P114", "L-17")
@pytest.mark.parametrize("tool", ["note_once", "note_keyed", "note_pure"])
async def test_a_stop_ends_a_running_tool_soon_and_keeps_the_turn(system: OpenSystem, tool: str) -> None:
    s = await system(
        scenario("go", step((tool, {"text": "a", "gate": "never"})), step(text="unreachable")),
        scenario("next", step(text="fine")),
    )
    await s.start_worker()
    session = await s.session()
    turn = await s.send("go", session)
    await until(s.effects, "the tool")
    await s.client.stop(turn, "ada")
    row = await s.ended(turn)
    assert (row.state, row.reason) == ("cancelled", "stopped by ada")
    call = await s.client.store.ledger.read(f"{turn}.0.0")
    assert call is not None
    expected = {"note_once": "outcome_unknown", "note_keyed": "outcome_unknown", "note_pure": "turn_ended"}
    assert call.metadata["error_type"] == expected[tool]
    await s.assert_one_terminal_event(turn)
    assert (await s.ended(await s.send("next", session))).text == "fine"
    assert len(s.effects()) == 1


@requirement("I-04", "I-01", "P114")
async def test_a_stop_closes_the_model_stream_and_runs_nothing_more(system: OpenSystem) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"}), faults=[{"kind": "hold"}])),
        scenario("x", step(text="y")),
    )
    await s.start_worker()
    turn = await s.send("go")
    await s.model.wait(held=1)
    await s.client.stop(turn, "ada")
    assert (await s.ended(turn)).state == "cancelled"
    await s.model.wait(left=1)
    assert s.effects() == []
    await s.assert_one_terminal_event(turn)


@requirement("P109")
@pytest.mark.parametrize("how", ["cancel", "bad signal", "unknown query"])
async def test_interference_by_temporal_commands_ends_or_leaves_the_turn_cleanly(
    system: OpenSystem, how: str
) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a", "gate": "open"})), step(text="done")))
    await s.start_worker()
    turn = await s.send("go")
    await until(s.effects, "the tool")
    handle = s.temporal.get_workflow_handle(f"turn/{turn}")
    if how == "cancel":
        await handle.cancel()
        assert (await s.ended(turn)).state == "cancelled"
    else:
        if how == "bad signal":
            for payload in (
                [1, 2],
                "text",
                {"approval_id": 3},
                {"approval_id": "x" * 9999, "verdict": "approve"},
                None,
            ):
                await handle.signal("verdict", payload)
            await handle.signal("no_such_signal", 1)
            await handle.signal("verdict")
            await handle.signal("verdict", args=[1, 2])
            await handle.signal("verdict", args=[1, 2, 3, 4])
            await handle.signal("wake", args=[1, 2])
        else:
            with pytest.raises(Exception, match="not found|no_such"):
                await handle.query("no_such_query")
        (s.workdir / "open").touch()
        assert (await s.ended(turn)).state == "completed"
    await s.assert_one_terminal_event(turn)
    await s.workflow_closed(f"turn/{turn}")


@requirement("P12", "P06", "P04", "P01", "P03", "M-23")
async def test_what_a_model_gets_wrong_is_answered_and_the_turn_goes_on(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("serch_web", {}), ("read_file", {"path": "a.txt"}), ("na me\x07", {})),
            step(("note_once", '{"text": }')),
            step(("note_once", {"text": 5})),
            step(("note_once", {"text": "cut"}), faults=[{"kind": "length", "cut": 8}]),
            {
                "text": "",
                "calls": [
                    {"name": "read_file", "arguments": {"path": "a.txt"}, "id": "call_1"},
                    {"name": "read_file", "arguments": {"path": "b.txt"}, "id": "call_1"},
                    {"name": "read_file", "arguments": {"path": "a.txt"}, "id": None},
                    {"name": "read_file", "arguments": {"path": "b.txt"}, "id": ""},
                ],
            },
            step(
                ("odd", {"kind": "value_error"}),
                ("odd", {"kind": "unprintable"}),
                ("odd", {"kind": "not_a_result"}),
            ),
            step(text="done"),
        )
    )
    (s.workdir / "a.txt").write_text("alpha\n")
    (s.workdir / "b.txt").write_text("beta\n")
    await s.start_worker()
    turn = await s.send("go")
    assert (await s.ended(turn)).state == "completed"
    assert s.effects() == []

    async def kind(step_: int, index: int) -> str:
        row = await s.client.store.ledger.read(f"{turn}.{step_}.{index}")
        assert row is not None
        return str(row.metadata.get("error_type", row.output))

    assert await kind(0, 0) == "tool_not_found"
    assert "alpha" in await kind(0, 1)
    assert await kind(0, 2) == "tool_not_found"
    assert await kind(1, 0) == "invalid_json"
    assert await kind(2, 0) == "invalid_arguments"
    assert await kind(3, 0) == "truncated"
    assert ["alpha" in await kind(4, i) for i in range(4)] == [True, False, True, False]
    assert ["beta" in await kind(4, i) for i in range(4)] == [False, True, False, True]
    assert [await kind(5, i) for i in range(3)] == ["tool_error", "tool_error", "result_not_json"]
    assert {request["status"] for request in await s.model.requests()} == {200}, (
        "the strict endpoint took every request"
    )


@requirement("P19", "P31")
@pytest.mark.parametrize("odd", ["nul", "surrogate"])
async def test_text_that_no_store_can_hold_is_cleaned_on_its_way(system: OpenSystem, odd: str) -> None:
    s = await system(scenario("go", step(("odd", {"kind": odd})), step(text="got {{result:0}}")))
    await s.start_worker()
    turn = await s.send("go \x00 and on")
    assert (await s.ended(turn)).text == "got a\ufffdb"
    body = json.dumps((await s.model.requests())[0]["body"])
    assert "\\u0000" not in body


@requirement("P109")
@pytest.mark.parametrize("point", ["ledger.open_call", "transcript.open_step", "turns.look"])
async def test_a_defect_ends_the_turn_with_its_name_and_nobody_is_asked_on(
    system: OpenSystem, point: str
) -> None:
    s = await system(
        scenario("go", step(("note_once", {"text": "a"}), ("note_keyed", {"text": "b"})), step(text="done")),
        scenario("next", step(text="fine")),
        policy={"ask": ["note_once"]},
    )
    await s.start_worker(fault=f"{point}:defect:{s.home / 'failed'}")
    session = await s.session()
    turn = await s.send("go", session)
    row = await s.ended(turn)
    assert row.state == "failed"
    assert "RuntimeError" in row.reason
    assert await s.client.store.approvals.page(["pending", "approved"], turn, 10) == []
    await s.assert_one_terminal_event(turn)
    await s.workflow_closed(f"turn/{turn}")
    assert (await s.ended(await s.send("next", session))).text == "fine"


@requirement("P109", "I-01")
async def test_a_cancel_of_the_workflow_itself_settles_everything_once(system: OpenSystem) -> None:
    s = await system(
        scenario(
            "go",
            step(("note_once", {"text": "a", "gate": "never"}), ("bash", {"command": "true"})),
            step(text="x"),
        )
    )
    await s.start_worker()
    turn = await s.send("go")
    await s.pending(turn)
    await until(s.effects, "the tool")
    for _ in range(3):
        await s.temporal.get_workflow_handle(f"turn/{turn}").cancel()
    row = await s.ended(turn)
    assert (row.state, row.reason) == ("cancelled", "its workflow was cancelled from outside")
    await s.workflow_closed(f"turn/{turn}")
    await s.workflow_closed(f"session/{row.session}")
    await s.assert_one_terminal_event(turn)


@requirement("P109", "I-02")
@pytest.mark.parametrize(
    ("point", "calls"), [("approvals.request", 1), ("transcript.store_reply", 0)], ids=["asking", "reply"]
)
async def test_a_call_that_ends_well_after_the_cancel_leads_no_further(
    system: OpenSystem, point: str, calls: int
) -> None:
    s = await system(scenario("go", step(("bash", {"command": "true"})), step(text="x")))
    held = s.home / "held"
    await s.start_worker(fault=f"{point}:held:{held}")
    turn = await s.send("go")
    await until(held.exists, "the held transaction")
    handle = s.temporal.get_workflow_handle(f"turn/{turn}")
    await handle.cancel()

    async def told() -> bool:
        return any(
            event.HasField("activity_task_cancel_requested_event_attributes")
            for event in (await handle.fetch_history()).events
        )

    await until(told, "the activity's cancellation")
    released(held).touch()
    row = await s.ended(turn)
    assert (row.state, row.reason) == ("cancelled", "its workflow was cancelled from outside")
    names = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in (await handle.fetch_history()).events
    ]
    assert names.count("call_tool") == calls
    assert await s.client.store.approvals.page(["pending"], turn, 10) == []
    await s.workflow_closed(f"turn/{turn}")
    await s.assert_one_terminal_event(turn)


async def test_log_lines_carry_their_ids_and_the_history_says_in_words_what_ran(system: OpenSystem) -> None:
    s = await system(scenario("go", step(("note_once", {"text": "a"})), step(text="done")))
    worker = await s.start_worker()
    turn = await s.send("go")
    await s.ended(turn)
    session = turn.rsplit("/", 1)[0]
    await until(lambda: any(line["event"] == "turn.ended" for line in worker.lines()), "the last line")
    by_event = {line["event"]: line for line in worker.lines()}
    assert (
        by_event["tool.returned"].items()
        >= {"session": session, "turn": turn, "step": 0, "call": f"{turn}.0.0"}.items()
    )
    assert by_event["model.replied"].items() >= {"session": session, "turn": turn, "step": 1}.items()
    assert by_event["turn.ended"].items() >= {"session": session, "turn": turn, "state": "completed"}.items()
    summaries = [
        event.user_metadata.summary.data.decode()
        for event in (await s.history(turn)).events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert summaries == ['"step 0"', '"note_once"', '"step 1"']


@requirement("Q-09")
async def test_brief_calls_of_a_step_are_made_together_and_one_that_is_late_is_made_once_more_alone(
    system: OpenSystem,
) -> None:
    quick = [("note_brief", {"text": str(n)}) for n in range(4)]
    late = ("note_brief", {"text": "late", "gate": "open"})
    s = await system(scenario("go", step(*quick), step(*quick[:1], late), step(text="{{results}}")))
    await s.start_worker()
    turn = await s.send("go")
    await until(lambda: sum("late" in line for line in s.effects()) == 2, "the second try")
    (s.workdir / "open").touch()
    row = await s.ended(turn)
    assert row.text == "noted 0\nnoted late"
    await s.workflow_closed(f"turn/{turn}")
    kinds = [event.WhichOneof("attributes") for event in (await s.history(turn)).events]
    assert kinds.count("marker_recorded_event_attributes") == 3  # one for each step of calls, and the end
    scheduled = kinds.count("activity_task_scheduled_event_attributes")
    assert scheduled == 3 + 2  # the model, and the step whose local activity ran out of time


@requirement("T-29")
async def test_a_reply_with_text_and_calls_is_stored_with_both_and_only_text_alone_ends_the_turn(
    system: OpenSystem,
) -> None:
    s = await system(scenario("go", step(("note_pure", {"text": "a"}), text="I look."), step(text="done")))
    await s.start_worker()
    turn = await s.send("go")
    assert (await s.ended(turn)).text == "done"
    heard = await rows.transcript(s.database, turn.split("/", maxsplit=1)[0])
    assert [(entry.text, len(entry.calls)) for entry in heard.entries] == [
        ("go", 0),
        ("I look.", 1),
        ("done", 0),
    ]
