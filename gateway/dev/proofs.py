"""What must be true after the incident, by counting: lines in files, facts in the journals, rows of approvals."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.tree import Tree
from gateway.dev import incident
from gateway.dev.incident import BEGINS, CHECKS, CONFIG, ENDS, REPORT, RIGHT, WRONG
from roundturn.event import RUN_ENDED, TERMINAL, RunEvent
from roundturn.store import Store


@dataclass(frozen=True)
class Proof:
    holds: bool
    text: str


@dataclass(frozen=True)
class Evidence:
    """`events`: of the whole tree. `kills`: the names of what was killed."""

    store: Store
    workdir: Path
    tree: Tree
    events: Sequence[RunEvent]
    kills: Sequence[str]

    def of(self, type_: str) -> list[RunEvent]:
        return [event for event in self.events if event.type == type_]

    def count(self, type_: str, key: str) -> Counter[str]:
        return Counter(event.data[key] for event in self.of(type_))

    async def starts(self, tool: str, words: str) -> int:
        """How often a call of the tool with these words in its arguments was started."""
        number = 0
        for call, times in self.count("tool.started", "call").items():
            row = await self.store.ledger.read(call)
            said = json.loads(row.arguments) if row is not None and row.tool == tool else {}
            number += times * any(words in str(said.get(name, "")) for name in ("path", "command"))
        return number


async def prove(found: Evidence) -> list[Proof]:
    return [kills(found), *await effects(found), *calls(found), *runs(found), await approvals(found)]


def kills(found: Evidence) -> Proof:
    worker, temporal = found.kills.count("worker"), found.kills.count("temporal")
    return Proof(
        worker == 2 and temporal == 1,
        f"the worker was killed {times(worker)}, as it waited and in the act; Temporal {times(temporal)}",
    )


async def effects(found: Evidence) -> list[Proof]:
    changed, config_writes = incident.changed_lines(found.workdir), await found.starts("write_file", CONFIG)
    begun, ended = (incident.lines(found.workdir / CHECKS, beginning) for beginning in (BEGINS, ENDS))
    checks, reports = await found.starts("bash", "check.sh"), await found.starts("write_file", REPORT)
    unknown = len(found.tree.unknown)
    return [
        Proof(
            changed == [(WRONG, RIGHT)] and config_writes == 1,
            f"{CONFIG}: {len(changed)} line is another now, and it was written {times(config_writes)}",
        ),
        Proof(begun == checks == 1, f"{CHECKS}: the line at the start of the check is there {times(begun)}"),
        Proof(
            ended <= begun and unknown == 1,
            f"{CHECKS}: the line at its end is there {times(ended)}, and its outcome was called unknown "
            f"{times(unknown)}",
        ),
        Proof(
            (found.workdir / REPORT).is_file() and reports == 1,
            f"{REPORT} is there, and was written {times(reports)}",
        ),
    ]


def calls(found: Evidence) -> Iterator[Proof]:
    started, asked, settled = (
        found.count(type_, "call") for type_ in ("tool.started", "tool.requested", "tool.settled")
    )
    yield Proof(
        bool(started) and max(started.values()) == 1,
        f"journal: {len(started)} calls with side effects, none was started twice",
    )
    yield Proof(
        settled == asked and max(asked.values(), default=0) == 1,
        f"journal: {len(asked)} calls were asked for, each has exactly one result",
    )


def runs(found: Evidence) -> Iterator[Proof]:
    root, *children = [branch.run for branch in found.tree]
    ends = Counter(event.run for event in found.of(RUN_ENDED))
    told = found.count("subagent.ended", "run")
    turns, terminal = found.count("turn.started", "turn"), found.count(TERMINAL, "turn")
    deliveries = [event.data["delivers"] for event in found.of("turn.started") if event.data.get("delivers")]
    delivered = Counter(run for batch in deliveries for run in batch)
    once_each = Counter(children)
    yield Proof(
        bool(children) and told == once_each,
        f"journal: {len(children)} subagents, each has finished exactly once",
    )
    yield Proof(
        bool(children) and delivered == once_each,
        f"journal: each result was delivered exactly once, all in {len(deliveries)} "
        f"{'delivery' if len(deliveries) == 1 else 'deliveries'}",
    )
    yield Proof(
        ends == Counter([root, *children]),
        f"journal: {len(children) + 1} runs, each has ended exactly once",
    )
    yield Proof(
        bool(turns) and terminal == turns and max(turns.values()) == 1,
        f"journal: {len(turns)} turns, each has exactly one end",
    )


async def approvals(found: Evidence) -> Proof:
    """Its grant is used up with the claim of the call, so that one started call means one use."""
    asked = found.count("approval.requested", "approval_id")
    started = found.count("tool.started", "call")
    rows = [await found.store.approvals.read(approval) for approval in asked]
    used = sum(row is not None and row.state == "consumed" and started[row.call] == 1 for row in rows)
    return Proof(
        bool(asked) and used == len(asked) == sum(asked.values()),
        f"approvals: {len(asked)} were asked for and given, each was used exactly once",
    )


def times(number: int) -> str:
    return {0: "0 times", 1: "exactly once", 2: "twice"}.get(number, f"{number} times")
