"""Heartbeats keep a long attempt known as alive and bring it its cancellation (P114)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Beats at half the timeout, so that an attempt shorter than that costs no beat at all."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None or activity.info().is_local:
        yield
        return
    task = asyncio.create_task(_beat(timeout.total_seconds() / 2))
    try:
        yield
    finally:
        task.cancel()


async def _beat(every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        activity.heartbeat()
