"""Nothing sleeps where it can wait for a condition."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

DEADLINE_S = 60.0


async def until(
    condition: Callable[[], Any], what: str = "it to come true", limit_s: float = DEADLINE_S
) -> Any:
    """Waits for a condition (plain or async) and returns what it found; fails the test after `limit_s`."""
    end = time.monotonic() + limit_s
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"waited {limit_s} s for {what}"
        await asyncio.sleep(0.03)
