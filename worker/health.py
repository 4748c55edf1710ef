"""`python -m worker.health`: whether a worker of this host really asks for work, and could do it."""

import asyncio
import os
import socket
import sys
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from roundturn import settings as settings_module
from roundturn.errors import RoundturnError, Unavailable
from roundturn.settings import Settings
from roundturn.stores import open_store
from workflows.wire import connect

STORE_BUSY_S = 5.0
SILENCE = timedelta(seconds=90)  # a poll that finds nothing is repeated after 60 s


async def check(settings: Settings, host: str) -> None:
    """Raises `Unavailable` or `ConfigurationError` that says what is missing."""
    async with open_store(settings.store_url, settings.home / "blobs", STORE_BUSY_S) as store:
        await store.sessions.page("", 1)
    client = await connect(settings)
    await _polled(client, settings.task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, host)
    await _polled(client, settings.task_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, host)
    await _polled(client, settings.tools_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, host)


async def _polled(client: Client, queue: str, kind: TaskQueueType.ValueType, host: str) -> None:
    """Temporal's word, not ours: who asked for work last, and when. A worker is known as `pid@host`."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
    )
    try:
        seen = await client.workflow_service.describe_task_queue(request)
    except RPCError as fault:
        raise Unavailable(f"Temporal does not tell who works on {queue}: {fault}") from fault
    since = datetime.now(UTC) - SILENCE
    for poller in seen.pollers:
        asked = poller.last_access_time.ToDatetime(UTC)
        if poller.identity.endswith(f"@{host}") and asked >= since:
            return
    raise Unavailable(f"no worker of {host} has asked for work on {queue} since {since:%H:%M:%S} UTC")


def main() -> int:
    try:
        asyncio.run(check(settings_module.load(), socket.gethostname()))
    except RoundturnError as fault:
        print(fault.lines(), file=sys.stderr)  # noqa: T201 - the container's health log is where it is read
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the client's native threads outlive it, and sometimes abort an interpreter that ends
