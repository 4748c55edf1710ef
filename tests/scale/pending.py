"""Sessions that wait for a person, by the thousand, and what their one worker weighs and does meanwhile."""

import asyncio
import statistics
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from roundturn.approval import ApprovalRow
from tests.scale.figures import rss_mib, tell
from tests.scale.size import LIMIT_S, PRODUCTION, size
from tests.system import System, WorkerProcess, scenario, step, until

T = TypeVar("T")

ASKS: dict[str, Any] = {"policy": {"allow": ["*"], "ask": ["note_once"]}, **PRODUCTION}
SCENARIOS = (
    scenario(
        "wait",
        step(("note_once", {"text": "first"})),
        step(("note_once", {"text": "second"})),
        step(text="done"),
    ),
    scenario("quick", step(("note_brief", {"text": "look"})), step(text="done")),
)
AT_ONCE = 24
SAMPLES = size(1, 15)


@dataclass(frozen=True)
class Weighed:
    """A worker with `pending` sessions that wait: its memory, and how long a new turn of two steps takes (median)."""

    pending: int
    rss_mib: float
    quick_ms: float


async def in_parallel(work: Iterable[Awaitable[T]]) -> list[T]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(each: Awaitable[T]) -> T:
        async with slots:
            return await each

    return await asyncio.gather(*(one(each) for each in work))


async def weigh_while_they_wait(
    s: System, worker: WorkerProcess, marks: Sequence[int]
) -> tuple[list[Weighed], list[str]]:
    """Before anybody waits and at each mark, with ever more sessions that wait; and their turns."""
    weighed, turns = [await weigh(s, worker, 0)], list[str]()
    for mark in marks:
        turns += await in_parallel(s.send("wait") for _ in range(mark - len(turns)))
        await open_approvals(s, mark)
        weighed.append(await weigh(s, worker, mark))
    return weighed, turns


async def open_approvals(s: System, count: int) -> list[ApprovalRow]:
    """All of the system, once there are `count`."""

    async def rows() -> list[ApprovalRow] | None:
        found = await s.client.store.approvals.page(["pending"], None, count + 1)
        return found if len(found) == count else None

    found: list[ApprovalRow] = await until(rows, f"{count} pending approvals", LIMIT_S)
    return found


async def weigh(s: System, worker: WorkerProcess, pending: int) -> Weighed:
    quick_ms = await quick_turn_ms(s)
    weighed = Weighed(pending, rss_mib(worker.pid), quick_ms)
    tell(f"{pending:5} pending: worker {weighed.rss_mib:6.1f} MiB, a new turn takes {quick_ms:4.0f} ms")
    return weighed


async def quick_turn_ms(s: System) -> float:
    """From its commit to its end by the store's clock, each in a new session; one before them warms up."""
    took = []
    for _ in range(1 + SAMPLES):
        row = await s.ended(await s.send("quick"))
        assert row.state == "completed"
        assert row.ended_at is not None
        took.append((row.ended_at - row.created_at).total_seconds() * 1000)
    return statistics.median(took[1:])
