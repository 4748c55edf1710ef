"""The incident of the demo on the parts of a test: sent, followed with its whole tree, and looked at afterwards."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from gateway.cli.tree import Tree
from gateway.dev import incident
from gateway.dev.incident import BEGINS, CHECKS, CONFIG, ENDS, REPORT, RIGHT, WRONG
from gateway.dev.proofs import Evidence
from gateway.journals import Journals
from roundturn.event import RunEvent
from tests.system import System

SETTINGS: dict[str, Any] = {"agents_dir": incident.folder() / "agents", "policy": {}}


def scenarios() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((incident.folder() / "scenario.json").read_text())["scenarios"]
    return found


def expected_report() -> str:
    """As scripted, with the settings as `read_file` shows them after the change."""
    before = (incident.folder() / "workdir" / CONFIG).read_text()
    after = before.replace(f"{WRONG}\n", f"{RIGHT}\n").splitlines()
    shown = "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(after, 1))
    steps = [step for one in scenarios() for step in one["steps"]]
    (template,) = [
        call["arguments"]["content"]
        for step in steps
        for call in step.get("calls", ())
        if call["arguments"].get("path") == REPORT
    ]
    return str(template).replace("{{result:1}}", shown)


@dataclass
class Job:
    """One incident under way. `events` are the whole tree's, in the order in which they were heard of."""

    system: System
    run: str
    events: list[RunEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree = Tree(self.run, incident.AGENT)

    async def follow(self) -> AsyncIterator[RunEvent]:
        async for event in self.system.client.follow_journals(Journals(self.run)):
            self.events.append(event)
            assert self.tree.add(event) is not None
            yield event

    def evidence(self) -> Evidence:
        return Evidence(self.system.client.store, self.system.workdir, self.tree, self.events, ())

    def report(self) -> str:
        return (self.system.workdir / REPORT).read_text()

    def checks(self) -> tuple[int, int]:
        """How often the check has begun, and how often it has come to its end."""
        log = self.system.workdir / CHECKS
        return incident.lines(log, BEGINS), incident.lines(log, ENDS)


async def begin(system: System) -> Job:
    incident.prepare(system.workdir)
    session = await system.client.open_session(incident.AGENT, system.workdir)
    return Job(system, await system.send(incident.task(), session.id))
