"""`run`: what a script reads, which code it gets, how it is left."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
from pathlib import Path

from tests.cli.conftest import ROUNDTURN, CommandLine, OpenDesk
from tests.requirements import requirement
from tests.system import scenario, step, until

KEYS = {
    "session", "turn", "run", "state", "reason", "text", "steps", "usage", "cost", "approvals", "subagents",
}  # fmt: skip
ASKS = scenario("ship", step(("bash", {"command": "echo shipped"})), step(text="it is shipped"))


@requirement("P124")
async def test_the_answer_alone_is_on_stdout_and_all_talk_on_stderr(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(("note_pure", {"text": "a"})), step(text="the answer")))
    done = await d.roundturn("run", "hello", "--workdir", str(d.system.workdir))
    assert (done.code, done.out) == (0, "the answer\n")
    assert "✓ note_pure" in done.err
    assert "completed · 2 steps" in done.err.splitlines()[-1]
    assert "\x1b" not in done.err


async def test_json_is_one_document_with_the_keys_of_the_contract_and_stderr_is_silent(
    desk: OpenDesk,
) -> None:
    d = await desk(scenario("hello", step(("note_pure", {"text": "a"})), step(text="the answer")))
    done = await d.roundturn("run", "hello", "--json")
    found = done.document
    assert (done.code, done.err, set(found)) == (0, "", KEYS)
    assert found["turn"] == found["run"] == f"{found['session']}/1"
    assert (found["state"], found["text"], found["steps"]) == ("completed", "the answer", 2)
    assert found["cost"] == {"usd": None, "unpriced_calls": 2}
    assert set(found["usage"]) == {"input_tokens", "output_tokens", "cached_tokens"}
    assert found["approvals"] == []


async def test_jsonl_is_the_journal_and_then_the_result(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(text="the answer")))
    done = await d.roundturn("run", "hello", "--jsonl")
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    assert [event["offset"] for event in events] == list(range(1, len(events) + 1))
    assert set(events[0]) == {"run", "offset", "type", "ts", "data"}
    assert (result["type"], result["text"]) == ("result", "the answer")


async def test_the_code_says_how_the_run_ended(desk: OpenDesk) -> None:
    refused = {"kind": "status", "status": 401, "message": "no such key"}
    d = await desk(
        scenario("forever", step(("note_pure", {"text": "a"})), step(("note_pure", {"text": "b"})), step(text="x")),
        scenario("refused", step(text="never", faults=[refused])),
        max_steps=1,
    )  # fmt: skip
    incomplete = await d.roundturn("run", "forever")
    assert (incomplete.code, incomplete.out) == (5, "")
    assert incomplete.err.splitlines()[-1].startswith("max_steps")
    failed = await d.roundturn("run", "refused")
    assert (failed.code, failed.out) == (1, "")
    assert "401" in failed.err


async def test_a_run_that_was_stopped_by_somebody_is_code_9(desk: OpenDesk) -> None:
    d = await desk(scenario("long", step(text="x", faults=[{"kind": "hold"}])))
    running = d.roundturn.start("run", "long", "--quiet")
    await d.system.model.wait(held=1)
    await running.says("s_", "out")
    stopped = await d.roundturn("stop", running.out.strip())
    assert stopped.code == 0, stopped
    assert (await running.ended()).code == 9


async def test_a_completed_run_with_a_call_of_unknown_outcome_is_code_10(desk: OpenDesk) -> None:
    gated = {"text": "a", "gate": "open"}
    d = await desk(scenario("risky", step(("note_once", gated)), step(text="done, I think")))
    running = d.roundturn.start("run", "risky", "--workdir", str(d.system.workdir))
    await until(d.system.effects, "the effect")
    d.system.workers[0].kill()
    await d.system.start_worker()
    done = await running.ended()
    assert (done.code, done.out) == (10, "done, I think\n")
    assert "outcome unknown: note_once" in done.err
    assert len(d.system.effects()) == 1


async def test_no_wait_prints_the_session_and_leaves(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(text="the answer")))
    done = await d.roundturn("run", "hello", "--no-wait")
    assert done.code == 0
    assert (await d.system.ended(f"{done.out.strip()}/1")).text == "the answer"


async def test_until_approval_leaves_with_3_and_names_the_approval(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    done = await d.roundturn("run", "ship it", "--until-approval", "--json")
    assert done.code == 3
    found = done.document
    assert (found["state"], [one["state"] for one in found["approvals"]]) == ("running", ["pending"])
    text = await d.roundturn("run", "ship it", "--until-approval")
    assert (text.code, text.out) == (3, "")
    assert "▲ bash  echo shipped   waits for a person · ap_" in text.err
    assert "in another terminal: roundturn approvals approve ap_" in text.err
    assert re.search(r'deny: roundturn approvals deny ap_\w+ --reason "…"', text.err)


async def test_what_hides_in_a_call_is_visible_in_the_rows(desk: OpenDesk) -> None:
    hides, seen = "a\u202eb\u200bc\ufeff\x1b[2K", r"a\u202eb\u200bc\ufeff\x1b[2K"
    d = await desk(
        scenario(
            "ship", step(("note_pure", {"text": hides})), step(("bash", {"command": hides})), step(text="x")
        )
    )
    done = await d.roundturn("run", "ship it", "--until-approval")
    waits = next(line for line in done.err.splitlines() if line.startswith("▲"))
    assert seen in waits
    settled = next(line for line in done.err.splitlines() if "✓ note_pure" in line)
    events = (await d.roundturn("events", done.err.split()[1])).out
    for shown in (settled, events, done.err):
        assert r"\u202e" in shown and r"\u200b" in shown and r"\ufeff" in shown
        assert not set("\u202e\u200b\ufeff\x1b") & set(shown)


async def test_an_empty_message_opens_no_session(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    done = await d.roundturn("run", " \n", "--json")
    assert (done.code, done.out, done.error["type"]) == (2, "", "usage")
    assert (await d.roundturn("sessions", "--json")).document["items"] == []


async def test_timeout_leaves_with_124_and_the_run_goes_on(desk: OpenDesk) -> None:
    d = await desk(scenario("slow", step(text="at last", faults=[{"kind": "hold"}])))
    done = await d.roundturn("run", "slow", "--timeout", "1", "--json")
    assert done.code == 124
    assert "The run goes on" in done.err
    await d.system.model.release()
    assert (await d.system.ended(done.document["run"])).text == "at last"


@requirement("P124")
async def test_ctrl_c_while_the_model_works_leaves_and_the_run_goes_on(desk: OpenDesk) -> None:
    d = await desk(scenario("slow", step(text="at last", faults=[{"kind": "hold"}])))
    running = d.roundturn.start("run", "slow")
    await d.system.model.wait(held=1)
    await running.says("session s_")
    running.interrupt()
    done = await running.ended()
    assert (done.code, done.out) == (130, "")
    run = done.err.split("roundturn events ")[1].split()[0]
    assert "Left. The run goes on." in done.err
    assert f"stop: roundturn stop {run}" in done.err
    await d.system.model.release()
    assert (await d.system.ended(run)).text == "at last"


@requirement("P124")
async def test_ctrl_c_while_a_tool_works_leaves_and_the_tool_ends_once(desk: OpenDesk) -> None:
    gated = {"text": "a", "gate": "open"}
    d = await desk(scenario("tool", step(("note_once", gated)), step(text="noted")))
    running = d.roundturn.start("run", "tool", "--workdir", str(d.system.workdir))
    await until(d.system.effects, "the effect")
    running.interrupt()
    done = await running.ended()
    assert done.code == 130
    (d.system.workdir / "open").touch()
    assert (await d.system.ended(done.err.split("roundturn events ")[1].split()[0])).text == "noted"
    assert len(d.system.effects()) == 1


@requirement("P124")
async def test_ctrl_c_while_a_person_is_waited_for_leaves_and_the_approval_stays(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    running = d.roundturn.start("run", "ship it")
    await running.says("waits for a person")
    running.interrupt()
    done = await running.ended()
    assert done.code == 130
    run = done.err.split("roundturn events ")[1].split()[0]
    assert len(await d.system.pending(run)) == 1


async def test_sigterm_leaves_with_143(desk: OpenDesk) -> None:
    d = await desk(ASKS)
    running = d.roundturn.start("run", "ship it")
    await running.says("waits for a person")
    running.process.send_signal(signal.SIGTERM)
    done = await running.ended()
    assert done.code == 143
    assert "The run goes on" in done.err


@requirement("P124")
async def test_stop_on_interrupt_stops_the_run_and_waits_for_its_end(desk: OpenDesk) -> None:
    d = await desk(scenario("slow", step(text="never", faults=[{"kind": "hold"}])))
    running = d.roundturn.start("run", "slow", "--stop-on-interrupt")
    await d.system.model.wait(held=1)
    running.interrupt()
    done = await running.ended()
    assert done.code == 9
    assert "stopping" in done.err


@requirement("P124")
async def test_a_second_ctrl_c_leaves_although_the_stop_is_not_through(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    running = d.roundturn.start("run", "nobody is there", "--stop-on-interrupt")
    await running.says("session s_")
    with sqlite3.connect(d.system.home / "roundturn.db", isolation_level=None) as store:
        store.execute("BEGIN IMMEDIATE")
        running.interrupt()
        await running.says("stopping")
        running.interrupt()
        done = await running.ended()
        store.execute("ROLLBACK")
    store.close()
    assert done.code == 130
    assert "The run goes on" in done.err


async def test_without_a_worker_it_is_said_once(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    done = await d.roundturn("run", "anybody?", "--timeout", "7")
    assert done.code == 124
    assert done.err.count("no worker has taken this up yet") == 1


async def test_an_answer_cannot_steer_the_terminal(desk: OpenDesk) -> None:
    d = await desk(scenario("evil", step(text="a\x1b[2Jb\x1b]0;title\x07c\x9b31md\r")))
    done = await d.roundturn("run", "evil")
    assert done.out == "abcd\n"


@requirement("P124")
async def test_it_works_with_the_c_locale_and_with_text_that_is_not_unicode(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(text="Grüße 世界 \ud800")))
    for locale in ({"LANG": "C", "LC_ALL": "C"}, {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}):
        for form in ("--json", "--color=never"):
            done = await d.roundturn("run", b"hello \xff".decode(errors="surrogateescape"), form, also=locale)
            assert done.code == 0, done
            assert "Gr" in done.out


async def test_no_temporal_is_7_before_anything_is_committed(desk: OpenDesk) -> None:
    d = await desk(worker=False)
    done = await d.roundturn("run", "hello", "--json", also={"ROUNDTURN_TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (done.code, done.out) == (7, "")
    assert done.error["type"] == "unavailable"
    assert "roundturn dev" in done.error["hint"]
    assert await d.system.client.store.sessions.page("", 10) == []


async def test_text_comes_from_stdin_and_goes_on_in_a_session_by_its_short_id(desk: OpenDesk) -> None:
    d = await desk(scenario("again", step(text="again")), scenario("first", step(text="first")))
    first = (await d.roundturn("run", "-", "--json", stdin=b"first\n")).document
    second = await d.roundturn("run", "again", "--session", first["session"][:10], "--json")
    assert second.document["turn"] == f"{first['session']}/2"
    wrong = await d.roundturn("run", "x", "--session", first["session"], "--agent", "other")
    assert wrong.code == 2


async def test_an_agent_that_only_a_worker_may_know_is_doubted_once_and_tried(desk: OpenDesk) -> None:
    d = await desk()
    done = await d.roundturn("run", "hello", "--agent", "asistant")
    assert done.code == 1
    doubt = "no agent named asistant is known to the settings of this shell (did you mean assistant?)"
    assert done.err.count(doubt) == 1
    assert done.err.count("there is no agent named asistant on this worker") == 1
    assert "there is no agent named asistant" in done.err.splitlines()[-1]


async def test_an_agent_that_only_the_worker_knows_works(desk: OpenDesk, tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    told = '+++\nname = "raeder"\ndescription = "reads"\n+++\nYou read.\n'
    (agents / "raeder.md").write_text(told)
    d = await desk(scenario("hello", step(text="read")), agents_dir=agents)
    elsewhere = {name: text for name, text in d.roundturn.environment.items() if "AGENTS_DIR" not in name}
    shell = CommandLine(elsewhere, d.roundturn.folder)
    done = await shell("run", "hello", "--agent", "raeder")
    assert (done.code, done.out) == (0, "read\n"), done
    assert done.err.count("its worker may know it") == 1
    known = await d.roundturn("run", "hello", "--agent", "raeder")
    assert (known.code, "may know" in known.err) == (0, False)


async def test_an_agent_that_the_worker_of_a_dev_does_not_know_opens_no_session(desk: OpenDesk) -> None:
    """Its dev.json says which it knows, whatever the settings of this shell are."""
    d = await desk(scenario("hello", step(text="there")), worker=False)
    settings = d.system.settings
    of_dev = {"settings": {"temporal_address": settings.temporal_address}, "pid": os.getpid()}
    file = settings.home / "dev.json"
    file.write_text(json.dumps(of_dev | {"agents": ["assistant", "reader"]}))
    done = await d.roundturn("run", "hello", "--agent", "raeder", "--json")
    assert (done.code, done.error["detail"]) == (2, "there is no agent named raeder")
    assert done.error["hint"] == "did you mean reader?"
    assert await d.system.client.store.sessions.page("", 10) == []
    assert (await d.roundturn("run", "hello", "--agent", "reader", "--no-wait")).code == 0
    file.write_text(json.dumps(of_dev | {"agents": ["assistant"], "pid": 2**22 + 1}))
    assert (await d.roundturn("run", "hello", "--agent", "raeder", "--no-wait")).code == 0


async def test_a_dead_endpoint_is_named_in_the_last_line(desk: OpenDesk) -> None:
    d = await desk(model_base_url="http://someone:hidden@127.0.0.1:9/v1", model_attempts=1)
    done = await d.roundturn("run", "hello")
    assert done.code == 1
    assert "the model endpoint 127.0.0.1:9 is not reachable" in done.err.splitlines()[-1]
    assert "hidden" not in done.err


@requirement("P124")
async def test_a_pipe_whose_reader_leaves_ends_quietly(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(text="x\n" * 200_000)))
    with subprocess.Popen(
        [ROUNDTURN, "run", "hello"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=d.roundturn.environment
    ) as process:  # fmt: skip
        out, errors = process.stdout, process.stderr
        assert out is not None and errors is not None
        assert await asyncio.to_thread(out.readline) == b"x\n"
        out.close()
        err = (await asyncio.to_thread(errors.read)).decode()
        assert process.wait(30) == -signal.SIGPIPE
    assert "Error" not in err and "Traceback" not in err


def test_a_closed_stdout_is_not_written_into_the_store(alone: CommandLine) -> None:
    command = f"{ROUNDTURN} db upgrade >&- 2>&- <&-"
    assert subprocess.run(command, shell=True, env=alone.environment, timeout=60, check=False).returncode == 0
    with sqlite3.connect(f"{alone.environment['ROUNDTURN_HOME']}/roundturn.db") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store.close()
