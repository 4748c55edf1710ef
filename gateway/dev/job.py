"""The demo's job: a small directory, a task with two side effects in it, and what must be true afterwards."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roundturn.event import TERMINAL, RunEvent
from roundturn.store import Store

COUNTED = "counts.log"
PUBLISHED = "publish.log"
REPORT = "outputs/report.md"
COUNT = f"""echo "open orders: $(grep -c ',open$' orders.csv)" | tee -a {COUNTED}"""
PUBLISH = f"echo 'publish begins' >> {PUBLISHED}; sleep 6; echo 'publish ends' >> {PUBLISHED}"
TASK = f"""\
Close the day. Work in these steps, one after the other:
1. Read orders.csv and notes.md, both at once.
2. Run exactly this with bash: {COUNT}
3. Run exactly this with bash, as a call of its own: {PUBLISH}
4. If you are told that the outcome of a command is unknown, never run it again. Read {PUBLISHED} and {COUNTED}.
5. Write what you found to {REPORT}, then answer in two sentences."""

ORDERS = """\
number,customer,amount,state
1041,Harbour Books,120.00,open
1042,Mill Lane Cafe,48.50,paid
1043,North Pier Ltd,310.00,open
1044,Harbour Books,15.90,paid
1045,Elm Street School,89.00,open
"""
NOTES = """\
# Notes for the end of the day

- Count the open orders; the count goes into counts.log, one line a day.
- Publish once. Two publications on one day confuse the partners.
"""


@dataclass(frozen=True)
class Proof:
    holds: bool
    text: str


def prepare(workdir: Path) -> None:
    (workdir / "orders.csv").write_text(ORDERS)
    (workdir / "notes.md").write_text(NOTES)


def lines(path: Path, beginning: str) -> int:
    try:
        return sum(line.startswith(beginning) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return 0


def in_the_act(workdir: Path) -> bool:
    """The slow command has begun and has not ended."""
    log = workdir / PUBLISHED
    return lines(log, "publish begins") > lines(log, "publish ends")


async def prove(store: Store, workdir: Path, events: Sequence[RunEvent], kills: int) -> list[Proof]:
    """By counting: lines in files, and facts in the journal."""
    started = Counter(event.data["call"] for event in events if event.type == "tool.started")
    settled = Counter(event.data["call"] for event in events if event.type == "tool.settled")
    asked = Counter(event.data["call"] for event in events if event.type == "tool.requested")
    unknown = sum(event.data.get("error_type") == "outcome_unknown" for event in events)
    ends = sum(event.type == TERMINAL for event in events)
    begun = lines(workdir / PUBLISHED, "publish begins")
    finished = lines(workdir / PUBLISHED, "publish ends")
    counted = lines(workdir / COUNTED, "open orders:")
    count_starts = await _starts(store, started, COUNTED, "echo")
    publish_starts = await _starts(store, started, PUBLISHED, "echo")
    return [
        Proof(kills == 2, f"the worker was killed {_times(kills)}: as it waited, and in the act"),
        Proof(
            counted == count_starts == 1,
            f"{COUNTED}: the line of the first command is there {_times(counted)}",
        ),
        Proof(
            begun == publish_starts == 1,
            f"{PUBLISHED}: the line at the start of the second command is there {_times(begun)}",
        ),
        Proof(
            finished <= begun and unknown == 1,
            f"{PUBLISHED}: the line at its end is there {_times(finished)}, and its outcome was called "
            f"unknown {_times(unknown)}",
        ),
        Proof(
            bool(started) and max(started.values()) == 1,
            f"journal: {len(started)} calls with side effects, none was started twice",
        ),
        Proof(settled == asked, f"journal: {len(asked)} calls were asked for, each has exactly one result"),
        Proof(ends == 1, f"journal: the turn ended {_times(ends)}"),
        Proof((workdir / REPORT).is_file(), f"{REPORT} is there"),
    ]


async def _starts(store: Store, started: Counter[str], *words: str) -> int:
    """How often a command with these words was started."""
    number = 0
    for call, times in started.items():
        row = await store.ledger.read(call)
        command = json.loads(row.arguments).get("command", "") if row else ""
        number += times * all(word in command for word in words)
    return number


def _times(number: int) -> str:
    return {0: "0 times", 1: "exactly once", 2: "twice"}.get(number, f"{number} times")
