"""The incident with random deaths of worker and Temporal: every run ends with the same report and the same effects."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from gateway.dev import incident, proofs
from gateway.dev.incident import RIGHT, WRONG
from roundturn.event import RunEvent
from tests.conftest import OpenSystem
from tests.incident import SETTINGS, Job, begin, expected_report, scenarios
from tests.requirements import requirement
from tests.system import System, TemporalServer

# Each has its own deaths, the same every time as far as the moment of an event is the same; `make chaos` plays all.
SEEDS = (11, 23, 37, 41, 53, 67, 71, 83, 97, 101, 113, 127, 131, 149, 157, 163, 179, 181, 191, 199)
ON = tuple(zip(SEEDS, ("sqlite", "postgresql") * (len(SEEDS) // 2), strict=True))
PLAYED = ON if os.environ.get("TEST_CHAOS") == "all" else ON[:3]
EVENTS = 78  # of the 87 in the whole tree: deaths are spread over these, and work is left after each
LATEST_S = 0.6  # after the event that a death belongs to
LIMIT_S = 240


class Deaths:
    """Two to four, each shortly after the so-manieth event that the tree has told."""

    def __init__(self, system: System, server: TemporalServer, seed: int) -> None:
        self._system = system
        self._server = server
        self._chance = random.Random(seed)
        moments = self._chance.sample(range(3, EVENTS), self._chance.randint(2, 4))
        self._plan = {moment: self._chance.choice(("worker", "worker", "temporal")) for moment in moments}
        self.happened: list[str] = []

    async def after(self, number: int) -> None:
        whom = self._plan.get(number)
        if whom is None:
            return
        await asyncio.sleep(self._chance.uniform(0, LATEST_S))
        self.happened.append(f"{whom} after event {number}")
        if whom == "worker":
            self._system.workers[-1].kill()
            await self._system.start_worker()
        else:
            self._server.kill()
            await asyncio.to_thread(self._server.start)


async def play(job: Job, deaths: Deaths) -> None:
    """A person answers everything; what is asked while Temporal is away is answered all the same."""
    answers: list[asyncio.Task[str]] = []

    def on(event: RunEvent) -> None:
        if event.type == "approval.requested":
            answers.append(asyncio.create_task(job.system.decide(event.data["approval_id"])))

    async with asyncio.timeout(LIMIT_S):
        async for event in job.follow():
            on(event)
            await deaths.after(len(job.events))
        assert set(await asyncio.gather(*answers)) == {"decided"}


@requirement("Q-01", "Q-10", "B-04", "B-07", "P38", "P41")
@pytest.mark.parametrize(("seed", "store_kind"), PLAYED)
async def test_random_deaths_change_neither_the_report_nor_the_effects(
    system: OpenSystem, tmp_path: Path, seed: int
) -> None:
    server = TemporalServer(tmp_path)
    server.start()
    try:
        s = await system(*scenarios(), server=server, **SETTINGS)
        await s.start_worker()
        job = await begin(s)
        deaths = Deaths(s, server, seed)
        await play(job, deaths)
        assert job.tree.root.tally.state == "completed", deaths.happened
        assert job.report() == expected_report(), deaths.happened
        assert incident.changed_lines(s.workdir) == [(WRONG, RIGHT)]
        await check_counts(job, deaths)
    finally:
        server.kill()


async def check_counts(job: Job, deaths: Deaths) -> None:
    evidence = job.evidence()
    begun, ended = job.checks()
    assert deaths.happened, "nothing was proved"
    unknown = job.tree.unknown
    assert await evidence.starts("bash", "check.sh") == 1
    if unknown:  # killed in the act: honestly unknown, and not begun again
        assert len(unknown) == 1
        assert ended <= begun <= 1
    else:
        assert (begun, ended) == (1, 1)
    broken = [proof.text for proof in proofs.runs(evidence) if not proof.holds]
    assert broken == [], deaths.happened
    asked, settled = evidence.count("tool.requested", "call"), evidence.count("tool.settled", "call")
    assert asked == settled
    assert set(asked.values()) == {1}
    used = [
        await job.system.client.store.approvals.read(one)
        for one in evidence.count("approval.requested", "approval_id")
    ]
    assert [row.state for row in used if row] == ["consumed"] * 3
