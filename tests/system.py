"""The whole system for a test: a real Temporal server, a real model endpoint, a store, worker processes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from gateway.client import Client, open_client
from roundturn import ids
from roundturn import settings as settings_module
from roundturn.approval import ApprovalRow
from roundturn.errors import Unavailable
from roundturn.event import TERMINAL, RunEvent
from roundturn.settings import Settings
from roundturn.store import TurnRow
from roundturn.stores.engine import Database
from roundturn.stores.migrations import upgrade
from tests.effects import effects
from tests.scripted_server import ScriptedServer, scripted_server
from tests.waiting import DEADLINE_S, until
from workflows.wire import connect

ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class TemporalServer:
    """A dev server on its own file, which can be killed and started again."""

    def __init__(self, folder: Path, *dynamic: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._dynamic = dynamic
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        tuning = (
            "history.transferProcessorMaxPollRPS=2000",
            'history.timerProcessorMaxTimeShift="10ms"',
            *self._dynamic,
        )
        command = [
            str(Path(sys.executable).parent / "temporal"), "server", "start-dev", "--headless", "--log-level", "never",
            "--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", str(self._folder / "temporal.db"),
            "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL",
        ]  # fmt: skip
        for value in tuning:
            command += ["--dynamic-config-value", value]
        with open(self._folder / "temporal.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        _wait(self._answers, f"the Temporal server on {self.address}")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self._folder / "temporal.log").read_text()[-2000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.02)


@dataclass
class WorkerProcess:
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def ended(self, limit_s: float = DEADLINE_S) -> int:
        await until(lambda: self.process.poll() is not None, "the worker's end", limit_s)
        return self.process.returncode

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@dataclass
class System:
    """One home, one task queue; `workdir` is the action directory of `session()`."""

    home: Path
    workdir: Path
    settings: Settings
    environment: dict[str, str]
    model: ScriptedServer
    client: Client
    database: Database
    temporal: TemporalClient
    workers: list[WorkerProcess] = field(default_factory=list)

    async def start_worker(
        self,
        fault: str = "",
        program: tuple[str, ...] = ("-m", "tests.worker_main"),
        cwd: Path | None = None,
        **environment: str,
    ) -> WorkerProcess:
        """A process of its own, ready to work; `fault` as in tests.faults. It starts where no settings of ours lie."""
        log = self.home / f"worker-{len(self.workers)}.log"
        extra = {"TEST_FAULT": fault} if fault else {}
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, *program],
                cwd=cwd or self.home, env={"PYTHONPATH": str(ROOT), **self.environment, **extra, **environment}, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        await until(lambda: _ready(worker), "the worker's readiness")
        return worker

    async def session(self) -> str:
        return (await self.client.open_session("assistant", self.workdir)).id

    async def send(self, text: str, session: str | None = None, key: str | None = None) -> str:
        """Commits and rings; returns the turn."""
        sent = await self.client.send(session or await self.session(), text, key)
        return sent.accepted.turn

    async def ended(self, turn: str, limit_s: float = DEADLINE_S) -> TurnRow:
        async def row() -> TurnRow | None:
            found = await self.client.store.turns.read(turn)
            return found if found is not None and found.ended_at is not None else None

        found: TurnRow = await until(row, f"the end of {turn}", limit_s)
        return found

    async def pending(self, turn: str, count: int = 1, limit_s: float = DEADLINE_S) -> list[ApprovalRow]:
        """The turn's open approvals in call order, once there are `count`, and its workflow waits for them."""

        async def rows() -> list[ApprovalRow] | None:
            found = await self.client.store.approvals.page(["pending"], turn, 100)
            return sorted(found, key=lambda row: row.call) if len(found) == count else None

        found: list[ApprovalRow] = await until(rows, f"{count} pending approvals of {turn}", limit_s)
        return found

    async def decide(
        self, approval: str, verdict: Any = "approve", actor: str = "ada", note: str | None = None
    ) -> str:
        return (await self.client.decide(approval, verdict, actor, note)).standing

    async def events(self, run: str) -> list[RunEvent]:
        return await self.client.store.journal.read(run, 0, 10_000)

    async def types(self, run: str) -> list[str]:
        return [event.type for event in await self.events(run)]

    async def assert_one_terminal_event(self, run: str) -> None:
        assert (await self.types(run)).count(TERMINAL) == 1

    def effects(self) -> list[str]:
        return effects(self.workdir)

    async def workflow_closed(self, workflow_id: str) -> None:
        async def closed() -> bool:
            found = await self.temporal.get_workflow_handle(workflow_id).describe()
            return found.status is not WorkflowExecutionStatus.RUNNING

        await until(closed, f"the close of {workflow_id}")

    async def history(self, turn: str) -> Any:
        return await self.temporal.get_workflow_handle(ids.turn_workflow(turn)).fetch_history()


def _ready(worker: WorkerProcess) -> bool:
    assert worker.process.poll() is None, worker.log.read_text()[-3000:]
    return "worker.ready" in worker.log.read_text()


@asynccontextmanager
async def open_system(
    home: Path, temporal: TemporalServer, scenarios: list[dict[str, Any]], **changed: Any
) -> AsyncIterator[System]:
    """`changed` are settings by name, given to this process and, through the environment, to its workers."""
    home.mkdir(parents=True, exist_ok=True)
    workdir = home.with_name(f"{home.name}-workdir")  # beside the home: what is inside it is protected
    workdir.mkdir(exist_ok=True)
    async with scripted_server(scenarios) as model:
        given = {
            "home": home,
            "temporal_address": temporal.address,
            "task_queue": f"q-{uuid.uuid4().hex[:8]}",
            "model_base_url": model.base_url,
            "model_api_key": "scripted-key",
            "allow_unverified_verdicts": True,
            "policy": {"allow": ["*"]},
            "privileged_tools": ["bash"],
            "max_actions_per_hour": 1_000_000,
            "reconcile_interval_s": 2,
            "workflow_sandbox": True,
            "sandbox": "none",
            **changed,
        }
        settings = settings_module.load(**given)
        database = Database(settings.store_url, 10)
        await upgrade(database)
        system = None
        try:
            async with open_client(settings) as client:
                system = System(
                    home,
                    workdir,
                    settings,
                    _environment(given),
                    model,
                    client,
                    database,
                    await _connected(settings),
                )
                yield system
        finally:
            for worker in system.workers if system else ():
                if worker.process.poll() is None:
                    worker.kill()
            if system is not None:
                await _unscheduled(system)
            await database.close()


async def _unscheduled(system: System) -> None:
    """A schedule left behind would fire for every later test on a queue without a worker, and slow the server down."""
    schedule = system.temporal.get_schedule_handle(f"reconcile/{system.settings.task_queue}")
    with suppress(RPCError, TimeoutError):  # no worker was started, or the test took the server away
        await asyncio.wait_for(schedule.delete(), 2)


async def _connected(settings: Settings) -> TemporalClient:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await connect(settings)
        except Unavailable:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


def _environment(given: dict[str, Any]) -> dict[str, str]:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("ROUNDTURN_", "OPENAI_"))
    }
    for name, value in given.items():
        clean[f"ROUNDTURN_{name.upper()}"] = (
            json.dumps(value) if isinstance(value, dict | list) else str(value)
        )
    return clean


def step(*calls: tuple[str, dict[str, Any] | str], text: str = "", **more: Any) -> dict[str, Any]:
    """A step of a scenario: the calls the model asks for, by name and arguments."""
    return {
        "text": text,
        "calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
        **more,
    }


def scenario(match: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": match, "match": match, "steps": list(steps)}
