"""The rows that a person sees while a run works: one for each thing worth knowing, from any agent in the tree."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.cli.text import clock, day_clock, elapsed, row_of, short, tokens
from gateway.cli.tree import Branch, Tree
from roundturn.event import RUN_ENDED

if TYPE_CHECKING:
    from roundturn.event import RunEvent

LEAST_NAME, MOST_NAME = 12, 24
SPAWN = "spawn_subagent"
MODE_LAYER = "run mode"


@dataclass(frozen=True)
class Row:
    """`whole`: a person copies from it, it is never cut. `tail` is what a cut leaves at its end."""

    text: str
    style: str = ""
    whole: bool = True
    tail: str = ""

    def fitted(self, room: int | None) -> str:
        """In `room` cells, or however long it is."""
        tail = f" {self.tail}" if self.tail else ""
        if room is None or self.whole or len(self.text) + len(tail) <= room:
            return f"{self.text}{tail}"
        left, text = max(1, room - len(tail)), self.text.rstrip()
        return f"{text if len(text) <= left else f'{text[: left - 1]}…':<{left}}{tail}"


class Rows:
    """`command` makes a command line that finds this home; `named`: how an approval is called in it."""

    def __init__(
        self, tree: Tree, command: Callable[[str], str], named: Callable[[str], str] = short
    ) -> None:
        self._tree = tree
        self._command = command
        self._named = named
        self._told_mode = False

    def of(self, event: "RunEvent", branch: Branch) -> list[Row]:
        """After the tree has heard of the event. The first row of several names the agent, unless it is alone."""
        rows = list(self._of(event, branch))
        if self._tree.is_alone:
            leads = ["" if row.text.startswith("▲") else "  " for row in rows]
        else:
            width = max(LEAST_NAME, *(len(one.name) for one in self._tree if len(one.name) <= MOST_NAME))
            leads = [f"{name:<{width}}  " for name in (branch.name, *("" for _ in rows[1:]))]
        return [replace(row, text=lead + row.text) for lead, row in zip(leads, rows, strict=False)]

    def _of(self, event: "RunEvent", branch: Branch) -> Iterator[Row]:
        data = event.data
        match event.type:
            case "tool.settled" if data["tool"] != SPAWN or data["is_error"]:
                yield _settled(branch, data)
                yield from self._way_out(data)
            case "model.limited":
                until = datetime.fromisoformat(data["until"])
                yield Row(f"… the endpoint asked to wait until {day_clock(until, event.ts)}", "yellow")
            case "approval.requested":
                yield from self._waits(branch, data)
            case "approval.decided":
                mark, style = ("✓", "green") if data["state"] == "approved" else ("✗", "red")
                yield Row(f"{mark} {data['state']} by {row_of(data['actor'])} {clock(event.ts)}", style)
            case "approval.expired":
                yield Row(
                    f"✗ {short(data['approval_id'])} expired {clock(event.ts)}; the call is refused", "red"
                )
            case "turn.stop_requested":
                yield Row(f"■ {row_of(data['origin'])} asked for a stop", "yellow")
            case "run_mode.changed":
                yield Row(f"◆ {data['to']} mode, by {row_of(data['actor'])}", "yellow")
            case "turn.ended" if data["state"] == "failed" and not self._ends_all(branch):
                yield Row(f"✗ turn failed: {row_of(data['reason'])}", "red", whole=False)
            case "turn.started" if data.get("delivers"):
                yield self._delivered(data["delivers"])
            case "subagent.spawned":
                child = self._tree.of_run(data["run"])
                title = f"  {child.title}" if child and child.title else ""
                yield Row(f"+ {child.name if child else row_of(data['agent'])}{title}", "cyan", whole=False)
            case _ if event.type == RUN_ENDED and branch is not self._tree.root:
                yield _ended(branch)

    def _ends_all(self, branch: Branch) -> bool:
        """Whether this turn's end is that of the whole run, whose reason is its last line anyway."""
        return branch is self._tree.root and not branch.tally.subagents

    def _waits(self, branch: Branch, data: dict[str, Any]) -> Iterator[Row]:
        asked = branch.tally.calls.get(data["call"])
        name = self._named(data["approval_id"])
        shown = row_of(asked.shown) if asked else ""
        approve = self._command(f"approvals approve {name}")
        deny = self._command(f'approvals deny {name} --reason "…"')
        yield Row(
            f"▲ {row_of(data['tool'])}  {shown}   waits for a person · {name} · until {expiry(data)}",
            "bold yellow",
        )
        yield Row(f"  in another terminal: {approve}")
        yield Row(f"  deny: {deny}")

    def _way_out(self, data: dict[str, Any]) -> Iterator[Row]:
        """What a person can do about a call that only the run mode has refused; said once."""
        if data.get("layer") == MODE_LAYER and not self._told_mode:
            self._told_mode = True
            yield Row(
                f"to let its tools change things: {self._command(f'mode {self._tree.root.session} build')}"
            )

    def _delivered(self, runs: list[str]) -> Row:
        names = [child.name if (child := self._tree.of_run(run)) else short(run) for run in runs]
        what = "1 result" if len(names) == 1 else f"{len(names)} results in one delivery"
        return Row(f"↓ {what}: {', '.join(names)}", "cyan", whole=False)


def _settled(branch: Branch, data: dict[str, Any]) -> Row:
    asked = branch.tally.calls.get(data["call"])
    shown = row_of(asked.shown) if asked else ""
    took = elapsed(data["elapsed_ms"]) if "elapsed_ms" in data else ""
    once = "once" if asked and asked.effect == "once" else ""
    ended = denied_by(data) or data.get("error_type", "") or ("error" if data["is_error"] else "")
    mark = "✗" if data["is_error"] or data["status"] == "denied" else "✓"
    notes = "   ".join(note for note in (took, ended, once) if note)
    text = f"{mark} {row_of(data['tool']):<10} {shown:<36}"
    return Row(text if notes else text.rstrip(), "red" if mark == "✗" else "dim", whole=False, tail=notes)


def denied_by(data: dict[str, Any]) -> str:
    """Empty for what no rule has refused."""
    if data["status"] != "denied" or not data.get("rule"):
        return ""
    return f"denied by {row_of(data['rule'])} ({row_of(data.get('layer', ''))} layer)"


def _ended(branch: Branch) -> Row:
    tally = branch.tally
    steps = f"{tally.model_calls} step{'' if tally.model_calls == 1 else 's'}"
    took = (
        elapsed((tally.ended - tally.started).total_seconds() * 1000) if tally.ended and tally.started else ""
    )
    said = [tally.state, steps, f"{tokens(tally.used.total)} tokens", took, row_of(tally.reason)]
    done = tally.state == "completed"
    text = f"{'✓' if done else '✗'} {' · '.join(part for part in said if part)}"
    return Row(text, "green" if done else "red", whole=False)


def expiry(data: dict[str, Any]) -> str:
    return day_clock(datetime.fromisoformat(data["expires_at"]), datetime.now(UTC))
