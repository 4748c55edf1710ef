"""What docker-compose.yml starts, started by hand as processes: its environment and commands, with other hosts only."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.composition import ROOT, services
from tests.postgresql import PostgresServer
from tests.requirements import requirement
from tests.scripted_server import ScriptedServer, scripted_server
from tests.system import TemporalServer, scenario, step, until

BIN = Path(sys.executable).parent
LIMIT_S = 60


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Fresh, as the volume is: the script that makes roles and databases runs once."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def frontend(tmp_path: Path) -> Iterator[TemporalServer]:
    server = TemporalServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def model() -> AsyncIterator[ScriptedServer]:
    talk = scenario("go", step(("read_file", {"path": "note.txt"})), step(text="it says: {{results}}"))
    async with scripted_server([talk]) as running:
        yield running


def dockerfile(instruction: str) -> list[str]:
    """The JSON form of the last such line."""
    found = re.findall(
        rf"{instruction}[^\[\n]*(\[.+\])$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE
    )
    command: list[str] = json.loads(found[-1])
    return command


def environment(
    name: str, home: Path, server: PostgresServer, frontend: TemporalServer, model: ScriptedServer
) -> dict[str, str]:
    """Of this service, with the addresses of this machine; and the one blank that its operator fills in."""
    given: dict[str, str] = dict(services()[name]["environment"])
    hosts = {
        given["ROUNDTURN_HOME"]: str(home),
        "postgresql:5432/roundturn": f"/roundturn?host={server.socket}",
        "temporal:7233": frontend.address,
    }
    for found, here in hosts.items():
        given = {key: value.replace(found, here) for key, value in given.items()}
    python = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return (
        given | python | {"ROUNDTURN_MODEL_BASE_URL": model.base_url, "PATH": f"{BIN}:{os.environ['PATH']}"}
    )


async def run(command: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    program = [str(BIN / command[0]), *command[1:]]
    return await asyncio.to_thread(
        subprocess.run,
        program,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@requirement("J-20", "P113")
async def test_the_composition_runs_a_turn(
    tmp_path: Path, server: PostgresServer, frontend: TemporalServer, model: ScriptedServer
) -> None:
    where = (server, frontend, model)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("made by hand")
    made = await asyncio.to_thread(
        subprocess.run,
        ["sh", str(ROOT / "deploy" / "postgres" / "databases.sh")],
        env={**services()["postgresql"]["environment"], **server.tools()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr

    migrate = environment("migrate", tmp_path / "home", *where)
    env = environment("worker", tmp_path / "home", *where)
    health = dockerfile("HEALTHCHECK")
    early = await run(health, tmp_path, env)
    assert (early.returncode, "the store is at version none" in early.stderr) == (1, True)
    upgraded = await run(services()["migrate"]["command"], tmp_path, migrate)
    assert upgraded.returncode == 0, upgraded.stderr
    idle = await run(health, tmp_path, env)
    assert (idle.returncode, "has asked for work on roundturn since" in idle.stderr) == (1, True), idle.stderr

    workers: list[subprocess.Popen[bytes]] = []
    try:
        program, *arguments = dockerfile("\nCMD")
        for n in range(services()["worker"]["deploy"]["replicas"]):
            with open(tmp_path / f"worker-{n}.log", "wb") as log:
                workers.append(
                    subprocess.Popen(
                        [BIN / program, *arguments], cwd=tmp_path, env=env, stdout=log, stderr=log
                    )
                )
        for n in range(len(workers)):
            log_file = tmp_path / f"worker-{n}.log"
            await until(lambda file=log_file: "worker.ready" in file.read_text(), "the worker's readiness")

        async def healthy() -> bool:
            return (await run(health, tmp_path, env)).returncode == 0

        await until(healthy, "the worker's health")
        command = ["roundturn", "run", "go", "--workdir", str(tmp_path / "work"), "--json"]
        done = await run(command, tmp_path, env)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["state"] == "completed"
        assert "made by hand" in document["text"]
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        ended = [await asyncio.to_thread(worker.wait, LIMIT_S) for worker in workers]
    assert ended == [0, 0]
