"""A worker process from start to drained end; SIGTERM is a deploy: what runs is finished or handed on (P113)."""

import asyncio
import signal
from datetime import timedelta

import structlog
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)

from roundturn import telemetry
from roundturn.settings import Settings
from worker.build import Additions, build_workers, masking
from workflows.reconcile import Reconcile
from workflows.wire import connect, task_timeout

log = structlog.get_logger()


async def run_worker(settings: Settings, additions: Additions | None = None) -> None:
    """Until SIGTERM or SIGINT. Raises `Unavailable`, `ConfigurationError` or `AuthorError` when it cannot start."""
    telemetry.configure(settings.log_level, masking(settings), "worker")
    client = await connect(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with build_workers(settings, client, additions or Additions()) as workers:
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await ensure_reconcile(client, settings)
        log.info("worker.ready", queues=[settings.task_queue, settings.tools_queue])
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
        log.info("worker.draining", limit_s=settings.drain_s)
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        stopping.cancel()
        await asyncio.gather(*running)
    log.info("worker.stopped")


async def ensure_reconcile(client: Client, settings: Settings) -> None:
    """The repair pass on its Schedule, one for all workers of a task queue."""
    name = f"reconcile/{settings.task_queue}"
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            Reconcile.run,
            id=name,
            task_queue=settings.task_queue,
            task_timeout=task_timeout(settings),
        ),
        spec=ScheduleSpec(
            intervals=[ScheduleIntervalSpec(every=timedelta(seconds=settings.reconcile_interval_s))]
        ),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=10)),
    )
    try:
        await client.create_schedule(name, schedule)
    except ScheduleAlreadyRunningError:  # an earlier worker's; what the settings say now holds
        await client.get_schedule_handle(name).update(lambda _: ScheduleUpdate(schedule=schedule))
