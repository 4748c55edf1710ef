"""Work in a thread that a cancelled call neither leaves behind nor is outlived by."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from roundturn.errors import ToolFailed

T = TypeVar("T")


async def reading(work: Callable[[threading.Event], T]) -> T:
    """For work that changes nothing: the event tells it to end when the call is over, and nobody waits for that."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped)
    finally:
        stopped.set()


async def changing(work: Callable[[threading.Event], T]) -> T:
    """For work that changes something: a cancelled call ends after its thread, so that nothing changes after the call.

    The work looks at the event before it writes.
    """
    stopped = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stopped))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stopped.set()
        with suppress(ToolFailed):
            await to_the_end(task)
        raise


async def to_the_end(work: Awaitable[T]) -> T:
    """Awaits `work` however often the caller is cancelled meanwhile; the cancellation comes after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as stop:
            cancelled = stop
    if cancelled is not None:
        raise cancelled
    return task.result()
