"""`dev` is a real process with real children; what is killed here is killed by its own pid."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.processes import SCENARIO_FORM
from gateway.client import Client, open_client
from gateway.dev import ports
from gateway.dev.processes import SCENARIOS, UI_DISTANCE, environment
from gateway.dev.serve import locked, run_dev
from roundturn import settings
from roundturn.errors import ConfigurationError, Unavailable, UsageError
from roundturn.models.scripted.scenario import read_scenarios
from tests.cli.test_supervisor import alive, until
from tests.requirements import requirement
from tests.sandboxes.real import bubblewrap

LIMIT_S = 60
RUN = """
import asyncio, sys
from pathlib import Path
from gateway.dev.serve import run_dev
from roundturn import settings
home, port, headless = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "headless"
sys.exit(asyncio.run(run_dev(settings.load(home), port=port, headless=headless, verbose=False)))
"""


@dataclass(frozen=True)
class Dev:
    home: Path
    process: asyncio.subprocess.Process
    ready: str
    stderr: Path

    def written(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "dev.json").read_text())
        return found

    def pids(self) -> dict[str, int]:
        return dict(self.written()["children"])

    def ports(self) -> list[int]:
        model = self.written()["settings"]["model_base_url"].removesuffix("/v1")
        temporal = self.written()["settings"]["temporal_address"]
        return [int(address.rsplit(":", 1)[1]) for address in (model, temporal)]

    async def kill(self, name: str) -> None:
        """By SIGKILL, and until another process has taken its place."""
        old = self.pids()[name]
        os.kill(old, signal.SIGKILL)
        await until(lambda: self.pids()[name] != old, LIMIT_S)

    async def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), LIMIT_S)

    def says(self, word: str) -> Callable[[], bool]:
        return lambda: word in self.stderr.read_text()


def clean_environment() -> dict[str, str]:
    unwanted = ("OPENAI_", "ROUNDTURN_", "TEMPORAL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)


@asynccontextmanager
async def started(home: Path, *options: str, **more: str) -> AsyncIterator[Dev]:
    home.mkdir(exist_ok=True)
    stderr = home / "stderr.txt"
    argv = [sys.executable, "-c", RUN, str(home), str(ports.choose(UI_DISTANCE)), *(options or ("headless",))]
    with stderr.open("w") as file:
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=PIPE, stderr=file, env=clean_environment() | more, cwd=home
        )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
        assert line.startswith(b"ready "), stderr.read_text()
        yield Dev(home, process, line.decode().strip(), stderr)
    finally:
        if process.returncode is None:
            process.kill()
        rest = await process.stdout.read()
        await process.wait()
    assert rest == b"", "one line on stdout, and no more"


@asynccontextmanager
async def client_of(dev: Dev) -> AsyncIterator[Client]:
    async with asyncio.timeout(LIMIT_S), open_client(settings.load(dev.home)) as client:
        yield client


async def ask(client: Client, text: str) -> str:
    """The turn's id."""
    session = await client.open_session("assistant", None)
    return (await client.send(session.id, text)).accepted.turn


async def answer(client: Client, turn: str) -> str:
    async for _ in client.follow(turn):
        pass
    row = await client.store.turns.read(turn)
    assert row is not None
    assert row.state == "completed", row
    return row.text


async def waiting(client: Client, turn: str) -> str:
    """The id of the approval that the turn asks for."""
    async for event in client.follow(turn):
        if event.type == "approval.requested":
            return str(event.data["approval_id"])
    raise AssertionError("the turn ended and had asked nobody")


@requirement("P124")
async def test_a_job_is_answered_and_one_ctrl_c_ends_everything(tmp_path: Path) -> None:
    async with started(tmp_path, "with a page") as dev:
        address = dev.written()["settings"]["temporal_address"]
        page = int(address.rsplit(":", 1)[1]) + UI_DISTANCE
        assert dev.ready == f"ready temporal={address} ui=http://127.0.0.1:{page} home={tmp_path}"
        assert dev.written()["settings"]["model"] == dev.written()["model"] == "scripted"
        assert dev.written()["agents"] == ["assistant"]
        async with client_of(dev) as client:
            said = await answer(client, await ask(client, "hello"))
        assert said.startswith("[scripted model] Hello!")
        pids, used = dev.pids(), [*dev.ports(), page]
        assert set(pids) == {"temporal", "model", "worker"}
        assert not any(ports.is_free(port) for port in used)
        assert await dev.end() == 0
        assert not any(map(alive, pids.values()))
        assert all(map(ports.is_free, used))
        assert not (tmp_path / "dev.json").exists()
        talk = dev.stderr.read_text()
    assert "! verdicts without a token are accepted (dev only)" in talk
    assert "answers are canned" in talk
    assert talk.rstrip().endswith("are free")


@requirement("P124")
async def test_a_killed_worker_and_a_killed_model_come_back(tmp_path: Path) -> None:
    async with started(tmp_path) as dev:
        used = dev.ports()
        await dev.kill("worker")
        await dev.kill("model")
        assert dev.ports() == used
        async with client_of(dev) as client:
            assert (
                await answer(client, await ask(client, "good day")) == "[scripted model] You said: good day"
            )
        assert await dev.end(signal.SIGTERM) == 0


@requirement("P41")
async def test_a_waiting_approval_outlives_the_server_and_the_worker(tmp_path: Path) -> None:
    async with started(tmp_path) as dev:
        async with client_of(dev) as client:
            turn = await ask(client, "leave a note")
            approval = await waiting(client, turn)
            await until(dev.says(f"waits for a person: write_file · roundturn approvals show {approval}"))
        await dev.kill("temporal")
        await dev.kill("worker")
        async with client_of(dev) as client:
            row = await client.find_approval(approval)
            assert row.state == "pending"
            await client.decide(approval, "approve", "somebody")
            assert "came of it:\nCreated note.txt" in await answer(client, turn)
        assert await dev.end() == 0


@requirement("P41")
async def test_a_waiting_approval_outlives_a_new_start_of_everything(tmp_path: Path) -> None:
    async with started(tmp_path) as dev:
        async with client_of(dev) as client:
            turn = await ask(client, "leave a note")
            approval = await waiting(client, turn)
        assert await dev.end() == 0
    async with started(tmp_path) as dev, client_of(dev) as client:
        await client.decide(approval, "approve", "somebody")
        assert "came of it:\nCreated note.txt" in await answer(client, turn)


@requirement("P124")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_nothing_outlives_a_dev_that_was_killed(tmp_path: Path) -> None:
    async with started(tmp_path) as dev:
        pids = dev.pids()
        assert all(map(alive, pids.values()))
        await dev.end(signal.SIGKILL)
        await until(lambda: not any(map(alive, pids.values())), 5)
    async with started(tmp_path) as dev:  # neither its lock nor its dev.json are in the way
        assert await dev.end() == 0


@requirement("P124")
async def test_a_second_ctrl_c_does_not_wait_for_a_running_command(tmp_path: Path) -> None:
    slow = """script: steps=1 tool=bash args={"command": "echo $PPID $$ > pids; sleep 60"}"""
    async with started(tmp_path, ROUNDTURN_DRAIN_S="40", ROUNDTURN_PRIVILEGED_TOOLS='["bash"]') as dev:
        async with client_of(dev) as client:
            turn = await ask(client, slow)
            await client.decide(await waiting(client, turn), "approve", "somebody")
            written = tmp_path / "work" / turn.split("/", maxsplit=1)[0] / "pids"
            await until(lambda: written.exists() and len(written.read_text().split()) == 2)
        pids = dev.pids()
        dev.process.send_signal(signal.SIGINT)
        await until(dev.says("stopping"))
        async with asyncio.timeout(10):
            assert await dev.end() == 130
        assert not any(map(alive, pids.values()))
        command = [int(pid) for pid in written.read_text().split()]
        await until(lambda: not any(map(alive, command)), 10)


async def refused(home: Path, **more: str) -> tuple[int, str]:
    """How `dev` ends that cannot start, and its last words."""
    home.mkdir(exist_ok=True)
    argv = [sys.executable, "-c", RUN, str(home), str(ports.choose(UI_DISTANCE)), "headless"]
    given = clean_environment() | more
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE, env=given, cwd=home)
    try:
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert out == b""
    assert process.returncode is not None
    return process.returncode, err.decode()


async def test_what_never_starts_ends_dev_with_its_cause_and_code_2(tmp_path: Path) -> None:
    missing = tmp_path / "no such folder"
    code, said = await refused(tmp_path, ROUNDTURN_AGENTS_DIR=str(missing))
    assert code == 2
    assert f"worker ended with code 2 and is given up: agents_dir {missing} is not a folder\n" in said


async def test_a_broken_tool_of_a_package_is_named_with_what_to_do_and_nothing_of_an_earlier_start(
    tmp_path: Path, broken_package: Path
) -> None:
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "worker.log").write_text("--- start at 2026-01-01T00:00:00Z\nof yesterday\n")
    code, said = await refused(home, PYTHONPATH=f"{broken_package}:{os.environ.get('PYTHONPATH', '')}")
    assert code == 2
    cause = 'entry point broken = "test_broken:Broken" of package test-broken 1.0: it is no tool'
    assert f"worker ended with code 2 and is given up: {cause}\n  name a subclass of BaseTool" in said
    assert "of yesterday" not in said


ON = {"ROUNDTURN_PRIVILEGED_TOOLS": '["ba*"]'}
ASKS = "! bash asks a person every time: no sandbox holds it"
TOLD: dict[str, tuple[dict[str, str], str]] = {
    "off": ({"ROUNDTURN_SANDBOX": "auto"}, ""),
    "no sandbox is wanted": (ON, f'{ASKS} (sandbox = "none")'),
    "none holds": (ON | {"ROUNDTURN_SANDBOX": "auto"}, f"{ASKS} (bwrap cannot be used: "),
    "a demanded one does not hold": (
        ON | {"ROUNDTURN_SANDBOX": "bwrap"},
        "! commands of bash are refused: bwrap cannot be used: ",
    ),
    "the worker's log is silent": (
        ON | {"ROUNDTURN_SANDBOX": "auto", "ROUNDTURN_LOG_LEVEL": "error"},
        f"{ASKS} (bwrap cannot be used: ",
    ),
}


@requirement("X-03")
@pytest.mark.parametrize("case", TOLD)
async def test_dev_says_of_commands_what_is_so_and_nothing_where_none_can_run(
    tmp_path: Path, case: str
) -> None:
    given, said = TOLD[case]
    fails = tmp_path / "bin" / "bwrap"
    fails.parent.mkdir()
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    path = f"{fails.parent}:{os.environ['PATH']}"
    async with started(tmp_path / "home", **given, PATH=path) as dev:
        talk = dev.stderr.read_text()
        assert await dev.end() == 0
    assert said in talk
    assert ("bash" in talk or "sandbox" in talk) is bool(said)


@requirement("X-03")
async def test_dev_says_that_a_sandbox_holds(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    bubblewrap(home)
    async with started(home, **ON, ROUNDTURN_SANDBOX="bwrap") as dev:
        talk = dev.stderr.read_text()
        assert await dev.end() == 0
    assert "✓ sandbox     bwrap holds bash: " in talk
    assert "asks a person" not in talk


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as listener:
        port = ports.choose(UI_DISTANCE)
        listener.bind((ports.HOST, port))
        listener.listen()
        yield port


async def dev_on(home: Path, port: int | None) -> int:
    return await run_dev(settings.load(home), port=port, headless=True, verbose=False)


async def test_a_busy_port_is_named_with_who_has_it_and_what_to_do(tmp_path: Path, busy: int) -> None:
    with pytest.raises(Unavailable, match=rf"port {busy} is in use") as refused:
        await dev_on(tmp_path, busy)
    assert "--port" in refused.value.hint
    if sys.platform == "linux":
        assert f"(pid {os.getpid()})" in refused.value.detail


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_a_port_that_is_none_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(UsageError, match=f"--port {port} "):
        await dev_on(tmp_path, port)


async def test_a_second_dev_on_the_same_home_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(Unavailable, match=f"pid {os.getpid()}"):
        await dev_on(tmp_path, ports.choose())


async def test_a_model_without_a_key_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigurationError, match="no key"):
        await dev_on(tmp_path, ports.choose())
    assert not (tmp_path / "logs").exists()


def test_the_worker_gets_the_very_settings_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUNDTURN_MAX_STEPS", "7")
    monkeypatch.setenv("ROUNDTURN_POLICY", '{"deny": ["write_*"]}')
    given = settings.load(tmp_path, model_api_key="a-secret-key", allow_unverified_verdicts=True)
    for name, value in environment(given).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "roundturn.toml").write_text("max_steps = 3\n")
    assert settings.load().model_dump() == given.model_dump()


async def test_a_scenario_beside_a_real_model_and_one_that_is_not_there_are_refused(tmp_path: Path) -> None:
    script = SCENARIOS / "dev.json"
    real, none = settings.load(tmp_path, model_api_key="a-secret-key"), settings.load(tmp_path)
    for given, scenario, said in (
        (real, script, "a real one"),
        (none, tmp_path / "no.json", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=said):
            await run_dev(given, port=ports.choose(), headless=True, verbose=False, scenario=scenario)
    assert not (tmp_path / "logs").exists()


def test_the_example_in_the_help_of_dev_is_a_scenario_file() -> None:
    example = SCENARIO_FORM.partition("\n")[2]
    assert [one.name for one in read_scenarios(example.encode(), "help")] == ["ship"]


def test_the_script_of_dev_can_be_read() -> None:
    script = SCENARIOS / "dev.json"
    assert read_scenarios(script.read_bytes(), str(script))
