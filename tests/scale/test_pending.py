"""A thousand sessions wait for a person on one worker: it stays small and quick, and every one goes on exactly once."""

import time

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.scale.figures import cpu_s, rss_mib, tell
from tests.scale.pending import (
    ASKS,
    SCENARIOS,
    Weighed,
    in_parallel,
    open_approvals,
    weigh,
    weigh_while_they_wait,
)
from tests.scale.size import FULL, LIMIT_S, size
from tests.system import System

WAITING = size(20, 1000)
MARKS = (WAITING // 10, WAITING // 2, WAITING) if FULL else (WAITING,)
# Waiting sessions that the cache of workflows has no room for cost rows; the process may still find its working size.
FLAT = 1.1
LARGEST_SHARE_MIB = 0.5  # of one waiting session that is still in the cache
SLOWEST = 4.0  # a new turn beside all that wait, measured against one alone; the machine has other work too


@requirement("Q-02", "P38", "P41", "P48")
async def test_sessions_that_wait_for_people_cost_their_worker_nothing_and_go_on_once(
    system: OpenSystem,
) -> None:
    s = await system(*SCENARIOS, **ASKS)
    worker = await s.start_worker()
    weighed, turns = await weigh_while_they_wait(s, worker, MARKS)
    began, used = time.monotonic(), cpu_s(worker.pid)
    await approve_all(s)
    await open_approvals(s, WAITING)  # each went on, and asks for its second call
    each_ms = (cpu_s(worker.pid) - used) / WAITING * 1000
    tell(
        f"all went on and wait again after {time.monotonic() - began:.1f} s, {each_ms:.0f} ms of CPU each;"
        f" worker {rss_mib(worker.pid):.1f} MiB"
    )
    worker.kill()
    worker = await s.start_worker()
    await weigh(s, worker, WAITING)
    await approve_all(s)
    for turn in turns:
        assert (await s.ended(turn, LIMIT_S)).state == "completed"
    tell(f"all are done: worker {rss_mib(worker.pid):.1f} MiB")
    done = [line for line in s.effects() if line.startswith("note_once")]
    assert sorted(done) == sorted(
        f"note_once {text} {turn}.{at}.0" for turn in turns for at, text in enumerate(("first", "second"))
    )
    stays_small_and_quick(weighed)


async def approve_all(s: System) -> None:
    """As the client does it: the row, then the wake-up."""
    began = time.monotonic()
    approvals = await open_approvals(s, WAITING)
    assert set(await in_parallel(s.decide(row.id) for row in approvals)) == {"decided"}
    tell(f"{WAITING} approved in {time.monotonic() - began:.1f} s")


def stays_small_and_quick(weighed: list[Weighed]) -> None:
    alone, all_ = weighed[0], weighed[-1]
    assert all_.rss_mib - alone.rss_mib <= 10 + LARGEST_SHARE_MIB * WAITING
    if FULL:
        half = weighed[-2]
        assert all_.rss_mib <= half.rss_mib * FLAT
        assert all_.quick_ms <= alone.quick_ms * SLOWEST
