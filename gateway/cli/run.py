"""`run`: send a message, follow what comes of it, answer with the text and an exit code."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.exits import Code, of_ending
from gateway.cli.options import Color, Home, Json, Jsonl, Quiet, Verbose, actor, more
from gateway.cli.screen import Mode, Pulse, Screen
from gateway.cli.stage import Scene, full_target, opened, perform
from gateway.cli.words import elapsed, epoch_ms, tokens
from roundturn.errors import RoundturnError, UsageError

if TYPE_CHECKING:
    from gateway.cli.tally import Tally
    from gateway.client import Client
    from roundturn.event import RunEvent
    from roundturn.store import TurnRow

DEFAULT_AGENT = "assistant"
ALL_APPROVALS = 1000
STATES = ("pending", "approved", "denied", "expired", "cancelled", "consumed")
SAFE = "Temporal does not answer. The message is safe and will be run when Temporal is back."


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    text: str
    agent: str | None
    session: str | None
    workdir: Path | None
    wait: bool
    until_approval: bool
    timeout_s: float | None
    stop_on_interrupt: bool


async def run_and_follow(scene: Scene, wanted: Wanted) -> int:
    from gateway.cli.tally import Tally

    async with opened(scene) as client:
        session = await _session(client, wanted)
        sent = await client.send(session, wanted.text)
        run, tally = sent.accepted.turn, Tally()
        _announce(scene, session, run, sent.rung)
        if not wanted.wait:
            return _handed_over(scene.screen, session, run)
        follower = Following(scene, client, run, tally, behind=sent.accepted.position)
        follower.on_leaving(wanted.stop_on_interrupt)
        how = await follower.until(wanted.until_approval, wanted.timeout_s)
        scene.on_interrupt = None
        if how == "timeout":
            scene.screen.talk(f"--timeout ran out after {wanted.timeout_s:g} s. The run goes on.", "yellow")
            scene.screen.talk(scene.farewell[-1])
        return await _finish(scene, client, run, tally, how)


async def _session(client: "Client", wanted: Wanted) -> str:
    if wanted.session is None:
        return (await client.open_session(wanted.agent or DEFAULT_AGENT, wanted.workdir)).id
    if wanted.workdir is not None:
        raise UsageError("a session keeps its directory", "leave out --workdir, or start without --session")
    session = await full_target(client, wanted.session)
    known = await client.store.sessions.read(session)
    if known is not None and wanted.agent not in (None, known.agent):
        raise UsageError(f"session {session} works with {known.agent}", "leave out --agent")
    return session


def _announce(scene: Scene, session: str, run: str, rung: bool) -> None:
    if scene.screen.progress:
        scene.screen.talk(f"session {session} · turn {run.rsplit('/', 1)[1]}", "dim")
    if not rung:
        scene.screen.talk(SAFE, "yellow")
    if scene.screen.quiet:
        scene.screen.data(session)


def _handed_over(screen: Screen, session: str, run: str) -> int:
    if screen.mode != "text":
        screen.document({"session": session, "turn": run})
    elif not screen.quiet:
        screen.data(session)
    return Code.DONE


class Following:
    """A run under way: events to rows or JSON lines, hints when nothing happens, an answer to Ctrl-C."""

    def __init__(self, scene: Scene, client: "Client", run: str, tally: "Tally", behind: int) -> None:
        from gateway.cli.follow import Rows, say_how_to_return

        self._scene = scene
        self._client = client
        self._run = run
        self._tally = tally
        self._behind = behind
        self._rows = Rows(scene, tally)
        self._pulse = Pulse(scene.screen)
        self._stopping: asyncio.Task[None] | None = None
        say_how_to_return(scene, run)

    def on_leaving(self, stop: bool) -> None:
        def begin() -> None:
            self._scene.screen.talk("stopping … (Ctrl-C again leaves)", "yellow")
            self._stopping = asyncio.create_task(self._stop())

        self._scene.on_interrupt = begin if stop else None

    async def _stop(self) -> None:
        try:
            await self._client.stop(self._run, actor(None))
        except RoundturnError as fault:
            self._scene.screen.talk(f"the stop was not accepted: {fault.detail}", "red")

    async def until(self, approval: bool, timeout_s: float | None) -> str:
        """`ended`, `waits` for a person, or `timeout`."""
        from gateway.cli.follow import beside

        works = [self._say_when_nothing_happens()]
        if self._scene.screen.progress:
            works.append(self._pulse.run())
        try:
            async with asyncio.timeout(timeout_s) as limit, beside(*works):
                return await self._follow(approval)
        except TimeoutError:
            if not limit.expired():
                raise
            return "timeout"

    async def _follow(self, until_approval: bool) -> str:
        from gateway.cli.follow import events_of

        self._pulse.now(self._tally.doing())
        async for event in events_of(self._client, self._run, 0, self._scene.screen):
            self._tally.add(event)
            self._rows.show(event)
            self._pulse.now(self._tally.doing())
            if self._scene.screen.mode == "jsonl":
                self._scene.screen.document(as_json(event))
            asks = until_approval and event.type == "approval.requested"
            if asks and await self._client.store.approvals.page(["pending"], self._run, 1):
                return "waits"
        return "ended"

    async def _say_when_nothing_happens(self) -> None:
        from gateway.cli.follow import NO_WORKER_S

        await asyncio.sleep(NO_WORKER_S)
        if self._tally.started:
            return
        if self._behind:
            self._scene.screen.talk(f"behind {self._behind} earlier message(s) of this session", "yellow")
        else:
            hint = self._scene.command("worker")
            self._scene.screen.talk(f"no worker has taken this up yet; is one running? {hint}", "yellow")


def as_json(event: "RunEvent") -> dict[str, Any]:
    return {
        "run": event.run,
        "offset": event.offset,
        "type": event.type,
        "ts": epoch_ms(event.ts),
        "data": event.data,
    }


async def _finish(scene: Scene, client: "Client", run: str, tally: "Tally", how: str) -> int:
    screen = scene.screen
    turn = await client.find_turn(run)
    if screen.mode != "text":
        document = await _document(client, turn, tally)
        screen.document({"type": "result", **document} if screen.mode == "jsonl" else document)
    elif how == "ended" and turn.state not in ("failed", "cancelled") and turn.text and not screen.quiet:
        apart = screen.terminal and screen.talks_to_person
        for line in ("", turn.text, "") if apart else (turn.text,):
            screen.data(line) if line else screen.talk()
    if how != "ended":
        return Code.TIMEOUT if how == "timeout" else Code.WAITS
    if screen.progress:
        _say_ending(screen, turn, tally)
    elif screen.mode == "text" and turn.reason:
        screen.talk(turn.reason)
    return of_ending(turn.state, bool(tally.unknown))


async def _document(client: "Client", turn: "TurnRow", tally: "Tally") -> dict[str, Any]:
    approvals = await client.store.approvals.page(STATES, turn.id, ALL_APPROVALS)
    return {
        "session": turn.session,
        "turn": turn.id,
        "run": turn.run,
        "state": turn.state,
        "reason": turn.reason,
        "text": turn.text,
        "steps": turn.steps,
        "usage": turn.usage.model_dump(),
        "cost": {"usd": None, "unpriced_calls": tally.model_calls},
        "approvals": [{"approval_id": row.id, "state": row.state} for row in approvals],
    }


def _say_ending(screen: Screen, turn: "TurnRow", tally: "Tally") -> None:
    parts = [turn.state, f"{turn.steps} step{'' if turn.steps == 1 else 's'}"]
    if turn.ended_at is not None:
        took = elapsed((turn.ended_at - (turn.started_at or turn.created_at)).total_seconds() * 1000)
        waited = tally.waited.total_seconds() * 1000
        parts.append(f"{took} ({elapsed(waited)} waiting for a person)" if waited else took)
    used = turn.usage
    if used.input_tokens is not None:
        cached = f" ({tokens(used.cached_tokens)} cached)" if used.cached_tokens else ""
        parts.append(f"{tokens(used.input_tokens)} in{cached} {tokens(used.output_tokens)} out")
    screen.talk(" · ".join(parts), "dim")
    for call in tally.unknown:
        tool = tally.tool({"call": call})
        screen.talk(f"outcome unknown: {tool} ({call}); look before you repeat it", "red")
    if turn.reason:
        screen.talk(turn.reason, "red" if turn.state == "failed" else "yellow")


def register(app: typer.Typer) -> None:
    epilog = more(
        'roundturn run "Summarise README.md" --workdir .',
        'roundturn run "And now in French" --session s_7kq2mz9d > answer.txt',
        'roundturn run "Ship 2.4.1" --until-approval --json',
        codes=(
            Code.WAITS,
            Code.INCOMPLETE,
            Code.CANCELLED,
            Code.UNKNOWN_OUTCOME,
            Code.TIMEOUT,
            Code.TERMINATED,
        ),
    )

    @app.command(epilog=epilog)
    def run(
        text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent should do; - reads stdin.")],
        agent: Annotated[str | None, typer.Option("--agent", help="Which agent starts the session.")] = None,
        session: Annotated[str | None, typer.Option("--session", help="Go on in this session.")] = None,
        workdir: Annotated[
            Path | None, typer.Option("--workdir", metavar="DIR", help="Where the tools work.")
        ] = None,
        no_wait: Annotated[bool, typer.Option("--no-wait", help="Print the session's id and leave.")] = False,
        until_approval: Annotated[
            bool, typer.Option("--until-approval", help="Leave with 3 when a person is asked.")
        ] = False,
        timeout: Annotated[
            float | None,
            typer.Option("--timeout", min=0, metavar="SECONDS", help="Leave after that; the run goes on."),
        ] = None,
        stop_on_interrupt: Annotated[
            bool, typer.Option("--stop-on-interrupt", help="Ctrl-C stops the run.")
        ] = False,
        json: Json = False,
        jsonl: Jsonl = False,
        quiet: Quiet = False,
        color: Color = "auto",
        home: Home = None,
        verbose: Verbose = False,
    ) -> int:
        """Send a message to an agent, follow the run, print the answer."""
        mode: Mode = "jsonl" if jsonl else "json" if json else "text"
        said = sys.stdin.read() if text == "-" else text
        wanted = Wanted(said, agent, session, workdir, not no_wait, until_approval, timeout, stop_on_interrupt)  # fmt: skip
        screen = Screen(mode, color=color, quiet=quiet)
        return perform(lambda scene: run_and_follow(scene, wanted), screen, home, verbose)
