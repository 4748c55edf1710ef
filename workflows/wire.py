"""What client, worker, tests and replay have in common: the workflow types, converter, sandbox and failure rules."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.plugin import SimplePlugin
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from roundturn.errors import Unavailable
from roundturn.settings import Settings
from workflows.reconcile import Reconcile
from workflows.session import Session
from workflows.turn import Turn

# Every type there is: a worker registers them, a replay knows them, and each has a stored history in tests/replay.
WORKFLOWS: tuple[type, ...] = (Session, Turn, Reconcile)

# Pure contracts and the activities' signatures: shared with the sandbox, so that a cached workflow costs little.
PASSED_THROUGH = ("roundturn", "activities", "structlog", "rfc8785")


def plugin(*, sandboxed: bool) -> SimplePlugin:
    """`sandboxed`: the runner that refuses what is not deterministic; tests keep it, production saves its cost."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SimplePlugin(
        "roundturn",
        data_converter=pydantic_data_converter,
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions)
        if sandboxed
        else UnsandboxedWorkflowRunner(),
    )


async def connect(settings: Settings) -> Client:
    """To `temporal_address`, plainly; when it is empty, by Temporal's own `TEMPORAL_*` variables and profiles.

    Raises `Unavailable`.
    """
    config: ClientConnectConfig = {
        "target_host": settings.temporal_address,
        "namespace": settings.temporal_namespace,
    }
    if not settings.temporal_address:
        config = ClientConfig.load_client_connect_config()
    if (address := config.get("target_host")) is None:
        # Temporal's default address may be another home's server: its worker would run our turns on its store.
        raise Unavailable(
            f"no Temporal server is named for {settings.home}",
            "start one with roundturn dev, go to the directory where it runs, give --home, or set TEMPORAL_ADDRESS",
        )
    try:
        return await Client.connect(**config, plugins=[plugin(sandboxed=settings.workflow_sandbox)])
    except (RPCError, RuntimeError, OSError) as fault:
        raise Unavailable(
            f"no Temporal server answers at {address}",
            "start one with: roundturn dev, or set TEMPORAL_ADDRESS",
        ) from fault


def task_timeout(settings: Settings) -> timedelta:
    return timedelta(seconds=settings.workflow_task_timeout_s)
