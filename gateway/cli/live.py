"""The live view: a tree of agents with what each does now, and what waits for a person, drawn again in its place."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from rich.text import Text

from gateway.cli.tally import Tally
from gateway.cli.text import elapsed, row_of, short, tokens
from gateway.cli.tree import Branch, Tree

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FIRST_S, TICK_S = 1.0, 0.1
NAME_CELLS = 26  # at most, with the lines of the tree

ROOM_FOR_COUNTS = 64  # a narrower terminal shows what is done and for how long, and no counts
LONG_S = 2.0  # so long at the same thing: then for how long is said
STYLES = {"completed": "green", "failed": "red", "cancelled": "red"}


class Live:
    """Draws until it is cancelled. `extra`: lines below the tree, from whoever knows more than the journal."""

    def __init__(
        self,
        tree: Tree,
        draw: Callable[[Sequence[Text]], None],
        columns: Callable[[], int],
        command: Callable[[str], str],
        extra: Callable[[], Sequence[Text]] = tuple,
    ) -> None:
        self._tree = tree
        self._draw = draw
        self._columns = columns
        self._command = command
        self._extra = extra

    async def run(self) -> None:
        await asyncio.sleep(FIRST_S)  # what is quick needs no picture
        beat = 0
        while True:
            self._draw(self._picture(FRAMES[beat % len(FRAMES)]))
            beat += 1
            await asyncio.sleep(TICK_S)

    def _picture(self, frame: str) -> list[Text]:
        extra = list(self._extra())
        rows = max(4, _rows() - 2 - len(extra))
        return picture(self._tree, datetime.now(UTC), self._columns() - 1, rows, frame, self._command) + extra


def picture(
    tree: Tree, now: datetime, columns: int, rows: int, frame: str, command: Callable[[str], str]
) -> list[Text]:
    """At most `rows` lines of at most `columns` cells; what has ended gives way first."""
    asked = [line for waiting in tree.waiting for line in _question(*waiting, columns, command)]
    asked = asked[: max(2, rows - 2) // 2 * 2]
    lines = list(_shown(tree, max(1, rows - len(asked))))
    width = min(NAME_CELLS, max(len(lead) + len(branch.name) for lead, branch in lines if branch) + 2)
    return [
        _line(lead, branch, now, columns, width, frame) if branch else Text(lead, "dim")
        for lead, branch in lines
    ] + asked


def _shown(tree: Tree, rows: int) -> "Iterator[tuple[str, Branch | None]]":
    """Each branch with the lines that lead to it; None: only the words, about those there is no room for."""
    every = list(_leads(tree.root))
    if len(every) <= rows:
        yield from every
        return
    working = [one for one in every if one[1].tally.ended is None or one[1] is tree.root]
    kept = working[: max(1, rows - 1)]
    yield from kept
    left, over = len(every) - len(kept), len(every) - len(working)
    if rows > 1:
        yield f"   … {left} more agents, {over} of them have ended", None


def _leads(branch: Branch, before: str = "", own: str = "") -> Iterator[tuple[str, Branch]]:
    yield own, branch
    for child in branch.children:
        last = child is branch.children[-1]
        yield from _leads(child, before + ("   " if last else "│  "), before + ("└─ " if last else "├─ "))


def _line(lead: str, branch: Branch, now: datetime, columns: int, width: int, frame: str) -> Text:
    mark, doing, long, style = _doing(branch.tally, now, frame)
    name = Text(lead, "dim") + Text(branch.name, "bold")
    name.truncate(width - 1, overflow="ellipsis", pad=True)
    counts = _counts(branch.tally, now, columns)
    room = max(1, columns - width - len(counts) - 4)
    text = Text(doing, style)
    text.truncate(max(1, room - len(long)), overflow="ellipsis")
    text.append(long)
    text.truncate(room, pad=True)
    whole = name + " " + Text(f"{mark} ", style) + text + "  " + Text(counts, "dim")
    whole.truncate(columns, overflow="ellipsis")
    return whole


def _doing(tally: Tally, now: datetime, frame: str) -> tuple[str, str, str, str]:
    """Mark, what, for how long if that is long, style."""
    if tally.ended:
        mark = "✓" if tally.state == "completed" else "✗"
        because = f": {row_of(tally.reason)}" if tally.reason else ""
        return mark, f"{tally.state}{because}", "", STYLES.get(tally.state, "yellow")
    since = (now - tally.changed).total_seconds() if tally.changed else 0.0
    long = f" {since:.0f} s" if since >= LONG_S else ""
    return ("▲", tally.doing(), long, "yellow") if tally.waiting else (frame, tally.doing(), long, "")


def _counts(tally: Tally, now: datetime, columns: int) -> str:
    until = tally.ended or now
    took = elapsed(max(0.0, (until - tally.started).total_seconds()) * 1000) if tally.started else ""
    if not tally.ended and took.endswith(" ms"):
        took = ""  # a number that changes ten times a second is no number
    if columns < ROOM_FOR_COUNTS:
        return f"{took:>8}"
    steps = f"{tally.model_calls} step{' ' if tally.model_calls == 1 else 's'}"
    return f"{steps:>7} {tokens(tally.used.total):>6} tok {took:>8}"


def _question(
    branch: Branch, approval: str, call: str, columns: int, command: Callable[[str], str]
) -> Iterator[Text]:
    name = short(approval)
    yield Text(f"▲ {name}  {branch.name}: {branch.tally.told(call)}", "bold yellow")
    answer = command(f"approvals approve {name}")
    yield Text(
        f"  {answer}" if len(answer) + 2 <= columns else f"  roundturn approvals approve {name}", "yellow"
    )


def _rows() -> int:
    try:
        return os.get_terminal_size(2).lines or 24
    except (OSError, ValueError):
        return 24
