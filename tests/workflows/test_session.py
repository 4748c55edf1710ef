"""Row, doorbell, Session: every message is handled exactly once, in order, and nothing stays open."""

import asyncio
from collections import defaultdict
from pathlib import Path

from tests import rows
from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import System, TemporalServer, scenario, step, until

ANSWER = scenario("re:message (\\S+)", step(text="heard {{match:1}}"))


async def open_workflows(s: System) -> list[str]:
    query = f"TaskQueue='{s.settings.task_queue}' AND ExecutionStatus='Running' AND WorkflowType!='Reconcile'"
    return [found.id async for found in s.temporal.list_workflows(query)]


async def assert_all_closed(s: System) -> None:
    async def none_open() -> bool:
        return not await open_workflows(s)

    await until(none_open, "all workflows to close")


@requirement("P107", "P119", "L-16", "L-18")
async def test_200_messages_of_8_senders_into_12_sessions_are_each_handled_once_and_in_order(
    system: OpenSystem,
) -> None:
    s = await system(ANSWER)
    await s.start_worker()
    sessions = [await s.session() for _ in range(12)]
    sent: dict[str, list[str]] = defaultdict(list)

    async def sender(number: int) -> None:
        for i in range(25):
            session = sessions[(number * 25 + i) % 12]
            sent[session].append(await s.send(f"message {number}-{i}", session))

    await asyncio.gather(*(sender(number) for number in range(8)))
    for session, turns in sent.items():
        ordered = sorted(turns, key=lambda turn: int(turn.rsplit("/", 1)[1]))
        assert len(set(turns)) == len(turns)
        ended = [await s.ended(turn, 120) for turn in ordered]
        assert {row.state for row in ended} == {"completed"}
        assert [row.started_at for row in ended] == sorted(row.started_at for row in ended if row.started_at)
        talk = (await rows.transcript(s.database, session)).entries
        asked = [entry.text.removeprefix("message ") for entry in talk if entry.role == "user"]
        answered = [entry.text.removeprefix("heard ") for entry in talk if entry.role == "assistant"]
        assert asked == answered
        assert len(asked) == len(turns)
    assert sum(len(turns) for turns in sent.values()) == 200
    assert len(await s.model.requests()) == 200
    await assert_all_closed(s)


@requirement("P119", "P81")
async def test_the_same_client_message_sent_ten_times_at_once_is_one_turn(system: OpenSystem) -> None:
    s = await system(ANSWER)
    await s.start_worker()
    session = await s.session()
    turns = await asyncio.gather(*(s.send("message a", session, key="client-1") for _ in range(10)))
    assert len(set(turns)) == 1
    await s.ended(turns[0])
    assert await s.send("message a", session, key="client-1") == turns[0]
    await assert_all_closed(s)
    assert len(await s.model.requests()) == 1


@requirement("P107", "Q-04")
async def test_a_session_that_continues_as_new_all_the_time_loses_no_message(
    system: OpenSystem, tmp_path: Path
) -> None:
    server = TemporalServer(tmp_path, "limit.historyCount.suggestContinueAsNew=12")
    server.start()
    try:
        s = await system(ANSWER, server=server)
        await s.start_worker()
        session = await s.session()
        turns: list[str] = []

        async def sender(number: int) -> None:
            turns.extend([await s.send(f"message {number}-{i}", session) for i in range(4)])

        await asyncio.gather(*(sender(number) for number in range(4)))
        assert {(await s.ended(turn)).state for turn in turns} == {"completed"}
        assert len(await s.model.requests()) == 16
        runs = [w async for w in s.temporal.list_workflows(f"WorkflowId='session/{session}'")]
        assert len(runs) > 3, "the session was meant to roll"
        await assert_all_closed(s)
    finally:
        server.kill()


@requirement("P111", "Q-10")
async def test_a_message_whose_doorbell_was_never_heard_is_taken_up_by_the_reconciler(
    system: OpenSystem,
) -> None:
    s = await system(ANSWER)
    await s.start_worker()
    accepted = await s.client.store.inbox.accept(await s.session(), "message lost")
    assert accepted is not None
    assert (await s.ended(accepted.turn, 30)).text == "heard lost"


async def test_a_stop_of_a_queued_message_ends_it_without_a_model_call(system: OpenSystem) -> None:
    s = await system(
        scenario("wait", step(("note_once", {"text": "a", "gate": "open"})), step(text="ok")), ANSWER
    )
    await s.start_worker()
    session = await s.session()
    first = await s.send("wait here", session)
    await until(s.effects, "the first turn's tool")
    second = await s.send("message b", session)
    assert (await s.client.stop(second, "ada")).state == "cancelled"
    (s.workdir / "open").touch()
    assert (await s.ended(first)).state == "completed"
    await s.assert_one_terminal_event(second)
    assert all("message b" not in str(request["body"]) for request in await s.model.requests())


@requirement("Q-10", "I-11")
async def test_a_turn_terminated_from_outside_is_settled_and_the_session_goes_on(system: OpenSystem) -> None:
    s = await system(
        scenario("wait", step(("note_once", {"text": "a", "gate": "never"})), step(text="ok")), ANSWER
    )
    await s.start_worker()
    session = await s.session()
    first = await s.send("wait here", session)
    await until(s.effects, "the tool")
    await s.temporal.get_workflow_handle(f"turn/{first}").terminate()
    second = await s.send("message b", session)
    assert (await s.ended(second)).text == "heard b"
    row = await s.ended(first)
    assert row.state == "failed"
    await s.assert_one_terminal_event(first)
    (call,) = [await s.client.store.ledger.read(f"{first}.0.0")]
    assert call is not None
    assert call.metadata["error_type"] == "outcome_unknown"


@requirement("Q-10")
async def test_a_session_terminated_while_its_turn_runs_starts_no_second_turn(system: OpenSystem) -> None:
    s = await system(
        scenario("wait", step(("note_once", {"text": "a", "gate": "open"})), step(text="ok")), ANSWER
    )
    await s.start_worker()
    session = await s.session()
    first = await s.send("wait here", session)
    await until(s.effects, "the tool")
    await s.temporal.get_workflow_handle(f"session/{session}").terminate()
    second = await s.send("message b", session)
    (s.workdir / "open").touch()
    assert (await s.ended(first)).state == "completed"
    assert (await s.ended(second)).state == "completed"
    assert len(s.effects()) == 1
    await assert_all_closed(s)


@requirement("L-16", "L-18")
async def test_a_cancel_of_the_session_workflow_leaves_its_turn_alone_and_the_next_one_waits(
    system: OpenSystem,
) -> None:
    s = await system(
        scenario("wait", step(("note_once", {"text": "a", "gate": "open"})), step(text="ok")), ANSWER
    )
    await s.start_worker()
    session = await s.session()
    first = await s.send("wait here", session)
    await until(s.effects, "the tool")
    second = await s.send("message b", session)
    await s.temporal.get_workflow_handle(f"session/{session}").cancel()
    handle = s.temporal.get_workflow_handle(f"session/{session}")

    async def heard() -> bool:
        events = (await handle.fetch_history()).events
        return any(event.HasField("workflow_execution_cancel_requested_event_attributes") for event in events)

    await until(heard, "the cancel request in the history")
    assert [line for line in await s.types(second) if line == "turn.started"] == []
    (s.workdir / "open").touch()
    assert (await s.ended(first)).state == "completed"
    assert (await s.ended(second)).text == "heard b"
    await assert_all_closed(s)
