"""How the command line explains itself: help, near names, settings, a home where nothing runs."""

import json
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.exits import Code
from roundturn import __version__
from roundturn.middleware import ORDER
from tests.cli.conftest import ROUNDTURN, CommandLine, OpenDesk
from tests.requirements import requirement
from tests.system import scenario, step

COMMANDS = (
    "run", "send", "stop", "sessions", "events", "replay", "worker", "dev", "demo", "help", "approvals list", "approvals show",
    "approvals approve", "approvals deny", "agents list", "agents validate", "db upgrade", "inspect chain",
    "inspect tools", "inspect decide", "mode", "rules", "rules set", "rules clear",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_help_of_each_command_has_three_examples_and_the_exit_codes(
    alone: CommandLine, command: str
) -> None:
    done = await alone(*command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("$ ") >= 3
    examples = [line for line in done.out.splitlines() if line.strip().startswith("$ ")]
    assert all(f"roundturn {command}" in line for line in examples)
    assert re.search(r"Exit codes:\n +0 ", done.out)
    if command != "help":
        assert "--home" in done.out


def test_version_and_help_cost_little(alone: CommandLine) -> None:
    for option in ("--version", "--help"):
        took = []
        for _ in range(3):  # processor time: other processes on this machine do not count
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([ROUNDTURN, option], env=alone.environment, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert min(took) < 0.4, (option, took)


async def test_the_version_is_the_packages(alone: CommandLine) -> None:
    assert (await alone("--version")).out == f"roundturn {__version__}\n"


async def test_unknown_commands_and_settings_are_code_2_and_name_what_is_near(alone: CommandLine) -> None:
    command = await alone("approvls", "list")
    assert command.code == 2
    assert "approvals" in command.err
    option = await alone("run", "hello", "--no-wiat", "--json")
    assert (option.code, option.error["type"]) == (2, "usage")
    assert "--no-wait" in option.error["detail"]
    setting = await alone("agents", "list", "--json", also={"ROUNDTURN_MODLE": "x"})
    assert (setting.code, setting.error["type"]) == (2, "configuration")
    assert "ROUNDTURN_MODEL" in setting.error["hint"]
    value = await alone("agents", "list", also={"ROUNDTURN_MAX_STEPS": "none"})
    assert value.code == 2
    assert "max_steps" in value.err


async def test_a_missing_argument_is_code_2_and_no_command_at_all_shows_the_help(alone: CommandLine) -> None:
    assert (await alone("send")).code == 2
    bare = await alone()
    assert (bare.code, bare.out) == (2, "")
    assert "Commands:" in bare.err


async def test_the_exit_codes_are_one_table(alone: CommandLine) -> None:
    done = await alone("help", "exit-codes")
    codes = [int(line.split("\t")[0]) for line in done.out.splitlines()]
    assert codes == [code.value for code in Code] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 124, 130, 143]
    assert (await alone("help")).out.split("\t")[0] == "exit-codes"
    other = await alone("help", "exitcodes")
    assert other.code == 2
    assert "help exit-codes" in other.err


@pytest.mark.parametrize(
    "command", ["run hello", "send s_aaaa hi", "sessions", "approvals list", "events s_aaaa/1"]
)
async def test_a_home_without_a_store_is_code_7_and_says_how_to_start(
    alone: CommandLine, command: str
) -> None:
    done = await alone(*command.split(), "--json")
    assert (done.code, done.out, done.error["type"]) == (7, "", "unavailable")
    home = alone.environment["ROUNDTURN_HOME"]
    assert done.error["detail"] == f"there is no Roundturn state in {home}"
    assert "--home" in done.error["hint"] and done.error["hint"].endswith("roundturn dev")
    assert not (Path(home) / "roundturn.db").exists()


async def test_a_store_of_another_version_is_code_7_and_names_db_upgrade(alone: CommandLine) -> None:
    assert (await alone("db", "upgrade")).code == 0
    with sqlite3.connect(f"{alone.environment['ROUNDTURN_HOME']}/roundturn.db") as store:
        store.execute("UPDATE alembic_version SET version_num = '0000'")
    store.close()
    done = await alone("sessions", "--json")
    assert (done.code, done.error["type"]) == (7, "unavailable")
    assert "roundturn db upgrade" in done.error["hint"]


async def test_db_upgrade_makes_the_store_once(alone: CommandLine) -> None:
    first = await alone("db", "upgrade", "--json")
    assert first.code == 0
    assert first.document["before"] is None
    again = await alone("db", "upgrade")
    assert again.out.startswith("nothing to do")
    assert (await alone("sessions", "--json")).document == {"items": [], "next": None}


async def test_agents_are_checked_before_a_worker_meets_them(alone: CommandLine, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text('+++\nname = "good"\ntools = ["read_*", "fly_*"]\n+++\nDo good.\n')
    bad.write_text('+++\nname = "Bad Name"\n+++\nDo bad.\n')
    fine = await alone("agents", "validate", str(good))
    assert (fine.code, fine.out) == (0, "ok\tgood\n")
    assert "fly_*" in fine.err
    wrong = await alone("agents", "validate", str(good), str(bad), "--json")
    assert (wrong.code, wrong.error["type"]) == (2, "configuration")
    assert "bad.md: name" in wrong.error["detail"]
    bad.unlink()
    listed = await alone("agents", "list", "--json", also={"ROUNDTURN_AGENTS_DIR": str(tmp_path)})
    assert [item["agent"] for item in listed.document["items"]] == ["assistant", "good"]


async def test_the_chain_is_printed_in_its_order(alone: CommandLine) -> None:
    done = await alone("inspect", "chain", "--json")
    layers = [item["layer"] for item in done.document["items"]]
    assert layers == list(ORDER)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_answer_that_is_lost_is_an_error_with_an_id_and_no_traceback(alone: CommandLine) -> None:
    def printed(*arguments: str) -> tuple[int, str]:
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [ROUNDTURN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=alone.environment,
                timeout=60, check=False,
            )  # fmt: skip
        return done.returncode, done.stderr

    code, err = printed("inspect", "chain", "--json")
    logged, error = (json.loads(line) for line in err.splitlines())
    assert (code, error["error"]["type"]) == (1, "unexpected")
    assert re.fullmatch("e_[0-9a-f]{8}", logged["error_id"])
    assert logged["error_id"] in error["error"]["detail"]
    assert "Traceback" in printed("inspect", "chain", "--verbose")[1]
    for plain in (("help", "exit-codes"), ("--version",)):
        code, err = printed(*plain)
        assert code == 1
        assert "Traceback" not in err


async def test_colour_is_for_terminals_or_on_request(alone: CommandLine) -> None:
    for environment, options, colored in (
        ({}, (), False),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
        ({"FORCE_COLOR": "1"}, ("--color", "never"), False),
    ):
        done = await alone("sessions", *options, also=environment)
        assert ("\x1b[31m" in done.err) is colored, (environment, options, done.err)


@requirement("P124")
async def test_worker_keeps_its_pid_and_ends_on_sigterm_wherever_it_is_started(desk: OpenDesk) -> None:
    d = await desk(scenario("hello", step(text="the answer")), worker=False)
    decoy = d.roundturn.folder / "worker"
    decoy.mkdir()
    (decoy / "__main__.py").write_text("raise SystemExit('the wrong worker')")
    worker = d.roundturn.start("worker", "--home", str(d.system.home))
    await worker.says("worker.ready")
    command = Path(f"/proc/{worker.process.pid}/cmdline")
    if sys.platform == "linux":
        assert b"-m\0worker" in command.read_bytes()
    done = await d.roundturn("run", "hello")
    assert done.out == "the answer\n"
    worker.process.send_signal(signal.SIGTERM)
    assert (await worker.ended()).code == 0
