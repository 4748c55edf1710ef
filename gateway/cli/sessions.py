"""`send`, `stop` and `sessions`: what is said to a session, and which there are."""

import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.command import Scene, opened, perform
from gateway.cli.exits import Code, more
from gateway.cli.follow import SAFE, behind
from gateway.cli.options import Actor, Color, Header, Home, Json, Limit, Quiet, Verbose, Width, actor
from gateway.cli.screen import Screen
from gateway.cli.tally import Tally
from gateway.cli.text import ago, elapsed, one_line, revealed, rfc3339, row_of, short
from roundturn.errors import Settled

if TYPE_CHECKING:
    from gateway.client import Client, SessionOverview
    from roundturn.store import TurnRow

STOP_WAIT_S = 10.0
COLUMNS = ("ID", "STATE", "AGENT", "TITLE", "LAST", "WAITS")


async def send_message(scene: Scene, session: str, text: str, key: str | None) -> int:
    async with opened(scene, needed=False) as client:
        sent = await client.send((await client.find_session(session)).id, text, key)
    accepted, screen = sent.accepted, scene.screen
    if screen.mode == "json":
        screen.document({"session": accepted.session, "turn": accepted.turn})
    else:
        screen.data(accepted.turn)
    if not sent.rung:
        screen.talk(SAFE, "yellow")
    elif accepted.position and screen.progress:
        screen.talk(behind(accepted.position))
    if accepted.repeated and screen.progress:
        screen.talk("this key was sent before; nothing was added")
    return Code.DONE


async def stop_run(scene: Scene, target: str, origin: str, wait: bool) -> int:
    async with opened(scene, needed=False) as client:
        began = time.monotonic()
        run = await client.stop(target, origin)
        if wait and run.state in ("active", "cancelled"):
            run = await client.quiet(run.id, timedelta(seconds=STOP_WAIT_S))
        turn = (await client.turns_of_run(run.id))[-1]
        tally = Tally()
        async for event in client.events(run.id):
            tally.add(event)
    if run.state != "cancelled" and run.ended_at is not None:
        raise Settled(f"{run.id} had already ended: {run.state}", "there was nothing to stop")
    if scene.screen.mode == "json":
        state = "running" if run.state == "active" else run.state
        scene.screen.document({"session": run.session, "turn": turn.id, "run": run.id, "state": state})
    elif run.ended_at is not None:
        scene.screen.data(f"stopped · {run.id} · after {elapsed((time.monotonic() - began) * 1000)}")
    else:
        scene.screen.data(f"stop accepted · {run.id} · it ends when a worker hears of it")
    if tally.unknown and scene.screen.progress:
        one = len(tally.unknown) == 1
        many = "1 side effect has" if one else f"{len(tally.unknown)} side effects have"
        named = ", ".join(tally.told(call) for call in tally.unknown)
        again = "doing it again" if one else "doing them again"
        scene.screen.talk(f"{many} an unknown outcome: {named}; look before {again}", "red")
    return Code.DONE


async def _tally(client: "Client", turn: "TurnRow") -> Tally:
    """Of what happened in this turn: its run may have others."""
    tally, now = Tally(), turn.run
    async for event in client.events(turn.run):
        if event.type == "turn.started":
            now = event.data.get("turn", turn.run)
        if now == turn.id:
            tally.add(event)
    return tally


async def list_sessions(scene: Scene, limit: int) -> int:
    async with opened(scene, temporal=False) as client:
        lines = [_line(seen) for seen in await client.overview(limit)]
    screen = scene.screen
    if screen.mode == "json":
        screen.items(lines)
    elif screen.quiet:
        for line in lines:
            screen.data(line["session"])
    elif lines or not screen.terminal:
        screen.rows(
            COLUMNS, [_cells(line, screen.terminal) for line in lines], cut=("TITLE",), spare=("LAST",)
        )
    if not lines and screen.mode == "text":
        screen.talk("no sessions yet; start one with: " + scene.command("run TEXT"))
    return Code.DONE


async def show_session(scene: Scene, target: str) -> int:
    """The conversation as its journals and turns have it: what was asked, what was done, what was answered."""
    screen = scene.screen
    async with opened(scene, temporal=False) as client:
        turns = [(turn, await _tally(client, turn)) for turn in await client.turns(target)]
    if screen.mode == "json":
        screen.items([_turn(turn, tally) for turn, tally in turns])
        return Code.DONE
    for turn, tally in turns:
        number = turn.id.rsplit("/", 1)[1]
        screen.data(f"{number}  > {_indented(revealed(_message(tally)))}")
        for call in tally.calls:
            screen.data(f"   · {tally.told(call)}{'  (outcome unknown)' if call in tally.unknown else ''}")
        if turn.text:
            screen.data(f"   {_indented(turn.text)}")
        if turn.state != "completed":
            screen.data(f"   ({': '.join(part for part in (turn.state, row_of(turn.reason)) if part)})")
    return Code.DONE


def _message(tally: Tally) -> str:
    """What the turn was about: somebody's words, or what its subagents have brought."""
    many = len(tally.delivered)
    return tally.text if not many else f"[{many} result{'' if many == 1 else 's'} of subagents]"


def _indented(text: str) -> str:
    return text.rstrip().replace("\n", "\n   ")


def _turn(turn: "TurnRow", tally: Tally) -> dict[str, Any]:
    calls = [
        {"call": call, "tool": asked.tool, "effect": asked.effect, "shown": asked.shown}
        for call, asked in tally.calls.items()
    ]
    return {
        "turn": turn.id,
        "state": turn.state,
        "reason": turn.reason,
        "message": _message(tally),
        "calls": calls,
        "text": turn.text,
    }


def _line(seen: "SessionOverview") -> dict[str, Any]:
    row, turn = seen.row, seen.turn
    return {
        "session": row.id,
        "state": _state(seen),
        "agent": row.agent,
        "title": seen.title,
        "last_turn": turn.id if turn else None,
        "last_at": rfc3339((turn.ended_at or turn.started_at or turn.created_at) if turn else row.created_at),
        "waits": seen.waits,
    }


def _state(seen: "SessionOverview") -> str:
    if seen.run is not None and seen.waits:
        return "waiting for a person"
    if seen.run is not None and seen.turn is not None and seen.turn.ended_at is not None:
        return "waiting for subagents"
    if seen.turn is None or seen.turn.state == "completed":
        return "idle"
    if seen.turn.ended_at is not None:
        return f"idle ({seen.turn.state})"
    return seen.turn.state


def _cells(line: dict[str, Any], terminal: bool) -> tuple[str, ...]:
    title = one_line(revealed(line["title"]))
    if not terminal:
        return line["session"], line["state"], line["agent"], title, line["last_at"], str(line["waits"])
    last = ago(datetime.fromisoformat(line["last_at"]), datetime.now(UTC))
    return short(line["session"]), line["state"], line["agent"], title[:48], last, str(line["waits"] or "-")


def register(app: typer.Typer) -> None:
    send_more = more(
        'roundturn send s_7kq2mz9d "and the changelog too"',
        'roundturn send s_7kq2mz9d "nightly report" --key 2026-11-29 --json',
        "git log -5 | roundturn send s_7kq2mz9d -",
    )
    stop_more = more(
        "roundturn stop s_7kq2mz9d",
        "roundturn stop s_7kq2mz9d/2 --as approver-a",
        "roundturn stop s_7kq2mz9d --no-wait --json",
        codes=(Code.TOO_LATE,),
    )
    sessions_more = more(
        "roundturn sessions",
        "roundturn sessions s_7kq2mz9d",
        "roundturn sessions --limit 5 --json",
        "roundturn sessions --quiet | head -1",
    )
    session_argument = typer.Argument(metavar="SESSION", help="s_…, or a beginning of it that is unique.")

    @app.command(epilog=send_more)
    def send(
        session: Annotated[str, session_argument],
        text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads stdin.")],
        key: Annotated[str | None, typer.Option("--key", help="Sent twice, it is one message.")] = None,
        json: Json = False,
        quiet: Quiet = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Put a message into a session's inbox and leave."""
        said = sys.stdin.read() if text == "-" else text
        screen = Screen("json" if json else "text", color=color, quiet=quiet)
        return perform(lambda scene: send_message(scene, session, said, key), screen, home, verbose)

    @app.command(epilog=stop_more)
    def stop(
        target: Annotated[
            str, typer.Argument(metavar="SESSION|RUN", help="s_… for what it works on, or s_…/N.")
        ],
        who: Actor = None,
        no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the end.")] = False,
        json: Json = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Stop a run; its open approvals are cancelled and nothing new begins."""
        screen = Screen("json" if json else "text", color=color)
        return perform(lambda scene: stop_run(scene, target, actor(who), not no_wait), screen, home, verbose)

    @app.command(epilog=sessions_more)
    def sessions(
        session: Annotated[
            str | None, typer.Argument(metavar="[SESSION]", help="Show the conversation of this one.")
        ] = None,
        limit: Limit = 50,
        json: Json = False,
        quiet: Quiet = False,
        header: Header = False,
        color: Color = "auto",
        width: Width = None,
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """List sessions, newest first, or show what was said in one."""
        screen = Screen("json" if json else "text", color=color, width=width, header=header, quiet=quiet)
        if session is not None:
            return perform(lambda scene: show_session(scene, session), screen, home, verbose)
        return perform(lambda scene: list_sessions(scene, limit), screen, home, verbose)
