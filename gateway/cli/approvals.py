"""`approvals list|show`: what waits for a person, and everything that a person needs to decide."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.options import Color, Header, Home, Json, Jsonl, Limit, Quiet, Verbose, Width
from gateway.cli.screen import Mode, Screen
from gateway.cli.text import clock, grouped, one_line, revealed, rfc3339, short, until
from roundturn.jsontext import dump

if TYPE_CHECKING:
    from gateway.client import Client, Question
    from roundturn.approval import ApprovalRow

WATCH_S = 0.5
COLUMNS = ("ID", "STATE", "TOOL", "SUMMARY", "AGENT", "EXPIRES")
# `roundturn.approval.State` and "all", in words of its own so that --help need not import it; a test compares them.
StateChoice = Literal["pending", "approved", "denied", "expired", "cancelled", "consumed", "all"]


def item(row: "ApprovalRow") -> dict[str, Any]:
    """An approval as every list and document shows it."""
    return {
        "approval_id": row.id,
        "state": row.state,
        "kind": "approval",
        "session": row.session,
        "turn": row.turn,
        "call": row.call,
        "tool": row.tool,
        "arguments": row.arguments,
        "digest": row.digest,
        "rule": row.rule,
        "reason": row.reason,
        "expires_at": rfc3339(row.expires_at),
        "workflow_id": row.workflow_id,
    }


def summary(arguments: dict[str, Any]) -> str:
    """What the call is about in one line, hidden characters visible: its texts, or all values without any."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return " ".join(one_line(revealed(_text(value))) for value in texts or arguments.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


async def list_approvals(
    scene: Scene, state: StateChoice, target: str | None, limit: int, watch: bool
) -> int:
    async with opened(scene, temporal=False) as client:
        run = None if target is None else (await client.find_turn(target)).run
        if watch:
            await _watch(scene, client, state, run, limit)
        rows = await client.approvals(state, run, limit)
    screen = scene.screen
    if screen.mode != "text":
        screen.items([item(row) for row in rows])
        return Code.DONE
    if screen.quiet:
        for row in rows:
            screen.data(row.id)
    elif rows or (screen.header and not screen.terminal):
        screen.rows(
            COLUMNS, [_cells(row, screen.terminal) for row in rows], cut=("SUMMARY",), spare=("AGENT",)
        )
    if not rows:
        screen.talk("nothing waits" if state == "pending" else f"no approval is {state}")
    elif screen.terminal:
        zone = datetime.now().astimezone().tzname()
        screen.talk(f"{len(rows)} · times in {zone} · show: {scene.command('approvals show ID')}", "dim")
    return Code.DONE


async def _watch(scene: Scene, client: "Client", state: StateChoice, run: str | None, limit: int) -> None:
    """Until Ctrl-C: a line for each approval that appears or, when other states are listed too, changes."""
    scene.farewell = ["Left. What waits goes on waiting."]
    seen: set[tuple[str, str]] = set()
    while True:
        for row in await client.approvals(state, run, limit):
            if (row.id, row.state) in seen:
                continue
            seen.add((row.id, row.state))
            if scene.screen.mode != "text":
                scene.screen.document(item(row))
            elif scene.screen.terminal:
                scene.screen.data("  ".join(_cells(row, terminal=True)))
            else:
                scene.screen.fields(_cells(row, terminal=False))
        await asyncio.sleep(WATCH_S)


def _cells(row: "ApprovalRow", terminal: bool) -> tuple[str, ...]:
    said = summary(row.arguments)
    if not terminal:
        return row.id, row.state, one_line(revealed(row.tool)), said, row.agent, rfc3339(row.expires_at)
    now = datetime.now(UTC)
    return (
        short(row.id),
        row.state,
        one_line(revealed(row.tool)),
        said[:60],
        row.agent,
        until(row.expires_at, now),
    )


class Shown:
    """One approval with what surrounds it, as lines for a person."""

    def __init__(self, question: "Question") -> None:
        self.row = question.row
        self._cwd = question.cwd
        self._call = question.call

    def lines(self) -> list[str]:
        row = self.row
        state = f"{row.state} · expires {until(row.expires_at, datetime.now(UTC))}"
        head = f"Run {revealed(row.tool)}?"
        lines = [f"{head:<52} {state if row.state == 'pending' else row.state}"]
        lines += self._what()
        lines += [
            _field("cwd", f"{revealed(self._cwd)}{self._nature()}"),
            _field("why", f"rule {row.rule} ({row.layer} layer): {revealed(row.reason)}"),
            _field("from", f"{row.agent} · session {short(row.session)} · turn {row.turn.rsplit('/', 1)[1]}"),
        ]
        if row.actor is not None and row.decided_at is not None:
            note = f': "{revealed(row.note)}"' if row.note else ""
            lines.append(_field("answer", f"{revealed(row.actor)} at {clock(row.decided_at)}{note}"))
        if row.state == "pending":
            lines.append("  on expiry the call is refused and the agent goes on")
        digest = grouped(row.digest[:12])
        if hidden := _hidden(row):
            digest += f"      of the exact call: secrets are hidden above, in {f'{hidden} place' + ('s' if hidden > 1 else '')}"
        lines.append(_field("digest", digest))
        return lines

    def _what(self) -> list[str]:
        """Whole, however long: what is shown is what is approved."""
        values = {name: revealed(_text(value)) for name, value in self.row.arguments.items()}
        lead = values.pop("command", None) or (values.popitem()[1] if len(values) == 1 else None)
        width = max((len(name) for name in values), default=0)
        texts = [] if lead is None else [_indented(lead, 11)]
        texts += [f"{name:<{width}}  {_indented(text, width + 13)}" for name, text in values.items()]
        return [f"  {'' if i else 'what':<8} {text}" for i, text in enumerate(texts)]

    def _nature(self) -> str:
        once = self._call is not None and self._call.effect.value == "once"
        return "      cannot be repeated (once)" if once else ""

    def document(self) -> dict[str, Any]:
        row = self.row
        decided = rfc3339(row.decided_at) if row.decided_at else None
        return item(row) | {
            "agent": row.agent,
            "layer": row.layer,
            "cwd": self._cwd,
            "effect": self._call.effect.value if self._call else None,
            "hidden": _hidden(row),
            "actor": row.actor,
            "note": row.note,
            "decided_at": decided,
        }


def _hidden(row: "ApprovalRow") -> int:
    """In how many places of the arguments; no call that says so itself gets as far as a request."""
    from roundturn.telemetry import HIDDEN

    return dump(row.arguments).count(HIDDEN)


def _field(name: str, text: str) -> str:
    return f"  {name:<8} {_indented(text, 11)}"


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


async def show_approval(scene: Scene, approval: str) -> int:
    async with opened(scene, temporal=False) as client:
        shown = Shown(await client.approval_with_call(approval.lower()))
    screen = scene.screen
    if screen.mode == "json":
        screen.document(shown.document())
        return Code.DONE
    if not screen.terminal:
        for name, value in shown.document().items():
            screen.fields((name, revealed("" if value is None else _text(value))))
        return Code.DONE
    screen.data("\n".join(shown.lines()))
    if shown.row.state == "pending":
        name = short(shown.row.id)
        approve, deny = (scene.command(f"approvals {verb} {name}") for verb in ("approve", "deny"))
        screen.talk(f"approve: {approve}      deny: {deny} --reason TEXT", "dim")
    return Code.DONE


def register(app: typer.Typer) -> None:
    list_more = more(
        "roundturn approvals list",
        "roundturn approvals list --state all --run s_7kq2mz9d/1 --json",
        "roundturn approvals list --watch --jsonl",
    )
    show_more = more(
        "roundturn approvals show ap_7kq2mz9d",
        "roundturn approvals show 7kq2mz9d --json | jq -r .digest",
        "roundturn approvals show ap_7kq2mz9d | cut -f2",
    )

    @app.command("list", epilog=list_more)
    def list_(
        state: Annotated[StateChoice, typer.Option("--state", help="Which ones.")] = "pending",
        run: Annotated[
            str | None, typer.Option("--run", metavar="RUN", help="Of this run and its subagents only.")
        ] = None,
        watch: Annotated[
            bool, typer.Option("--watch", help="Add a line for each new one, until Ctrl-C.")
        ] = False,
        limit: Limit = 100,
        json: Json = False,
        jsonl: Jsonl = False,
        quiet: Quiet = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """List what waits for a person, oldest first."""
        mode: Mode = "jsonl" if jsonl else "json" if json else "text"
        screen = Screen(mode, color=color, width=width, header=header, quiet=quiet)
        return perform(lambda scene: list_approvals(scene, state, run, limit, watch), screen, home, verbose)

    @app.command(epilog=show_more)
    def show(
        approval: Annotated[str, typer.Argument(metavar="ID", help="ap_…, or a beginning that is unique.")],
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Show one request whole: what, where, why, from whom, until when."""
        screen = Screen("json" if json else "text", color=color)
        return perform(lambda scene: show_approval(scene, approval), screen, home, verbose)
