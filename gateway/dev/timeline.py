"""What a run has done, as a tree of agents: turns, steps, calls and approvals of each, and the kills at their place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.cli.rows import SPAWN, expiry
from gateway.cli.text import clock, elapsed, row_of, short, tokens
from gateway.cli.tree import Branch, Tree
from roundturn.event import RunEvent

TOLD = 48  # characters of a call


@dataclass(frozen=True)
class Kill:
    """By the demo, which alone knows of it: no journal does."""

    at: datetime
    name: str
    pid: int


def timeline(tree: Tree, events: Sequence[RunEvent], kills: Sequence[Kill]) -> Iterator[str]:
    """A kill stands with each agent that was in the middle of a turn."""
    yield f"{'':12}  {tree.root.name}"
    yield from _branch(tree, tree.root, events, kills, "")


def spent(tree: Tree) -> tuple[str, str]:
    """Tokens of the tree and of each agent; there are no prices, and nobody pretends that there are."""
    used = tree.used
    each = ", ".join(f"{branch.name} {tokens(branch.tally.used.total)}" for branch in tree)
    return (
        f"tokens  {tokens(used.input_tokens)} in, {tokens(used.output_tokens)} out ({each})",
        f"cost    unpriced: nobody has told what the {tree.model_calls} model calls cost",
    )


def _branch(
    tree: Tree, branch: Branch, events: Sequence[RunEvent], kills: Sequence[Kill], lead: str
) -> Iterator[str]:
    for at, text, child in _entries(tree, branch, events, kills):
        yield f"{clock(at, fine=True)}  {lead}│ {text}"
        if child is not None:
            yield from _branch(tree, child, events, kills, f"{lead}│   ")
    yield f"{'':12}  {lead}└ {_summary(branch)}"


def _entries(
    tree: Tree, branch: Branch, events: Sequence[RunEvent], kills: Sequence[Kill]
) -> list[tuple[datetime, str, Branch | None]]:
    own = [event for event in events if event.run == branch.run]
    told = _Told(tree, branch)
    found = [
        (event.ts, text, tree.of_run(event.data["run"]) if event.type == "subagent.spawned" else None)
        for event in own
        for text in [told.line(event)]
        if text
    ]
    found += [
        (kill.at, f"✗ SIGKILL {kill.name}, pid {kill.pid}", None) for kill in kills if _in_turn(own, kill.at)
    ]
    return sorted(found, key=lambda entry: entry[0])


def _in_turn(own: Sequence[RunEvent], at: datetime) -> bool:
    before = [event.type for event in own if event.ts <= at]
    return before.count("turn.started") > before.count("turn.ended")


class _Told:
    """Lines of one agent; steps are counted through all its turns."""

    def __init__(self, tree: Tree, branch: Branch) -> None:
        self._tree = tree
        self._branch = branch
        self._turns = 0
        self._steps = 0

    def line(self, event: RunEvent) -> str:
        data = event.data
        match event.type:
            case "turn.started":
                self._turns += 1
                return f"turn {self._turns}{self._results(data.get('delivers') or [])}"
            case "model.replied":
                self._steps += 1
                does = {0: "answers", 1: "1 call"}.get(data["calls"], f"{data['calls']} calls")
                return f"step {self._steps}  {does}"
            case "tool.settled" if data["tool"] != SPAWN or data["is_error"]:
                return self._settled(data)
            case "approval.requested":
                return f"  ▲ {short(data['approval_id'])} asks a person, until {expiry(data)}"
            case "approval.decided":
                return f"  {short(data['approval_id'])} {data['state']} by {row_of(data['actor'])}"
            case "approval.expired" | "approval.cancelled":
                return f"  {short(data['approval_id'])} {event.type.rpartition('.')[2]}"
            case "subagent.spawned":
                child = self._tree.of_run(data["run"])
                return (
                    f"  + {child.name if child else row_of(data['agent'])}  {row_of(data['title'])}".rstrip()
                )
        return ""

    def _results(self, runs: list[str]) -> str:
        names = [child.name if (child := self._tree.of_run(run)) else short(run) for run in runs]
        return f" with the results of {', '.join(names)}" if names else ""

    def _settled(self, data: dict[str, object]) -> str:
        call = str(data["call"])
        mark = "✗" if data["is_error"] or data["status"] == "denied" else "✓"
        error = f"  {data['error_type']}" if data.get("error_type") else ""
        took = f"  {elapsed(float(str(data['elapsed_ms'])))}" if "elapsed_ms" in data else ""
        return f"  {mark} {self._branch.tally.told(call)[:TOLD]}{error}{took}"


def _summary(branch: Branch) -> str:
    tally = branch.tally
    took = (
        elapsed((tally.ended - tally.started).total_seconds() * 1000) if tally.ended and tally.started else ""
    )
    parts = (tally.state, f"{tally.model_calls} steps", f"{tokens(tally.used.total)} tokens", took)
    return " · ".join(part for part in parts if part)
