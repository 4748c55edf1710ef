"""`send`, `stop`, `sessions` and `events`: scripts that hand work over and look at it later."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import ROUNDTURN, OpenDesk
from tests.cli.test_approvals import Terminal
from tests.requirements import requirement
from tests.system import scenario, step, until

HELLO = scenario("hello", step(("note_pure", {"text": "a\tb"})), step(text="the answer"))


@requirement("P119")
async def test_the_same_key_twice_is_one_turn(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    session = await d.system.session()
    sent = [d.roundturn.start("send", session, "hello", "--key", "k1", "--json") for _ in range(3)]
    documents = [(await one.ended()).document for one in sent]
    assert documents == [{"session": session, "turn": f"{session}/1"}] * 3
    plain = await d.roundturn("send", session[:12], "hello", "--key", "k2")
    assert (plain.code, plain.out) == (0, f"{session}/2\n")


@requirement("P117")
async def test_a_locked_store_only_delays_a_message(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    session = await d.system.session()
    store = sqlite3.connect(d.system.home / "roundturn.db", isolation_level=None, check_same_thread=False)
    store.execute("BEGIN IMMEDIATE")
    release = threading.Timer(3, lambda: store.execute("ROLLBACK"))
    release.start()
    done = await d.roundturn("send", session, "hello", "--json")
    release.join()
    store.close()
    assert (done.code, done.document["turn"]) == (0, f"{session}/1")
    assert "locked" not in done.err


def _has_open(pid: int, name: str) -> bool:
    try:
        return any(name in os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:  # closed while we looked
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc for the open store")
@requirement("P124")
async def test_ctrl_c_before_a_locked_store_leaves_soon_and_nothing_is_half_written(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    session = await d.system.session()
    store = sqlite3.connect(d.system.home / "roundturn.db", isolation_level=None)
    store.execute("BEGIN IMMEDIATE")
    sending = d.roundturn.start("send", session, "hello")
    await until(lambda: _has_open(sending.process.pid, "roundturn.db"), "the open store")
    sending.interrupt()
    done = await sending.ended()
    store.execute("ROLLBACK")
    store.close()
    assert done.code == 130
    assert await d.system.client.store.turns.last_of(session) is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc for the open store")
@requirement("P124")
async def test_ctrl_c_before_a_run_is_committed_says_that_nothing_was_sent(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    store = sqlite3.connect(d.system.home / "roundturn.db", isolation_level=None)
    store.execute("BEGIN IMMEDIATE")
    running = d.roundturn.start("run", "hello")
    await until(lambda: _has_open(running.process.pid, "roundturn.db"), "the open store")
    running.interrupt()
    done = await running.ended()
    store.execute("ROLLBACK")
    store.close()
    assert (done.code, done.out) == (130, "")
    assert "Nothing was sent" in done.err
    assert "The run goes on" not in done.err


async def test_a_message_is_safe_while_temporal_is_away(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    session = await d.system.session()
    done = await d.roundturn(
        "send", session, "hello", "--json", also={"ROUNDTURN_TEMPORAL_ADDRESS": "127.0.0.1:1"}
    )
    assert (done.code, done.document) == (0, {"session": session, "turn": f"{session}/1"})
    assert "The message is safe" in done.err
    assert (await d.system.ended(f"{session}/1")).text == "the answer"


async def test_unknown_sessions_and_keys_that_are_none_are_wrong_usage(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    session = await d.system.session()
    for arguments in (("s_zzzzzzzz", "hi"), (session, "hi", "--key", "a/b"), (session, "  ")):
        done = await d.roundturn("send", *arguments, "--json")
        assert (done.code, done.out, done.error["type"]) == (2, "", "usage")
        assert set(done.error) == {"type", "title", "detail", "hint"}


async def test_a_stop_that_comes_too_late_is_code_6(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    session, run = await d.start("hello")
    await d.system.ended(run)
    done = await d.roundturn("stop", run, "--json")
    assert (done.code, done.error["type"]) == (6, "settled")
    assert "completed" in done.error["detail"]
    assert (await d.roundturn("stop", session)).code == 6


async def test_a_queued_message_is_stopped_without_a_worker(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    session, run = await d.start("hello")
    done = await d.roundturn("stop", session, "--json", "--as", "ada")
    told = {"session": session, "turn": run, "run": run, "state": "cancelled"}
    assert (done.code, done.document) == (0, told)
    assert (await d.roundturn("stop", session)).code == 0  # again is the same


async def test_sessions_are_listed_with_what_they_do(desk: OpenDesk) -> None:
    d = await desk(HELLO, scenario("ship", step(("bash", {"command": "echo x"})), step(text="x")))
    idle, run = await d.start("hello")
    await d.system.ended(run)
    waits = (await d.asked("ship it")).session
    done = await d.roundturn("sessions", "--json")
    assert done.document["next"] is None
    found = {
        item["session"]: (item["state"], item["title"], item["waits"]) for item in done.document["items"]
    }
    assert found == {idle: ("idle", "hello", 0), waits: ("waiting for a person", "ship it", 1)}
    newest = await d.roundturn("sessions", "--quiet", "--limit", "1")
    assert newest.out == f"{waits}\n"
    lines = (await d.roundturn("sessions")).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [waits, idle]


async def test_events_are_one_object_a_line_and_resume_behind_an_offset(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    session, run = await d.start("hello")
    followed = await d.roundturn("events", run, "--jsonl", "--follow")
    assert followed.code == 0
    events = [json.loads(line) for line in followed.out.splitlines()]
    assert [event["offset"] for event in events] == list(range(1, len(events) + 1))
    assert all(set(event) == {"run", "offset", "type", "ts", "data"} for event in events)
    assert all(event["run"] == run and event["ts"] > 1_600_000_000_000 for event in events)
    assert events[-1]["type"] == "run.ended"
    rest = await d.roundturn("events", session, "--jsonl", "--after", "3")
    assert [json.loads(line) for line in rest.out.splitlines()] == events[3:]
    behind = await d.roundturn("events", run, "--follow", "--after", "999")
    assert (behind.code, behind.out) == (0, "")
    document = (await d.roundturn("events", run, "--json", "--types", "tool,turn.ended")).document
    assert {item["type"].split(".")[0] for item in document["items"]} == {"tool", "turn"}


async def test_events_end_with_the_answer_where_there_is_room_for_it(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    _, run = await d.start("hello")
    await d.system.ended(run)
    for follow in ((), ("--follow",)):
        terminal = Terminal(d, "events", run, *follow)
        assert await terminal.ended() == 0
        assert terminal.said.endswith("completed\r\n\r\nthe answer\r\n\r\n")
        document = (await d.roundturn("events", run, "--json", *follow)).document
        assert (document["state"], document["text"]) == ("completed", "the answer")
        assert document["items"][-1]["type"] == "run.ended"
        assert "the answer" not in (await d.roundturn("events", run, *follow)).out
    chosen = Terminal(d, "events", run, "--types", "tool")
    assert await chosen.ended() == 0
    assert "the answer" not in chosen.said


async def test_a_session_is_shown_as_its_conversation(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    session, run = await d.start("hello")
    await d.system.ended(run)
    await d.system.ended(await d.system.send("hello again", session))
    done = await d.roundturn("sessions", session[:11])
    lines = done.out.splitlines()
    assert (done.code, lines[0], lines[2]) == (0, "1  > hello", "   the answer")
    assert lines[1].startswith("   · note_pure")
    assert lines[3] == "2  > hello again"
    items = (await d.roundturn("sessions", session, "--json")).document["items"]
    assert [(item["message"], item["text"]) for item in items] == [
        ("hello", "the answer"),
        ("hello again", "the answer"),
    ]
    assert (await d.roundturn("sessions", "s_zzzzzzzz")).code == 2


async def test_an_idle_session_says_how_its_last_run_ended(desk: OpenDesk) -> None:
    refused = {"kind": "status", "status": 401, "message": "no such key"}
    two = (step(("note_pure", {"text": "a"})), step(("note_pure", {"text": "b"})))
    d = await desk(
        scenario("refused", step(text="never", faults=[refused])),
        scenario("forever", *two, step(text="x")),
        scenario("short", step(text="x")),
        max_steps=1,
    )
    for text in ("refused", "forever", "short"):
        await d.system.ended((await d.start(text))[1])
    items = (await d.roundturn("sessions", "--json")).document["items"]
    assert {item["title"]: item["state"] for item in items} == {
        "refused": "idle (failed)",
        "forever": "idle (incomplete)",
        "short": "idle",
    }


async def test_a_stop_names_the_call_whose_outcome_is_unknown(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "sleep 30; echo x"})), step(text="x")))
    row = await d.asked("ship it")
    assert (await d.roundturn("approvals", "approve", row.id, "--digest", row.digest)).code == 0
    followed = d.roundturn.start("events", row.turn, "--follow")
    await followed.says("tool.started", "out")
    done = await d.roundturn("stop", row.session)
    assert (done.code, "stopped" in done.out) == (0, True)
    assert (
        "1 side effect has an unknown outcome: bash sleep 30; echo x; look before doing it again" in done.err
    )
    assert (await d.roundturn("sessions")).out.split("\t")[1] == "idle (cancelled)"


@requirement("P124")
async def test_events_in_a_pipe_are_tabs_and_head_ends_them_quietly(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    _, run = await d.start("hello")
    await d.system.ended(run)
    done = await d.roundturn("events", run)
    fields = [line.split("\t") for line in done.out.splitlines()]
    assert all(len(line) == 4 and line[0].endswith("Z") for line in fields)
    piped = subprocess.run(
        f"set -o pipefail; {ROUNDTURN} events {run} | head -1", shell=True, executable="/bin/bash",
        env=d.roundturn.environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert piped.returncode in (0, 141)
    assert (piped.stdout.count(b"\n"), piped.stderr) == (1, b"")


@requirement("P124")
async def test_following_events_is_left_by_ctrl_c_and_ends_with_the_code_of_the_run(desk: OpenDesk) -> None:
    d = await desk(scenario("ship", step(("bash", {"command": "echo x"})), step(text="x")))
    row = await d.asked("ship it")
    left = d.roundturn.start("events", row.turn, "--follow")
    stays = d.roundturn.start("events", row.turn, "--follow")
    await left.says("approval.requested", "out")
    left.interrupt()
    done = await left.ended()
    assert done.code == 130
    assert "The run goes on" in done.err
    await d.system.client.stop(row.session, "ada")
    assert (await stays.ended()).code == 9


async def test_following_asks_only_the_store(desk: OpenDesk) -> None:
    d = await desk(HELLO)
    _, run = await d.start("hello")
    done = await d.roundturn("events", run, "--follow", also={"ROUNDTURN_TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert done.code == 0
