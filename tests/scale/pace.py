"""How a worker fares while one conversation grows: memory, CPU and time, in ten parts of its way."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.scale.figures import cpu_s, rss_mib, tell
from tests.scale.size import LIMIT_S
from tests.system import System, WorkerProcess, until

PARTS = 10


@dataclass(frozen=True)
class Part:
    """`wall_ms` and `cpu_ms` of one piece (a step, a turn) in this part, `rss_mib` at its end."""

    rss_mib: float
    wall_ms: float
    cpu_ms: float


async def pace(
    s: System, worker: WorkerProcess, pieces: int, what: str, reached: Callable[[int], Awaitable[bool]]
) -> list[Part]:
    """`reached(n)`: whether n pieces are done."""
    parts = []
    at, cpu, model_cpu = time.monotonic(), cpu_s(worker.pid), cpu_s(s.model.process.pid)
    each = pieces / PARTS
    for number in range(1, PARTS + 1):
        n = round(number * each)
        await until(lambda n=n: reached(n), f"{what} {n}", LIMIT_S)
        now, used, model_used = time.monotonic(), cpu_s(worker.pid), cpu_s(s.model.process.pid)
        part = Part(rss_mib(worker.pid), (now - at) / each * 1000, (used - cpu) / each * 1000)
        model_ms = (model_used - model_cpu) / each * 1000
        tell(
            f"{what} {n:5}: {part.wall_ms:4.0f} ms each, of CPU {part.cpu_ms:5.1f} ms in the worker"
            f" and {model_ms:4.1f} ms in the scripted model; worker {part.rss_mib:.1f} MiB"
        )
        parts.append(part)
        at, cpu, model_cpu = now, used, model_used
    return parts


def assert_it_keeps_pace(parts: list[Part], room_mib: float, slower: float) -> None:
    """Against its second part, the first one warms up. `room_mib`: what the talk itself may add to the worker."""
    assert parts[-1].rss_mib - parts[1].rss_mib <= room_mib
    assert parts[-1].cpu_ms <= parts[1].cpu_ms * slower
